"""Which Python ``make`` takes on a machine that has several, or none that is new enough."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.broker_process import ROOT

if TYPE_CHECKING:
    from pathlib import Path

# Runs ``-c`` with this Python, and reports when it is asked to create an environment.
GOOD = f'#!/bin/sh\n[ "$1" = -c ] && exec {sys.executable} "$@"\necho "made by $0"\n'
OLD = '#!/bin/sh\n[ "$1" = -c ] && exit 1\necho "an old one was taken"\n'
# As Debian's without its package for environments: something is there when it fails.
WITHOUT_PIP = (
    f'#!/bin/sh\n[ "$1" = -c ] && exec {sys.executable} "$@"\n'
    "mkdir -p .venv/bin; touch .venv/bin/python; echo 'apt install python3-venv' >&2; exit 1\n"
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """All that is on the path; the tree is beside it."""
    path = tmp_path / "path"
    path.mkdir()
    for tool in ("make", "sh", "mkdir", "touch", "rm"):
        found = shutil.which(tool)
        assert found is not None
        (path / tool).symlink_to(found)
    shutil.copy(ROOT / "Makefile", tmp_path)
    return path


def put(path: Path, name: str, text: str) -> None:
    """A program."""
    (path / name).write_text(text)
    (path / name).chmod(0o755)


def make(path: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """The first of what ``make run`` makes."""
    return subprocess.run(
        ["make", "-s", ".venv/bin/python", *more],
        cwd=path.parent,
        env={"PATH": str(path)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_first_that_is_new_enough_is_taken(path: Path) -> None:
    """Some systems have no python3, or an old one beside a newer one."""
    put(path, "python3", OLD)
    put(path, "python3.11", GOOD)
    put(path, "python3.12", GOOD)

    assert f"made by {path / 'python3.12'}\n" in make(path).stdout
    (path / "python3.12").unlink()
    assert f"made by {path / 'python3.11'}\n" in make(path).stdout
    put(path, "python3", GOOD)
    assert f"made by {path / 'python3'}\n" in make(path).stdout


@pytest.mark.parametrize("more", [(), ("PYTHON=python3",)])
def test_without_one_it_says_what_is_missing(path: Path, more: tuple[str, ...]) -> None:
    """pip would report versions and leave an environment that looks complete next time."""
    put(path, "python3", OLD)

    done = make(path, *more)

    assert done.returncode != 0
    assert done.stderr.startswith("Ottla needs Python 3.11 or later. Say where it is: make run ")
    assert done.stdout == ""


def test_an_environment_that_could_not_be_made_is_tried_again(path: Path) -> None:
    """A broken environment has no pip, so every later command would fail."""
    put(path, "python3", WITHOUT_PIP)

    assert "apt install" in make(path).stderr
    put(path, "python3", GOOD)
    assert "made by" in make(path).stdout
