"""A package is installed where there is no compiler, and a record goes through its broker."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from deploy.release.build import ROOT, run

if TYPE_CHECKING:
    from pathlib import Path

    from deploy.release.build import Package

READY = b"ottla: ready at "
STOP_S = 60.0
RECORDS = ROOT / "protocol" / "records"
COMPILED = sorted(path.stem for path in RECORDS.glob("compiled_*.pyx"))
IMPORT = f"from ottla.protocol.records import {', '.join(COMPILED)}"
RECORD = "a record through the package"


def try_package(package: Package, folder: Path) -> str | None:
    """Install and use a package in a new environment; one sentence if it does not work."""
    folder.mkdir(parents=True)
    environment = without_compiler(folder)
    try:
        run([sys.executable, "-m", "venv", str(folder / "venv")])
        python = str(folder / "venv" / "bin" / "python")
        wheels = ["--only-binary", ":all:"] if package.path.suffix == ".whl" else []
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run([*pip, *wheels, str(package.path)], environment)
        if _imports(python, IMPORT) != package.is_compiled:
            return f"the compiled codec is {'missing' if package.is_compiled else 'inside'}"
        return _use(folder, environment)
    except RuntimeError as error:
        return str(error)


def without_compiler(folder: Path) -> dict[str, str]:
    """The environment of a machine that has no compiler, and settings of no cluster."""
    kept = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ}
    kept |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    return {**kept, "PATH": str(folder / "venv" / "bin"), "CC": "false", "TMPDIR": str(folder)}


def _imports(python: str, statement: str) -> bool:
    # -I: the modules of the installed package count, not those of the tree.
    done = subprocess.run([python, "-I", "-c", statement], capture_output=True, check=False)
    return done.returncode == 0


def _use(folder: Path, environment: dict[str, str]) -> str | None:
    """Start a broker, write a record, read it back, and let ottla doctor look."""
    ottla = str(folder / "venv" / "bin" / "ottla")
    version = run([ottla, "--version"], environment).strip()
    if not version.startswith("ottla "):
        return f"ottla --version says {version!r}"
    command = [ottla, "start", "--port", "0", "--data-dir", str(folder / "data")]
    with (folder / "stderr").open("wb") as stderr:
        broker = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=stderr, cwd=folder
        )
    try:
        assert broker.stdout is not None
        line = broker.stdout.readline()
        if not line.startswith(READY):
            return f"ottla start says {(folder / 'stderr').read_text('utf-8')}"
        address = line.removeprefix(READY).decode().strip()
        return _round_trip(ottla, address, environment)
    finally:
        broker.terminate()
        broker.communicate(timeout=STOP_S)


def _round_trip(ottla: str, address: str, environment: dict[str, str]) -> str | None:
    there = ["-b", address]
    run([ottla, "topics", "create", "trial", "-p", "1", *there], environment)
    subprocess.run(
        [ottla, "produce", "trial", "-z", "lz4", *there],
        input=RECORD.encode(),
        env=environment,
        capture_output=True,
        timeout=STOP_S,
        check=True,
    )
    back = run([ottla, "consume", "trial", "--from-beginning", "-e", *there], environment).strip()
    if back != RECORD:
        return f"the record came back as {back!r}"
    run([ottla, "doctor", *there], environment)
    return None
