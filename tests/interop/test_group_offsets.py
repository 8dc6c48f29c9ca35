"""Committed offsets of a group, as unmodified clients and our own see them.

A client does one step at a time in a separate process; what is committed is read by our own Admin,
which is no member of the group.
"""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.client.admin import Admin
from ottla.client.records.committed import Committed
from ottla.protocol.ids import TopicPartition
from tests.interop.support.environments import python_with
from tests.interop.support.foreign import Capabilities, Program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.interop.conftest import Bootstrap

AUTO_COMMIT_MS = 300
# Several times the interval of the automatic commits.
SILENCE_S = 1.2
_PYTHON = "tests.interop.programs.python"


class Kind(NamedTuple):
    """A client as a reader: its command, its group protocol, and its habits."""

    name: str
    module: str
    requirements: tuple[str, ...] = ()
    protocol: str = "classic"
    commits_leader_epoch: bool = False
    # It sends the zero byte that ends a string in C as a part of the metadata, and reads on to the
    # next one in what others have written.
    takes_zero_for_the_end: bool = False
    deletes_groups: bool = True

    def command(self) -> list[str | Path]:
        python = python_with(*self.requirements) if self.requirements else sys.executable
        return [python, "-m", f"{_PYTHON}.{self.module}"]


CONFLUENT = Kind(
    "confluent-kafka", "reader_confluent", commits_leader_epoch=True, takes_zero_for_the_end=True
)
KINDS = [
    CONFLUENT,
    CONFLUENT._replace(name="confluent-kafka-848", protocol="consumer"),
    Kind("kafka-python", "reader_kafka_python"),
    Kind("aiokafka", "reader_aio", deletes_groups=False),
]
OTHERS = [
    CONFLUENT._replace(name="confluent-kafka-2.3.0", requirements=("confluent-kafka==2.3.0",)),
    Kind(
        "kafka-python-2.0.2",
        "reader_kafka_python",
        ("kafka-python==2.0.2", "python-snappy", "lz4", "zstandard"),
    ),
]
PARAMETERS = [pytest.param(kind, id=kind.name) for kind in KINDS] + [
    pytest.param(kind, id=kind.name, marks=pytest.mark.interop) for kind in OTHERS
]


class Reader:
    """A group of one reader of partition 0, and the topic that it reads."""

    def __init__(self, program: Program, kind: Kind, broker: Bootstrap, topic: str) -> None:
        self.kind, self.topic, self.group = kind, topic, f"of-{topic}"
        self._program, self._broker = program, broker
        self._by_ourselves()
        admin = AdminClient({"bootstrap.servers": broker.address})
        admin.create_topics([NewTopic(topic, 1)])[topic].result(15)
        self._producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 5})

    def _by_ourselves(self) -> None:
        """Frames from now on are not the client's."""
        self._broker.used_by("")

    def fill(self, count: int) -> None:
        """Write that many records and wait until they are acknowledged."""
        self._by_ourselves()
        for number in range(count):
            self._producer.produce(self.topic, b"%d" % number, partition=0)
        assert self._producer.flush(15) == 0

    def open(self, reset: str = "earliest", auto_commit_ms: int = 0) -> int | None:
        """Join the group; where it starts, None if it refuses to."""
        start: int | None = self._program.step(
            "open",
            group=self.group,
            topic=self.topic,
            reset=reset,
            auto_commit_ms=auto_commit_ms,
            protocol=self.kind.protocol,
        )["start"]
        return start

    def poll(self, count: int) -> list[int]:
        """The offsets of the next records."""
        offsets: list[int] = self._program.step("poll", count=count)["offsets"]
        return offsets

    def step(self, name: str, **arguments: Any) -> dict[str, Any]:
        """A step without much to it: idle, seek, commit, committed, close."""
        return self._program.step(name, **arguments)

    def positions(self) -> dict[TopicPartition, Committed]:
        """All that the broker keeps for the group."""
        self._by_ourselves()

        async def ask() -> dict[TopicPartition, Committed]:
            async with Admin(self._broker.address) as admin:
                return await admin.groups.offsets(self.group)

        return asyncio.run(ask())

    def position(self) -> int | None:
        """The committed offset of the partition; nothing else may be kept."""
        found = self.positions()
        assert set(found) <= {TopicPartition(self.topic, 0)}
        return next((one.offset for one in found.values()), None)

    def move(self, offset: int, metadata: str) -> None:
        """Set the position as an operator does, while the group has no members."""
        self._by_ourselves()
        where = TopicPartition(self.topic, 0)

        async def ask() -> None:
            async with Admin(self._broker.address) as admin:
                moved = {where: Committed(offset, 0, metadata)}
                assert await admin.groups.commit(self.group, moved) == {where: None}

        asyncio.run(ask())

    def at(self, offset: int) -> dict[TopicPartition, Committed]:
        """The one position that a plain commit leaves; the leader is the first there was."""
        leader_epoch = 0 if self.kind.commits_leader_epoch else -1
        return {TopicPartition(self.topic, 0): Committed(offset, leader_epoch)}


@pytest.fixture(params=PARAMETERS)
def reader(
    request: pytest.FixtureRequest, broker: Bootstrap, topic: str, tmp_path: Path
) -> Iterator[Reader]:
    """A reader of each kind, with a unique topic and group."""
    kind: Kind = request.param
    with ExitStack() as stack:
        command = [*kind.command(), broker.address]
        program = stack.enter_context(Program(command, tmp_path / "stderr", Capabilities()))
        said = program.step("hello")
        found = Reader(program, kind, broker, topic)
        program.announce = lambda: broker.used_by(f"{said['client']}_{said['version']}")
        yield found


def _until(holds: Callable[[], bool], timeout_s: float = 60.0) -> bool:
    deadline = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


@pytest.mark.requirement("CON-18")
def test_an_automatic_commit_advances_without_a_call(reader: Reader) -> None:
    """Twice, so that it is seen to be periodic."""
    reader.fill(10)
    reader.open(auto_commit_ms=AUTO_COMMIT_MS)
    for count, expected in ((10, 10), (5, 15)):
        assert len(reader.poll(count)) == count

        def has_advanced(expected: int = expected) -> bool:
            reader.step("idle", seconds=0.4)
            return reader.position() == expected

        assert _until(has_advanced), reader.positions()
        reader.fill(5)


@pytest.mark.requirement("CON-18", "ARC-12")
def test_a_manual_commit_happens_only_when_called(reader: Reader) -> None:
    """Neither time nor the end of the consumer commits anything, and ten records are one number."""
    reader.fill(10)
    reader.open()
    assert reader.poll(10) == list(range(10))
    reader.step("idle", seconds=SILENCE_S)
    assert reader.positions() == {}

    reader.step("commit")
    assert reader.positions() == reader.at(10)

    reader.fill(5)
    assert reader.poll(5) == list(range(10, 15))
    reader.step("idle", seconds=SILENCE_S)
    assert reader.position() == 10
    reader.step("commit")
    reader.fill(5)
    assert reader.poll(5) == list(range(15, 20))
    reader.step("close")
    assert reader.positions() == reader.at(15)


@pytest.mark.requirement("CON-21")
def test_seek_decides_where_the_next_poll_starts(reader: Reader) -> None:
    """Backwards and forwards, also past records that were fetched ahead."""
    reader.fill(100)
    reader.open()
    assert reader.poll(20) == list(range(20))

    for offset in (7, 60, 0, 95):
        reader.step("seek", offset=offset)
        assert reader.poll(5) == list(range(offset, offset + 5))


@pytest.mark.requirement("CON-22")
@pytest.mark.parametrize(("reset", "start"), [("earliest", 0), ("latest", 10), ("none", None)])
def test_without_a_position_the_reset_policy_decides(
    reader: Reader, reset: str, start: int | None
) -> None:
    """The first record, the next one to be written, or an error that the application sees."""
    reader.fill(10)

    assert reader.open(reset) == start

    if start is not None:
        reader.fill(5)
        assert reader.poll(5) == list(range(start, start + 5))


def test_with_a_position_the_reset_policy_is_not_asked(reader: Reader) -> None:
    """A restarted consumer continues at the offset that was committed before."""
    reader.fill(10)
    reader.open()
    reader.poll(10)
    reader.step("commit", offset=4, metadata="")
    reader.step("close")

    assert reader.open("latest") == 4
    assert reader.poll(6) == list(range(4, 10))


def test_what_is_committed_with_a_position_comes_back(reader: Reader) -> None:
    """Applications keep their own state in the metadata; losing it is silent."""
    reader.fill(5)
    reader.open()
    text = '{"checksum": "\u00fc-17"}'

    reader.step("commit", offset=3, metadata=text)

    assert reader.step("committed") == {"offset": 3, "metadata": text}
    (found,) = reader.positions().values()
    assert (found.offset, found.metadata) == (3, text + "\0" * reader.kind.takes_zero_for_the_end)


def test_a_position_set_from_outside_is_where_the_group_starts(reader: Reader) -> None:
    """An operator moves an empty group; its text is the members' to read."""
    reader.fill(10)

    reader.move(6, "moved" + "\0" * reader.kind.takes_zero_for_the_end)

    assert reader.open() == 6
    assert reader.poll(4) == [6, 7, 8, 9]
    assert reader.step("committed") == {"offset": 6, "metadata": "moved"}


def test_a_group_is_listed_described_and_deleted(reader: Reader) -> None:
    """What every administration tool shows of groups, requested by each client of its own group."""
    reader.fill(3)
    reader.open()
    reader.poll(3)
    reader.step("commit")
    assert reader.group in reader.step("groups")["groups"]
    described = reader.step("describe_group", group=reader.group)
    assert described == {"state": "Stable", "members": 1}

    reader.step("close")
    described = reader.step("describe_group", group=reader.group)
    assert described == {"state": "Empty", "members": 0}

    if reader.kind.deletes_groups:
        reader.step("delete_group", group=reader.group)
        assert reader.group not in reader.step("groups")["groups"]
        assert reader.positions() == {}
