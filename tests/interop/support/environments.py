"""Environments for clients that conflict with the tests' own: created once, kept between runs.

They are kept under ``.venv-interop`` (``INTEROP_CACHE`` names another folder), one folder for each
set of requirements. Delete the folder to rebuild them.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.broker_process import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

PROGRAMS = ROOT / "tests" / "interop" / "programs"
GO_PROGRAMS = (
    *("franz", "franzmember", "franzpipeline", "franzsecured"),
    *("sarama", "saramaold", "saramapipeline", "saramasecured"),
)


def cache_folder() -> Path:
    """The folder of everything that is built or installed for foreign clients."""
    return Path(os.environ.get("INTEROP_CACHE", ROOT / ".venv-interop"))


def made_once(name: str, sources: Path | str, make: Callable[[Path], None]) -> Path:
    """The folder that ``make`` fills, which is called again only when ``sources`` have changed.

    Sources are a folder with files or a text. A folder appears under its name when it is complete,
    so that an interrupted installation is never taken for a finished one.
    """
    digest = hashlib.sha256()
    if isinstance(sources, Path):
        for path in sorted(p for p in sources.rglob("*") if p.is_file()):
            digest.update(str(path.relative_to(sources)).encode() + b"\0" + path.read_bytes())
    else:
        digest.update(sources.encode())
    folder = cache_folder() / f"{name}-{digest.hexdigest()[:12]}"
    ready = folder / "ready"
    if not ready.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        make(folder)
        ready.touch()
    return folder


def run(*command: str | Path, cwd: Path, **environment: str) -> None:
    """Run a build step; the exception of a failure contains its output."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed: {(done.stdout + done.stderr)[-3000:]}")


@cache
def python_with(*requirements: str) -> Path:
    """The interpreter of a virtual environment that has these packages."""

    def make(folder: Path) -> None:
        run(sys.executable, "-m", "venv", folder, cwd=folder)
        python = folder / "bin" / "python"
        run(python, "-m", "pip", "install", "--quiet", *requirements, cwd=folder)

    name = re.sub(r"[^A-Za-z0-9.]+", "-", requirements[0])
    sources = "\n".join((*requirements, sys.version))
    return made_once(name, sources, make) / "bin" / "python"


@cache
def java_classpath(kafka_version: str) -> str:
    """The classes of our program and of that Kafka's clients and tools."""

    def make(folder: Path) -> None:
        project = _copied("java", folder)
        run("mvn", "-q", "-B", f"-Dkafka.version={kafka_version}", "package", cwd=project)

    target = made_once(f"java-{kafka_version}", PROGRAMS / "java", make) / "project" / "target"
    return f"{target / 'classes'}:{target / 'jars'}/*"


@cache
def zookeeper_jars(version: str) -> Path:
    """The folder with the archives of a ZooKeeper server."""

    def make(folder: Path) -> None:
        project = _copied("zookeeper", folder)
        copy = ("dependency:copy-dependencies", f"-DoutputDirectory={folder / 'jars'}")
        run("mvn", "-q", "-B", f"-Dzookeeper.version={version}", *copy, cwd=project)

    return made_once(f"zookeeper-{version}", PROGRAMS / "zookeeper", make) / "jars"


@cache
def old_kafka_jars(version: str) -> Path:
    """The folder with the archives of a Kafka of 0.8 to 0.10: clients and tools."""

    def make(folder: Path) -> None:
        project = _copied("oldkafka", folder)
        copy = ("dependency:copy-dependencies", f"-DoutputDirectory={folder / 'jars'}")
        run("mvn", "-q", "-B", f"-Dkafka.version={version}", *copy, cwd=project)

    return made_once(f"kafka-{version}", PROGRAMS / "oldkafka", make) / "jars"


@cache
def go_program(name: str) -> Path:
    """One of the Go programs, built."""

    def make(folder: Path) -> None:
        project = _copied("go", folder)
        for package in GO_PROGRAMS:
            run("go", "build", "-o", folder / "bin" / package, f"./{package}", cwd=project)

    return made_once("go", PROGRAMS / "go", make) / "bin" / name


@cache
def node_program(name: str) -> Path:
    """One of the JavaScript programs, beside its installed dependencies."""

    def make(folder: Path) -> None:
        project = _copied("node", folder)
        # A dependency of the oldest client is compiled by its script, and not needed.
        options = ("--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts")
        run("npm", "install", *options, cwd=project)

    return made_once("node", PROGRAMS / "node", make) / "project" / name


def _copied(language: str, folder: Path) -> Path:
    """Builds leave files behind, which must not end up among our sources."""
    return shutil.copytree(PROGRAMS / language, folder / "project")
