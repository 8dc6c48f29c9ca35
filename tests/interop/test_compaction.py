"""A heavily compacted, partly transactional topic, read from any offset in other languages.

Python's clients read such a topic in the broker's own tests of compaction.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from ottla.protocol.records.batch import iterate_batches
from ottla.protocol.records.record import read_records
from tests.broker.support.requests import create, fetched
from tests.broker.test_compaction import fill, partition_of
from tests.interop.support.clients import OTHERS, ForeignClient
from tests.interop.support.foreign import Program
from tests.support.in_process import running_broker

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.raw_client import RawClient

pytestmark = pytest.mark.interop

READERS = [client for client in OTHERS if "consume" not in client.capabilities.without_steps]


# It takes the markers that end transactions for records.
SHOWS_MARKERS = "kafka-python-2.0.2"


async def offsets_left(client: RawClient, end: int, *, with_markers: bool) -> list[int]:
    """The offsets of all records, aborted ones too, as the bytes of the log say."""
    offset, found = 0, []
    while offset < end:
        answer = await fetched(client, offset, partition_bytes=1_000_000)
        for batch in iterate_batches(answer.records):
            if with_markers or not batch.is_control:
                found += [record.offset for record in read_records(batch)]
            offset = batch.next_offset
    return found


def read(client: ForeignClient, address: str, counts: dict[int, int], log: Path) -> Any:
    """The offsets that the client finds from each start on."""
    with Program([*client.command(), address], log, client.capabilities) as program:
        answers = {
            start: program.step("consume", topic="t", offset=start, count=count)["records"]
            for start, count in counts.items()
        }
    return {start: [one["offset"] for one in records] for start, records in answers.items()}


@pytest.mark.requirement("LOG-34")
@pytest.mark.parametrize("client", READERS, ids=lambda client: client.name)
async def test_a_reader_that_begins_anywhere_reaches_the_last_record(
    client: ForeignClient, tmp_path: Path
) -> None:
    """In a hole, within a batch, at an empty one: many a reader has stopped there for ever."""
    async with running_broker() as running, running.connect() as ours:
        await create(ours, "t", 1, cleanup_policy="compact", segment_bytes="3000")
        one = partition_of(running)
        await fill(ours, one, 24)
        end = one.log.log_end_offset
        assert await running.broker.parts.cleaning.clean(one)
        left = await offsets_left(ours, end, with_markers=client.name == SHOWS_MARKERS)
        assert len(left) < end / 2
        expected = {
            start: [offset for offset in left if offset >= start]
            for start in (0, 1, 50, 77, 120, left[-1])
        }
        counts = {start: len(offsets) for start, offsets in expected.items()}

        address = str(running.broker.address)
        found = await asyncio.to_thread(read, client, address, counts, tmp_path / "stderr")

        assert found == expected
