"""A consumer that is slow: what it is given, and what its lag costs a broker process."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from ottla.protocol.records.batch import iterate_batches
from tests.broker.support.requests import batch, create, fetched, produce
from tests.support.broker_process import BrokerProcess
from tests.support.raw_client import RawClient

# Per second: what is written, in batches of ten, and what is read of it.
WRITTEN, READ, BATCH = 10_000, 10, 10
VALUE = bytes(1_000)
SECONDS, WARM_SECONDS = 3, 1
# The lag is ten times as much by then.
GROWTH_BYTES_MAX = 3_000_000


def held_bytes(process_id: int) -> int:
    """Memory of a process that belongs to no file."""
    status = Path(f"/proc/{process_id}/status").read_text("ascii")
    found = re.search(r"RssAnon:\s+(\d+) kB", status)
    assert found is not None
    return 1024 * int(found.group(1))


async def write_for_a_second(client: RawClient, records: bytes) -> None:
    """At that rate, or as fast as the machine lets it."""
    loop = asyncio.get_running_loop()
    for _ in range(20):
        begun = loop.time()
        for _ in range(WRITTEN // BATCH // 20):
            client.send(9, produce(records, acks=1))
        for _ in range(WRITTEN // BATCH // 20):
            await client.frame()
        await asyncio.sleep(max(0.0, 0.05 - (loop.time() - begun)))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads memory from /proc")
@pytest.mark.requirement("ARC-08")
async def test_the_lag_of_a_slow_consumer_costs_the_broker_no_memory(tmp_path: Path) -> None:
    """The consumer pulls: its lag is a number in its own memory. A broker that pushed, or kept for
    each consumer what it has not read yet, would grow by 10 MB for each second of this."""
    records = batch(*[VALUE] * BATCH)
    with BrokerProcess(tmp_path / "data") as broker:
        host, _, port = broker.address.rpartition(":")
        async with RawClient(host, int(port)) as writer, RawClient(host, int(port)) as reader:
            await create(writer)
            held = []
            for second in range(WARM_SECONDS + SECONDS):
                await write_for_a_second(writer, records)
                answer = await fetched(reader, second * READ, partition_bytes=len(records))
                (got,) = iterate_batches(bytes(answer.records))
                assert (got.base_offset, got.record_count) == (second * READ, READ)
                held.append(held_bytes(broker.process_id))

    lag = answer.high_watermark - (WARM_SECONDS + SECONDS) * READ
    assert lag == (WARM_SECONDS + SECONDS) * (WRITTEN - READ)
    assert held[-1] - held[WARM_SECONDS - 1] < GROWTH_BYTES_MAX, held
