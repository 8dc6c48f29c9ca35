"""``ottla start --brokers N``: a whole cluster in one process, as a developer runs it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.broker_process import ROOT, BrokerProcess
from tests.support.ports import free_row

if TYPE_CHECKING:
    from pathlib import Path

BROKERS = ["--brokers", "3"]


def ottla(*arguments: str, stdin: bytes = b"") -> bytes:
    """Run a command that has to succeed; what it writes."""
    done = subprocess.run(
        [sys.executable, "-m", "ottla", *arguments],
        input=stdin,
        capture_output=True,
        timeout=60,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def described(address: str) -> dict[str, Any]:
    """The cluster as one broker describes it."""
    text = ottla("cluster", "describe", "-b", address, "--format", "json")
    found: dict[str, Any] = json.loads(text)
    return found


def test_one_line_says_that_all_brokers_list_all_brokers(tmp_path: Path) -> None:
    """A script that waits for the line may use any of them at once."""
    with BrokerProcess(tmp_path / "data", extra=BROKERS) as process:
        first = described(process.address)
        others = [described(row["address"]) for row in first["brokers"]]

        assert process.ready_line == f"ottla: ready at {process.address}\n"
        assert first["brokers"][0]["address"] == process.address
        assert [row["broker"] for row in first["brokers"]] == [1, 2, 3]
        assert all(other["brokers"] == first["brokers"] for other in others)
        process.signal(signal.SIGTERM)
        assert process.wait() == 0
        assert process.stdout_after_ready() == b""
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == [
        "1",
        "2",
        "3",
        "metadata-store",
    ]


def test_ports_count_up_from_the_first(tmp_path: Path) -> None:
    """Configurations name fixed ports; a free one is for tests."""
    port = free_row(3)
    with BrokerProcess(tmp_path / "data", port=port, extra=BROKERS) as process:
        brokers = described(process.address)["brokers"]

    assert [row["address"] for row in brokers] == [f"127.0.0.1:{port + step}" for step in range(3)]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_what_was_acknowledged_is_there_after_a_restart(tmp_path: Path, how: int) -> None:
    """Written to three replicas by defaults that need no thought, and read by another life."""
    lines = b"".join(b"line %d\n" % number for number in range(500))
    process = BrokerProcess(tmp_path / "data", extra=BROKERS).start()
    ottla("topics", "create", "kept", "-p", "3", "-r", "3", "-b", process.address)
    ottla("produce", "kept", "-b", process.address, stdin=lines)
    process.signal(how)
    process.wait()

    with BrokerProcess(tmp_path / "data", extra=BROKERS) as again:
        read = ottla("consume", "kept", "--from-beginning", "-e", "-b", again.address)

    assert sorted(read.splitlines()) == sorted(lines.splitlines())


def test_groups_work_across_the_brokers(tmp_path: Path) -> None:
    """The topic of committed offsets is made with three replicas by whichever broker is asked."""
    with BrokerProcess(tmp_path / "data", extra=BROKERS) as process:
        ottla("topics", "create", "t", "-p", "2", "-r", "3", "-b", process.address)
        ottla("produce", "t", "-b", process.address, stdin=b"a\nb\n")
        for group in ("one", "two", "three", "four"):
            ottla("groups", "reset-offsets", group, "t", "-o", "end", "-b", process.address)
        listed = json.loads(ottla("groups", "list", "-b", process.address, "--format", "json"))
        offsets = ottla(
            "topics", "describe", "__consumer_offsets", "-b", process.address, "--format", "json"
        )

    assert {group["group"] for group in listed} == {"one", "two", "three", "four"}
    assert all(len(part["replicas"]) == 3 for part in json.loads(offsets)[0]["partitions"])


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        (["--brokers", "3", "--id", "1"], "leave --id out"),
        (["--brokers", "3", "--zookeeper", "127.0.0.1:2181"], "leave --zookeeper out"),
        (["--zookeeper", "127.0.0.1:2181"], "Give every broker a number of its own with --id"),
    ],
)
def test_what_does_not_go_together_is_said_in_a_sentence(
    tmp_path: Path, extra: list[str], words: str
) -> None:
    """Two brokers with one id would be the alternative."""
    with pytest.raises(RuntimeError, match=words):
        BrokerProcess(tmp_path / "data", extra=extra).start()


def test_data_of_one_broker_and_of_several_is_not_mixed(tmp_path: Path) -> None:
    """Started over the other's, each would show topics without their records."""
    with BrokerProcess(tmp_path / "one"):
        pass
    with BrokerProcess(tmp_path / "many", extra=BROKERS):
        pass

    for folder, extra, words in (
        ("one", BROKERS, "holds the data of a single broker"),
        ("many", [], "holds the data of several brokers"),
        ("many", ["--brokers", "2"], "holds the data of more than 2 brokers"),
    ):
        with pytest.raises(RuntimeError, match=words):
            BrokerProcess(tmp_path / folder, extra=extra).start()
