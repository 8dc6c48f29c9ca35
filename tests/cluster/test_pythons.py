"""The package on the other Pythons that it names, as far as this machine has them: installed from
the checkout with all it needs, and used. All other tests run on one Python."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.broker_process import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDERS = ("ottla", "broker", "client", "coordinator", "protocol", "wire")
FILES = ("pyproject.toml", "setup.py", "README.md", "LICENSE")
NAMED = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text("utf-8"))
OWN = f"{sys.version_info.major}.{sys.version_info.minor}"
ENDS_WITHIN_S = 30.0
CLUSTER = """
import asyncio, ottla
async def main():
    async with ottla.Cluster(brokers=3) as cluster:
        servers = cluster.bootstrap_servers
        async with ottla.Producer(servers, allow_auto_create=True) as producer:
            await (await producer.send_batch("t", [b"%d" % number for number in range(1000)]))
        own, seen = ottla.Consumer(servers, group_id="g", offset_reset="earliest"), 0
        async with own as consumer:
            await consumer.subscribe(["t"])
            async for record in consumer:
                seen += 1
                if seen == 1000:
                    break
    print(seen)
asyncio.run(main())
"""


def _candidates(version: str) -> Iterator[str]:
    """Where such a Python may be: in PATH, or where pyenv puts it."""
    if (found := shutil.which(f"python{version}")) is not None:
        yield found
    home = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from map(str, sorted(home.glob(f"versions/{version}.*/bin/python{version}")))


def interpreter(version: str) -> str | None:
    """An interpreter that starts: an entry in PATH may only be a stub."""
    for path in _candidates(version):
        asked = subprocess.run(
            [path, "-c", "import venv, ensurepip"], capture_output=True, check=False
        )
        if asked.returncode == 0:
            return path
    return None


def run(*command: str | Path, given: str = "", folder: Path | None = None) -> str:
    """Output of the command; fails with its errors."""
    done = subprocess.run(
        command, input=given, capture_output=True, text=True, cwd=folder, timeout=120, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module", params=[version for version in NAMED if version != OWN])
def commands(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the commands of an environment that has Ottla from this checkout."""
    python = interpreter(request.param)
    if python is None:
        pytest.skip(f"there is no Python {request.param} here")
    folder = tmp_path_factory.mktemp(f"python{request.param}")
    left = shutil.ignore_patterns("__pycache__", "*.so")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / "source" / name, symlinks=True, ignore=left)
    for name in FILES:
        shutil.copy(ROOT / name, folder / "source" / name)
    run(python, "-m", "venv", folder / "venv")
    found = folder / "venv" / "bin"
    run(found / "python", "-m", "pip", "install", "-q", folder / "source")
    return found


def test_a_broker_starts_serves_and_ends_when_it_is_asked_to(
    commands: Path, tmp_path: Path
) -> None:
    """The commands of the README work; either signal shuts the broker down cleanly."""
    ottla, topic = commands / "ottla", iter(("first", "second"))
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        name = next(topic)
        process = subprocess.Popen(
            (ottla, "start", "--port", "0", "--data-dir", tmp_path / "data"),
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        try:
            servers = ("-b", process.stdout.readline().split()[-1])
            run(ottla, "topics", "create", name, *servers)
            run(ottla, "produce", *servers, name, given="one\ntwo\n")
            assert run(ottla, "consume", *servers, "-o", "beginning", "-e", name) == "one\ntwo\n"
            process.send_signal(signal_number)
            assert process.wait(ENDS_WITHIN_S) == 0
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


def test_a_cluster_works_inside_a_program(commands: Path) -> None:
    """With nothing that Python means to take away."""
    python = commands / "python"

    assert run(python, "-X", "dev", "-W", "error", "-c", CLUSTER, folder=commands) == "1000\n"
