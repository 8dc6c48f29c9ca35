"""Bounded reads over logs with holes, against a toy cluster."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

import ottla
from ottla.client.fetching.offset_specs import Moment, Spot, spot_of
from ottla.protocol.records.batch import HEADER, refresh_crc
from ottla.protocol.records.builder import encode_batch

if TYPE_CHECKING:
    from tests.client.support.toy_broker import ToyCluster, ToyTopic

NOW_MS = 1_800_000_000_000


def put(topic: ToyTopic, offset: int, count: int, last_offset_delta: int | None = None) -> None:
    """A batch at that offset; the records before it, and at its end, have been compacted away."""
    log = topic.partitions[0]
    log.next_offset = offset
    data = bytearray(encode_batch([(1, None, b"x", ()) for _ in range(count)]))
    if last_offset_delta is not None:
        fields = list(HEADER.unpack_from(data))
        fields[6] = last_offset_delta
        HEADER.pack_into(data, 0, *fields)
        refresh_crc(data, 0)
    log.append(bytes(data))


async def offsets(toy: ToyCluster, start: Moment = "earliest", end: Moment = "latest") -> list[int]:
    """Offsets that a read returns."""
    table = await ottla.aread_arrow("t", bootstrap_servers=toy.bootstrap, start=start, end=end)
    found: list[int] = table.column("offset").to_pylist()
    return found


@pytest.mark.timeout(60)
async def test_holes_of_compaction_neither_hang_a_read_nor_count(toy: ToyCluster) -> None:
    """Between batches, at the end of one, and from the last record to the end of the log, where
    no fetch will ever bring anything that moves the position."""
    topic = toy.add_topic("t")
    put(topic, 2, 3)
    put(topic, 10, 2, last_offset_delta=9)
    topic.partitions[0].next_offset = 40

    assert await offsets(toy) == [2, 3, 4, 10, 11]
    assert await offsets(toy, 3, 11) == [3, 4, 10]
    assert await offsets(toy, 12, 20) == []
    assert await offsets(toy, 25) == []


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        (17, Spot(17)),
        (-3, Spot(-3)),
        ({0: 4, 1: 5}, Spot(5)),
        ("earliest", Spot(timestamp=-2)),
        ("latest", Spot(timestamp=-1)),
        ("90s", Spot(timestamp=NOW_MS - 90_000)),
        ("1.5 h ago", Spot(timestamp=NOW_MS - 5_400_000)),
        ("2 d", Spot(timestamp=NOW_MS - 172_800_000)),
        (timedelta(minutes=1), Spot(timestamp=NOW_MS - 60_000)),
        ("1970-01-01T00:00:01+00:00", Spot(timestamp=1000)),
        (datetime(1970, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))), Spot(timestamp=0)),
        # A record of the first millisecond is before it, and not at it or later.
        (datetime(1970, 1, 1, 0, 0, 0, 1999, tzinfo=UTC), Spot(timestamp=2)),
        (datetime(9999, 12, 31, 23, 59, 59, 999000, tzinfo=UTC), Spot(timestamp=253402300799999)),
        # As a timestamp, a millisecond before 1970 would be the end.
        ("1969-12-31T23:59:59.999+00:00", Spot(timestamp=-2)),
        (datetime(1969, 12, 31, tzinfo=UTC), Spot(timestamp=-2)),
        (timedelta(milliseconds=NOW_MS + 1), Spot(timestamp=-2)),
        (f"{NOW_MS + 1}ms", Spot(timestamp=-2)),
        (f"{'9' * 400}h", Spot(timestamp=-2)),
    ],
)
def test_places_in_a_topic_can_be_said_in_many_ways(moment: Moment, expected: Spot) -> None:
    """Users write positions in many forms; -1 and -2 are Kafka's numbers for the two ends."""
    assert spot_of(moment, 1, NOW_MS) == expected


@pytest.mark.parametrize("moment", ["yesterday", "1y", "", {0: 1}])
def test_what_is_no_place_is_refused_with_what_is(moment: Moment) -> None:
    """A guess would read something else than what was meant."""
    with pytest.raises(ValueError, match=r"there is no offset for partition 1|is not a position"):
        spot_of(moment, 1, NOW_MS)
