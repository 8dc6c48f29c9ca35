"""The compiled codec under the compiler's sanitizers: no byte outside of a buffer is touched."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.broker_process import ROOT

SANITIZED = "-fsanitize=address,undefined"
LIBRARIES = ("libasan.so", "libubsan.so")
TESTS = ("tests/protocol/records", "tests/broker/replica/test_judging_twins.py")
MODULES = "protocol/records"
LEFT_OUT = shutil.ignore_patterns(".*", "build", "dist", "*.so", "*.egg-info", "__pycache__")


def run(folder: Path, *command: str | Path, **variables: str) -> str:
    """Run a command in the copy of the tree; what it printed, if it succeeded."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def build_into(folder: Path) -> int:
    """Compile the copy with sanitizers; how many modules that gave."""
    wheels = folder / "wheels"
    run(
        folder,
        *(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", wheels, "."),
        CFLAGS=f"{SANITIZED} -fno-sanitize-recover=all -O1",
        LDFLAGS=SANITIZED,
    )
    (wheel,) = wheels.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        modules = [name for name in packed.namelist() if name.endswith(".so")]
        for name in modules:
            (folder / name.removeprefix("ottla/")).write_bytes(packed.read(name))
    return len(modules)


def library(name: str) -> str:
    """Where the compiler has a run-time library."""
    found = run(ROOT, "cc", f"-print-file-name={name}").strip()
    assert Path(found).is_absolute(), f"the compiler has no {name}"
    return found


@pytest.mark.soak
def test_the_codec_touches_no_byte_outside_of_its_buffers(tmp_path: Path) -> None:
    """A read past the end of a batch can pass every other test, and crash a broker once a month."""
    copy = tmp_path / "tree"
    shutil.copytree(ROOT, copy, symlinks=True, ignore=LEFT_OUT)
    sources = len([*(copy / MODULES).glob("*.pyx")])

    assert build_into(copy) == sources

    printed = run(
        copy,
        *(sys.executable, "-m", "pytest", "-q", *TESTS, "-p", "no:cacheprovider"),
        *("-m", "not soak and not interop"),
        LD_PRELOAD=" ".join(map(library, LIBRARIES)),
        # The interpreter frees little at its end; its own allocator would hide overruns.
        ASAN_OPTIONS="detect_leaks=0",
        PYTHONMALLOC="malloc",
    )
    assert " passed" in printed
    assert " skipped" not in printed
