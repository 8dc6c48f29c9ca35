"""The package builds with a compiler and without, and says nothing else about the difference."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

import pytest

from tests.protocol.records.twins import has_compiler
from tests.support.broker_process import ROOT

if TYPE_CHECKING:
    from pathlib import Path

FOLDERS = ("ottla", "protocol", "wire", "coordinator", "client", "broker")
FILES = ("pyproject.toml", "setup.py", "README.md", "LICENSE")
SHOW = "from ottla.protocol.records import codec; print(codec.IS_COMPILED, codec.__file__)"


# The package index is asked for the tools that build, as at any installation.
pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]


def _wheel(tmp_path: Path, **environment: str) -> zipfile.ZipFile:
    """Built from a copy of the tree, as an installation builds it."""
    tree = tmp_path / "tree"
    skipped = shutil.ignore_patterns("__pycache__", "*.so", *FOLDERS)
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, tree / folder, ignore=skipped)
    for name in FILES:
        shutil.copy(ROOT / name, tree)
    subprocess.run(
        [sys.executable, "-m", "pip", "--quiet", "wheel", "--no-deps", "--wheel-dir", "..", "."],
        cwd=tree,
        env={**os.environ, **environment},
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    return zipfile.ZipFile(wheel)


def _installed(wheel: zipfile.ZipFile, folder: Path, **environment: str) -> str:
    """What an interpreter that finds the wheel's files first says of its codec."""
    wheel.extractall(folder)
    done = subprocess.run(
        [sys.executable, "-c", SHOW],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "OTTLA_PURE": "", **environment},
        check=True,
        capture_output=True,
        text=True,
    )
    compiled, _, path = done.stdout.strip().partition(" ")
    assert path.startswith(str(folder)), path
    return compiled


def test_a_failing_compiler_leaves_a_package_that_works(tmp_path: Path) -> None:
    """Users must not need a compiler, or have to know that there is a compiled part."""
    with _wheel(tmp_path, CC="/bin/false") as wheel:
        assert not [name for name in wheel.namelist() if name.endswith((".so", ".pyd", ".c"))]
        assert _installed(wheel, tmp_path / "installed") == "False"


@pytest.mark.skipif(not has_compiler(), reason="there is no C compiler here")
def test_a_compiler_gives_the_compiled_codec_until_it_is_switched_off(tmp_path: Path) -> None:
    """OTTLA_PURE=1 is how a doubt about the compiled code is settled in production."""
    with _wheel(tmp_path) as wheel:
        assert _installed(wheel, tmp_path / "installed") == "True"
        assert _installed(wheel, tmp_path / "again", OTTLA_PURE="1") == "False"
