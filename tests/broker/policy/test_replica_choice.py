"""Whom a consumer is sent to."""

from __future__ import annotations

import pytest

from ottla.broker.policy.replica_choice import LEADER, Candidate, nearest_replica

FOLLOWERS = (
    Candidate(2, "b", high_watermark=90, log_start_offset=10, log_end_offset=95),
    Candidate(3, "c", high_watermark=100, log_start_offset=0, log_end_offset=100),
    Candidate(4, "b", high_watermark=90, log_start_offset=10, log_end_offset=100),
    Candidate(5, "b", high_watermark=90, log_start_offset=10, log_end_offset=100),
    Candidate(6, None, high_watermark=100, log_start_offset=0, log_end_offset=100),
)


@pytest.mark.parametrize(
    ("rack", "offset", "expected"),
    [
        # The one that has most; of equal ones always the same.
        ("b", 50, 4),
        ("c", 50, 3),
        # The leader's own rack, a rack without replicas, and a client that does not name its rack.
        ("a", 50, LEADER),
        ("z", 50, LEADER),
        ("", 50, LEADER),
        # What a follower does not have, or does not know to be committed.
        ("b", 91, LEADER),
        ("b", 90, 4),
        ("b", 9, LEADER),
    ],
)
def test_a_consumer_is_sent_to_its_own_rack_if_what_it_wants_is_there(
    rack: str, offset: int, expected: int
) -> None:
    """Traffic between racks is what it is to save; wrong answers it must not cost."""
    assert nearest_replica(rack, "a", offset, FOLLOWERS) == expected


def test_a_leader_that_does_not_say_where_it_is_sends_on() -> None:
    """It may be anywhere; the follower is known to be near."""
    assert nearest_replica("c", None, 50, FOLLOWERS) == 3
