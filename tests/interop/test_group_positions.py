"""Where members continue reading: after a stop, after a rebalance, and after a seek."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from tests.interop.support.crews import KINDS, SETTLED_S, Crew, Kind
from tests.interop.support.load import Load
from tests.interop.support.members import holes, offsets_read, wait_until

if TYPE_CHECKING:
    from tests.interop.support.members import Member, Partition


def ends_of_reading(member: Member) -> dict[Partition, int]:
    """Behind the last record that it has processed of each partition."""
    return {where: ranges[-1][1] + 1 for where, ranges in offsets_read([member]).items()}


@pytest.mark.requirement("CON-18", "CON-21")
@pytest.mark.parametrize("kind", KINDS)
def test_every_position_follows_from_what_was_processed(crew: Crew, kind: Kind) -> None:
    """After a stop in the middle of the work the committed offset is the last processed record plus
    one; the next owner begins exactly there, and a seek moves it."""
    first = crew.join(kind, pace_ms=20, batch=50)
    crew.settle()
    load = Load(crew.address, crew.topic, 8_000, 2_000)
    wait_until(lambda: len(offsets_read([first])) == len(crew.partitions), [first], SETTLED_S)
    first.leave()
    stopped_at = ends_of_reading(first)
    assert crew.committed() == stopped_at

    second = crew.join(kind)
    crew.settle()
    crew.join(kind)
    crew.settle()
    ends = load.finish()
    wait_until(lambda: not holes(crew.members, ends), crew.present, SETTLED_S)
    for where, ranges in offsets_read(crew.members).items():
        assert [later[0] - earlier[1] for earlier, later in pairwise(ranges)] == (
            [1] * (len(ranges) - 1)
        ), where
    for where, position in stopped_at.items():
        reads = second.reads(where)
        assert not reads or reads[0]["first"] >= position

    where = min(second.held)
    count = len(second.reads(where))
    second.seek(where, ends[where] // 2)
    wait_until(
        lambda: len(now := second.reads(where)) > count and now[-1]["last"] == ends[where] - 1,
        [second],
        SETTLED_S,
    )
    assert second.reads(where)[count]["first"] == ends[where] // 2
    for member in crew.present:
        member.leave()
    assert crew.committed() == ends
