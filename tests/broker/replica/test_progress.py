"""What a leader knows of one follower."""

from __future__ import annotations

from ottla.broker.replica.progress import FollowerProgress


def test_a_follower_that_waits_with_everything_keeps_up_until_there_is_more() -> None:
    """Its lag begins with the first record that it does not have, and not with its last fetch,
    however long it was ready to wait."""
    follower = FollowerProgress(2, 0.0, is_member=True)
    follower.on_fetch(10, 10, 1_000.0)
    follower.had_all_until(4_000.0)
    assert follower.is_caught_up(11, 14_000.0, 10_000.0)
    assert not follower.is_caught_up(11, 14_001.0, 10_000.0)


def test_what_a_follower_had_is_never_counted_backwards() -> None:
    """Its fetch may have been later."""
    follower = FollowerProgress(2, 0.0, is_member=True)
    follower.on_fetch(10, 10, 1_000.0)
    follower.had_all_until(500.0)
    assert follower.last_caught_up_ms == 1_000.0
