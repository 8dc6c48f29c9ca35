"""What ``ottla start --processes N`` refuses before it starts a process."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ottla.broker.cli.parsers import start_parser
from ottla.broker.cli.processes import MachineSettings, check_options, run_processes
from ottla.coordinator.configs.broker_configs import ConfigError

if TYPE_CHECKING:
    import argparse
    from pathlib import Path


def arguments_of(folder: Path, *extra: str) -> argparse.Namespace:
    """A command line."""
    return start_parser().parse_args(["--processes", "3", "--data-dir", str(folder), *extra])


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        (["--brokers", "3"], "leave it or --processes out"),
        (["--memory"], "leave it or --processes out"),
        (["--zookeeper", "127.0.0.1:2181"], "Give every broker a number of its own with --id"),
        (["-o", "num.partitions=x"], "num.partitions"),
        (["--port", "65534"], "--port 65534 leaves no room for 3 brokers"),
        (["--secure", "--zookeeper", "127.0.0.1:2181", "--id", "1"], "for one machine"),
    ],
)
def test_what_does_not_go_together_is_said_in_a_sentence(
    tmp_path: Path, extra: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A person reads it at once, and no process has touched the directory."""
    assert run_processes(arguments_of(tmp_path / "data", *extra)) == 1
    assert words in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_more_processes_than_the_machine_can_use_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slip of one digit would fill the memory of the machine."""
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    line = ["--data-dir", str(tmp_path / "data"), "--processes"]
    for count, extra in (("8", []), ("9", ["--many-processes"])):
        check_options(start_parser().parse_args([*line, count, *extra]))

    assert run_processes(start_parser().parse_args([*line, "9"])) == 1
    assert "start at most 8, or add --many-processes" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_windows_has_no_processes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are no Unix sockets in asyncio there."""
    monkeypatch.setattr(sys, "platform", "win32")

    assert run_processes(arguments_of(tmp_path / "data")) == 1
    assert "by hand" in capsys.readouterr().err


def test_a_rolling_restart_takes_up_the_file(tmp_path: Path) -> None:
    """A file that cannot be read leaves everything as it was."""
    path = tmp_path / "server.properties"
    path.write_text("num.partitions=3\n")
    settings = MachineSettings(arguments_of(tmp_path / "data", "--config", str(path)))
    path.write_text("num.partitions=7\n")
    settings.read()

    assert [settings.plan(place).settings["num.partitions"] for place in (1, 3)] == ["7", "7"]
    path.write_text("num.partitions=many\n")
    with pytest.raises(ConfigError, match=r"num\.partitions"):
        settings.read()
    assert settings.plan(1).settings["num.partitions"] == "7"


@pytest.mark.parametrize(
    "line", ["broker.id=5", "log.dirs=/elsewhere", "zookeeper.connect=127.0.0.1:2181\nbroker.id=1"]
)
def test_a_rolling_restart_makes_no_other_brokers(tmp_path: Path, line: str) -> None:
    """They would refuse their directories one after the other, or begin with empty ones."""
    path, data = tmp_path / "server.properties", tmp_path / "data"
    path.write_text(f"log.dirs={data}\n")
    settings = MachineSettings(
        start_parser().parse_args(["--processes", "3", "--config", str(path)])
    )
    before = settings.plan(1)
    path.write_text(f"log.dirs={data}\n{line}\n")

    with pytest.raises(ConfigError, match="while the brokers run"):
        settings.read()
    assert settings.plan(1) == before


def test_plans_have_what_each_process_needs(tmp_path: Path) -> None:
    """With ZooKeeper there is no store to be asked for."""
    alone = MachineSettings(arguments_of(tmp_path, "--metrics", "0"))
    joined = MachineSettings(arguments_of(tmp_path, "--zookeeper", "127.0.0.1:2181", "--id", "4"))

    assert (alone.plan(2).node_id, alone.plan(2).brokers, alone.plan(2).has_metrics) == (2, 3, True)
    assert (joined.plan(2).node_id, joined.plan(2).brokers) == (5, 0)
    assert joined.plan(2).settings["log.dirs"] == f"{tmp_path}/2"


def test_one_process_loads_nothing_of_this() -> None:
    """It starts as fast, and as small, as if there were no other."""
    code = (
        "import sys\n"
        "from ottla.verbs import VERBS\n"
        "VERBS['start'].load_parser()().parse_args([])\n"
        "VERBS['start'].load_main()\n"
        "print([one for one in sys.modules if 'processes' in one or 'store.served' in one])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )

    assert done.stdout == "[]\n"
