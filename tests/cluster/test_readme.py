"""Every command of the README is run, as a reader would run it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import venv
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.requirements import report
from tests.support.broker_process import ROOT, BrokerProcess
from tests.zookeeper.servers import ZooKeeperServer

if TYPE_CHECKING:
    from collections.abc import Iterator

MOVED_WITHIN_S = 90.0
README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, re.DOTALL)
SHELL = [body for language, body in BLOCKS if language == "sh"]
PYTHON = [body for language, body in BLOCKS if language == "python"]


def commands(block: str) -> list[str]:
    """The lines of a shell block without their comments."""
    lines = (line.split("  #")[0].strip() for line in block.splitlines())
    return [line for line in lines if line]


def block_with(text: str, blocks: list[str]) -> str:
    """The one block that has the text in it."""
    (found,) = [block for block in blocks if text in block]
    return found


CLUSTERS = commands(block_with("--brokers 3", SHELL))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """The broker that the reader has started."""
    with BrokerProcess(tmp_path_factory.mktemp("readme") / "data") as running:
        yield running


def adapted(text: str, broker: BrokerProcess) -> str:
    """The same with the address of the test's broker, which the reader's has by default."""
    return text.replace("127.0.0.1:9092", broker.address)


def environment() -> dict[str, str]:
    """The reader's, in which ``ottla`` and ``python`` are those of this test."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}


def shell(command: str) -> subprocess.CompletedProcess[str]:
    """Run one line; show its output if it fails."""
    done = subprocess.run(
        command,
        shell=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment(),
        timeout=300,
    )
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done


def shown_by(block: str, broker: BrokerProcess) -> str:
    """Output of the commands of a block, one after the other."""
    shown = ""
    for command in commands(block):
        verb = command.replace("ottla ", f"{sys.executable} -m ottla ")
        verb = re.sub(r"(-m ottla \w+)", rf"\1 -b {broker.address}", verb)
        if "reassign verify" in command:
            wait_for_moves(verb)
        shown += shell(verb).stdout
    return shown


def wait_for_moves(verify: str) -> None:
    """Run the command until it reports completion, as the page says."""
    deadline = time.monotonic() + MOVED_WITHIN_S
    while time.monotonic() < deadline:
        done = subprocess.run(verify, shell=True, cwd=ROOT, env=environment(), check=False)
        if done.returncode == 0:
            return
        time.sleep(0.1)


def test_the_commands_of_try_it_work(broker: BrokerProcess) -> None:
    """Produced records are consumed, and the Python examples find the broker."""
    shown = shown_by(block_with("topics create greetings", SHELL), broker)

    assert "hello\nworld\n" in shown
    assert "PARTITION" in shown


@pytest.mark.parametrize("block", PYTHON, ids=["confluent", "ottla", "cluster"])
def test_the_python_examples_work(broker: BrokerProcess, block: str) -> None:
    """Copied out of the page and run, without a wait for something that never comes."""
    program = adapted(block, broker)
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment(),
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "b'hello" in done.stdout


def test_the_commands_about_groups_know_the_reader(broker: BrokerProcess) -> None:
    """The group is that of the example above."""
    shown = shown_by(block_with("groups explain", SHELL), broker)

    assert "readers  (classic, Empty" in shown
    assert re.search(r"greetings +0 +\d+ +0\n", shown), shown


def test_the_commands_about_clusters_work(tmp_path: Path) -> None:
    """Three brokers in one process are started as the page says, but for their ports."""
    start = next(one for one in CLUSTERS if "--brokers" in one)
    block = block_with("reassign verify", SHELL).replace("plan.json", str(tmp_path / "plan.json"))
    with BrokerProcess(tmp_path / "data", extra=start.split()[2:]) as running:
        shown = shown_by(block, running)

    assert "every partition has its leader and all its replicas in sync" in shown
    assert shown.count("begun copies-") == shown.count(": done\n") == 3
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert {node for part in plan["partitions"] for node in part["replicas"]} == {2, 3}


def test_a_broker_joins_a_cluster_in_zookeeper(tmp_path: Path) -> None:
    """The commands of the page run, with the address of the test's own ZooKeeper."""
    start = next(one for one in CLUSTERS if "--zookeeper" in one)
    with ZooKeeperServer() as zookeeper:
        extra = start.replace("127.0.0.1:2181", zookeeper.address).split()[2:]
        with BrokerProcess(tmp_path / "data", extra=extra) as running:
            shown = shell(f"{sys.executable} -m ottla cluster describe -b {running.address}")

    assert "BROKER" in shown.stdout


def test_the_compose_file_is_where_the_page_says() -> None:
    """The services in it have their own tests."""
    assert "docker compose up" in CLUSTERS
    assert (ROOT / "docker-compose.yml").exists()
    assert "docker-compose.secure.yml" in block_with("--brokers 3", SHELL)
    assert (ROOT / "docker-compose.secure.yml").exists()


@pytest.mark.requirement("ARC-15", "FMT-36")
def test_real_input_comes_back_as_it_went(broker: BrokerProcess, tmp_path: Path) -> None:
    """Every line of a part of the standard library; count, bytes and checksum agree."""
    (command,) = [c for c in commands(block_with("roundtrip.py", SHELL)) if "roundtrip" in c]
    place = Path(os.__file__).parent / "asyncio"

    done = shell(f"{command} -b {broker.address} {place}")

    sent, received = (line.split(maxsplit=1)[1] for line in done.stdout.splitlines())
    assert sent == received
    assert int(sent.split()[0].replace(",", "")) > 5_000


def test_the_simulation_command_works() -> None:
    """One seed, as the page shows it, but with the interpreter that runs this test."""
    assert "make sim SEED=7" in [c for block in SHELL for c in commands(block)]
    done = shell(f"{sys.executable} -m tests.simulation 7")

    assert done.returncode == 0


def test_the_requirements_command_works() -> None:
    """The command prints both lists."""
    done = shell(f"{sys.executable} -m tests.requirements")

    assert "rows shown" in done.stdout


def test_before_the_tests_the_requirements_command_says_what_to_do(tmp_path: Path) -> None:
    """An empty report would look like nothing had been done."""
    assert report(tmp_path).endswith("run 'make test' first")


@pytest.mark.parametrize(
    "target", ["run", "test", "sim", "interop", "bench", "requirements", "mutants", "docs"]
)
def test_make_knows_the_target(target: str) -> None:
    """The page and the Makefile name the same commands."""
    assert f"make {target}" in README
    done = shell(f"make -n {target}")

    assert done.stdout


def test_make_run_sets_up_and_runs_a_broker(tmp_path: Path) -> None:
    """The first command of the page, in this checkout's own environment."""
    started = f"--port 0 --data-dir {tmp_path / 'data'}"
    process = subprocess.Popen(
        ["make", "-s", "run", f"START={started}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
    finally:
        os.killpg(process.pid, 15)
        process.wait(90)
        process.stdout.close()

    assert line.startswith(b"ottla: ready at 127.0.0.1:")


def test_it_installs_from_the_checkout(tmp_path: Path) -> None:
    """``pip install .`` brings every package and the command; dependencies are not downloaded."""
    source = tmp_path / "source"
    wanted = ("ottla", "broker", "client", "coordinator", "protocol", "wire")
    source.mkdir()
    for name in wanted:
        shutil.copytree(
            ROOT / name, source / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
        )
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    home = tmp_path / "venv"
    venv.create(home, with_pip=True, system_site_packages=False)
    python = home / "bin" / "python"
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--no-deps", str(source)],
        check=True,
        capture_output=True,
        timeout=300,
    )

    version = subprocess.run(
        [home / "bin" / "ottla", "--version"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    listed = subprocess.run(
        [python, "-c", "import ottla.broker.partitions, ottla.protocol.messages, ottla; print(1)"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )

    assert version.stdout.startswith("ottla ")
    assert listed.stdout == "1\n"
