"""ListOffsets 0: the first offsets of segments, by the times of their files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.broker.handlers.old.list_offsets import OffsetTime, offsets_before
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tests.broker.support.requests import batch, create, produced

if TYPE_CHECKING:
    from tests.support.raw_client import RawClient

TIMES = [OffsetTime(0, 100), OffsetTime(10, 200), OffsetTime(20, 300), OffsetTime(25, 400)]
LATEST, EARLIEST = -1, -2


@pytest.mark.parametrize(
    ("timestamp", "count", "offsets"),
    [
        (LATEST, 1, [25]),
        (LATEST, 3, [25, 20, 10]),
        (LATEST, 99, [25, 20, 10, 0]),
        (LATEST, 0, []),
        (LATEST, -1, []),
        (EARLIEST, 1, [0]),
        (EARLIEST, 9, [0]),
        (99, 9, []),
        (100, 9, [0]),
        (299, 9, [10, 0]),
        (299, 1, [10]),
        (10**6, 2, [25, 20]),
    ],
)
def test_offsets_before_a_time_come_with_the_largest_first(
    timestamp: int, count: int, offsets: list[int]
) -> None:
    """As many as asked for, none from the time on."""
    assert offsets_before(TIMES, timestamp, count) == offsets


async def _asked(client: RawClient, timestamp: int, count: int, topic: str = "t") -> list[int]:
    wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp, max_num_offsets=count)
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])]
    )
    part = (await client.call(0, request)).topics[0].partitions[0]
    return [part.error_code, *part.old_style_offsets]


async def test_segments_of_a_log_are_told(client: RawClient) -> None:
    """And the errors, which have no offsets."""
    await create(client, segment_bytes="300")
    for _ in range(3):
        await produced(client, batch(bytes(150)))

    assert await _asked(client, LATEST, 9) == [0, 3, 2, 1, 0]
    assert await _asked(client, LATEST, 1) == [0, 3]
    assert await _asked(client, EARLIEST, 1) == [0, 0]
    assert await _asked(client, 2**60, 2) == [0, 3, 2]
    missing = await _asked(client, LATEST, 1, "missing")
    assert missing == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


async def test_an_empty_log_has_one_offset(client: RawClient) -> None:
    """Its first is also its last."""
    await create(client)

    assert await _asked(client, LATEST, 9) == [0, 0]
    assert await _asked(client, EARLIEST, 9) == [0, 0]
