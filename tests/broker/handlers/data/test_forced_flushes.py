"""Which calls force data to the disk, in a broker process on a real one: seen by strace."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.broker.support.requests import batch, create, produced
from tests.support.broker_process import BrokerProcess
from tests.support.raw_client import RawClient
from tests.support.tracing import can_trace

if TYPE_CHECKING:
    from pathlib import Path

CALLS = "trace=write,writev,fsync,fdatasync,sync_file_range,msync,sync,syncfs"
FLUSHED_WITHIN_S = 60.0
# When strace sees a call, and when the call has come to its end, is up to the machine.
SCHEDULING_S = 2.0


class Call(NamedTuple):
    """A system call of the broker: when it began, and whether it wrote or flushed."""

    at_s: float
    is_write: bool


class Traced:
    """A broker process whose flushes are written down."""

    def __init__(self, folder: Path) -> None:
        self._trace = folder / "trace"
        launcher = ("strace", "-D", "-f", "-ttt", "-y", "-e", CALLS, "-o", str(self._trace))
        self.broker = BrokerProcess(folder / "data", launcher=launcher)

    def client(self) -> RawClient:
        host, _, port = self.broker.address.rpartition(":")
        return RawClient(host, int(port))

    def flushes(self, topic: str) -> int:
        """Of the data of the topic, or of everything at once."""
        return sum(not call.is_write for call in self.calls(topic))

    def calls(self, topic: str) -> list[Call]:
        """Writes to the data of the topic, and flushes, in the order in which they began."""
        data = re.compile(rf" ([\d.]+) (\w+(?=\(\d+<\S*/{topic}-0/\d+\.log>)|sync(?:fs)?(?=\())")
        found = map(data.search, self._trace.read_text().splitlines())
        return [Call(float(one[1]), one[2].startswith("write")) for one in found if one]


@pytest.mark.skipif(not can_trace(), reason="strace is missing or may not trace here")
@pytest.mark.requirement("LOG-09")
async def test_nothing_is_forced_to_the_disk_unless_a_topic_asks_for_it(tmp_path: Path) -> None:
    """Durability comes from replication and the page cache. Three topics get the same records: one
    with defaults, one with flush.messages, one with flush.ms."""
    traced = Traced(tmp_path)
    with traced.broker:
        async with traced.client() as client:
            await create(client, "default")
            await create(client, "counted", flush_messages="10")
            await create(client, "timed", flush_ms="100")
            for number in range(35):
                for topic in ("default", "counted", "timed"):
                    await produced(client, batch(b"%d" % number), acks=1, topic=topic)
            async with asyncio.timeout(FLUSHED_WITHIN_S):
                while traced.flushes("timed") == 0:
                    await asyncio.sleep(0.05)
            # More than flush.ms, and looked at every 100 ms: it would be the turn of all others.
            await asyncio.sleep(0.5)
        counts = {topic: traced.flushes(topic) for topic in ("default", "counted", "timed")}

    assert counts["default"] == 0
    assert counts["counted"] == 3
    assert counts["timed"] >= 1


@pytest.mark.skipif(not can_trace(), reason="strace is missing or may not trace here")
@pytest.mark.requirement("LOG-06", "LOG-07")
async def test_files_are_flushed_after_so_many_records_and_so_many_seconds(tmp_path: Path) -> None:
    """flush.messages=100 bounds how many records a power cut may take, and flush.ms=1000 for how
    long one may wait for its flush. Later records do not put it off."""
    traced = Traced(tmp_path)
    with traced.broker:
        async with traced.client() as client:
            await create(client, "counted", flush_messages="100")
            await create(client, "timed", flush_ms="1000")
            for number in range(250):
                await produced(client, batch(b"%d" % number), acks=1, topic="counted")
            async with asyncio.timeout(FLUSHED_WITHIN_S):
                while traced.flushes("timed") < 2:
                    await produced(client, batch(b"x"), acks=1, topic="timed")
                    await asyncio.sleep(0.05)
    unflushed, most = 0, 0
    for call in traced.calls("counted"):
        unflushed = unflushed + 1 if call.is_write else 0
        most = max(most, unflushed)
    first_s, waits_s = None, []
    for call in traced.calls("timed"):
        if call.is_write and first_s is None:
            first_s = call.at_s
        elif not call.is_write and first_s is not None:
            waits_s.append(call.at_s - first_s)
            first_s = None

    assert most == 100
    assert len(waits_s) >= 2
    # The stop of the broker flushes as well, and sooner.
    assert max(waits_s) < 1.0 + SCHEDULING_S
    assert waits_s[0] > 0.9
