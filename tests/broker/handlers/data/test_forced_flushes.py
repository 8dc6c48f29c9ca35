"""Which calls force data to the disk, in a broker process on a real one: seen by strace."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

import pytest

from tests.broker.support.requests import batch, create, produced
from tests.support.broker_process import BrokerProcess
from tests.support.raw_client import RawClient
from tests.support.tracing import can_trace

if TYPE_CHECKING:
    from pathlib import Path

CALLS = "trace=fsync,fdatasync,sync_file_range,msync,sync,syncfs"
FLUSHED_WITHIN_S = 60.0


class Traced:
    """A broker process whose flushes are written down."""

    def __init__(self, folder: Path) -> None:
        self._trace = folder / "trace"
        launcher = ("strace", "-D", "-f", "-y", "-e", CALLS, "-o", str(self._trace))
        self.broker = BrokerProcess(folder / "data", launcher=launcher)

    def client(self) -> RawClient:
        host, _, port = self.broker.address.rpartition(":")
        return RawClient(host, int(port))

    def flushes(self, topic: str) -> int:
        """Of the data of the topic, or of everything at once."""
        lines = self._trace.read_text().splitlines()
        data = re.compile(rf"/{topic}-0/\d+\.log>|\bsync\(|\bsyncfs\(")
        return sum(data.search(line) is not None for line in lines)


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
