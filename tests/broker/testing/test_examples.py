"""The example test-suites run as their readers would run them."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import entry_points

import pytest

from tests.tidy.tree import ROOT

FOLDER = ROOT / "examples" / "testing"
PLUGIN = "ottla.pytest_plugin"


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["confluent_kafka", "aiokafka", "ottla", "users"])
def test_an_example_suite_passes(name: str) -> None:
    """Users copy the examples first, so they have to work."""
    installed = {point.value for point in entry_points(group="pytest11")}
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-c", str(FOLDER / "pytest.ini")),
            *("-p", "no:cacheprovider"),
            *([] if PLUGIN in installed else ["-p", PLUGIN]),
            str(FOLDER / f"test_with_{name}.py"),
        ],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-5_000:] + done.stderr[-2_000:]
    assert re.search(r"\b[3-9] passed", done.stdout)
