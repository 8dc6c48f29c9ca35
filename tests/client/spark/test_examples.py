"""The Spark examples run unchanged and print the output that their comments show."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ottla.client.spark.jobs.session import home_without_zip
from tests.client.spark.support.sessions import prepare_environment
from tests.client.test_examples import FOLDER, announced

if TYPE_CHECKING:
    from pathlib import Path

# Ten times what one takes on a machine that does other things as well.
TIMEOUT_S = 1_200
SCRIPTS = ("spark_batch", "spark_jobs", "spark_streams")


@pytest.mark.slow
@pytest.mark.timeout(2 * TIMEOUT_S)
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_runs_and_prints_what_it_says(name: str, tmp_path: Path) -> None:
    """Each runs in a separate process, without a session that tests have prepared."""
    path = FOLDER / "spark" / f"{name}.py"
    prepare_environment()
    home = tmp_path / "spark"
    home.mkdir()
    environment = {**os.environ, "SPARK_HOME": str(home_without_zip(home))}

    done = subprocess.run(
        [sys.executable, str(path)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-5_000:]
    assert re.fullmatch(announced(path), done.stdout), done.stdout
    command = f"python examples/spark/{name}.py"
    assert command in path.read_text("utf-8").partition("from __future__")[0]
