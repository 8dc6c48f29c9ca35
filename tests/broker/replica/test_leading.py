"""Which followers join the in-sync set, which leave it, and when it stays as it is."""

from __future__ import annotations

import pytest

from ottla.broker.replica.history import ReplicaHistory
from ottla.broker.replica.isr import ChangeOutcome, IsrChange
from ottla.broker.replica.leading import Leading, PartitionLeadership, ReplicaLimits
from ottla.broker.replica.partition import Replica
from ottla.broker.replica.progress import ANY_LAG, FollowerFetch
from ottla.broker.replica.roles import LogBounds

LAG_MS = 10_000
LIVE = {1: 71, 2: 72, 3: 73}


class Leader:
    """Node 1 leading replicas 1, 2, 3 in epoch 5, with a log that ends at 100."""

    def __init__(self, *isr: int, log_end_offset: int = 100, watermark: int = 100) -> None:
        self.replica = Replica(
            1,
            ReplicaHistory(),
            ReplicaLimits(lag_time_max_ms=LAG_MS),
            LogBounds(0, log_end_offset, watermark),
        )
        self.replica.become_leader(PartitionLeadership(1, 5, 0, isr, (1, 2, 3)), now_ms=0)

    @property
    def leading(self) -> Leading:
        assert self.replica.leading is not None
        return self.replica.leading

    def fetch(
        self, node_id: int, offset: int, now_ms: float, broker_epoch: int = 0, start: int = 0
    ) -> bool:
        """True if the follower may join."""
        epoch = broker_epoch or LIVE[node_id]
        fetch = FollowerFetch(node_id, epoch, offset, -1, 5, start)
        return self.replica.on_follower_fetch(fetch, now_ms).may_join

    def propose(self, now_ms: float, asking: int | None = None) -> IsrChange | None:
        """``asking``: the follower whose fetch was the last."""
        replica = self.replica
        return self.leading.propose(replica.high_watermark, replica.log_end_offset, now_ms, asking)


@pytest.mark.requirement("REP-09", "REP-10", "REP-21")
def test_follower_beyond_the_lag_time_leaves_the_isr() -> None:
    """One frozen follower must not hold every acks=all producer."""
    leader = Leader(1, 2, 3)
    leader.fetch(2, 100, now_ms=0)
    leader.fetch(3, 100, now_ms=0)
    leader.replica.on_appended(150, now_ms=1)
    leader.fetch(2, 150, now_ms=2)
    in_time = leader.propose(now_ms=LAG_MS)
    too_late = leader.propose(now_ms=LAG_MS + 1)

    assert in_time is None
    assert too_late is not None
    assert (too_late.isr, too_late.added) == ((1, 2), ())
    assert leader.replica.high_watermark == 100

    leader.leading.on_answer(too_late, ChangeOutcome.APPLIED, 1)
    assert leader.replica.maybe_raise_watermark(now_ms=LAG_MS + 2)
    assert leader.replica.high_watermark == 150


def test_a_follower_of_an_idle_partition_stays_however_long_it_is_silent() -> None:
    """It has everything; taking it out and in again writes the store for nothing (R-17)."""
    leader = Leader(1, 2, 3)
    for node_id in (2, 3):
        leader.fetch(node_id, 100, now_ms=0)

    assert leader.propose(now_ms=1_000_000_000) is None


def test_a_follower_that_always_lags_one_fetch_behind_stays() -> None:
    """A busy leader has new records by the time of every fetch (KIP-16)."""
    leader = Leader(1, 2)
    now_ms, end = 0.0, 100
    for _ in range(50):
        leader.fetch(2, end, now_ms)
        end += 10
        now_ms += 1_000
        leader.replica.on_appended(end, now_ms)

        assert leader.propose(now_ms) is None


def test_a_follower_one_fetch_behind_had_caught_up_at_its_fetch_before() -> None:
    """What it asks for now it had not yet asked for then: its lag is counted from that fetch, and
    not from the present one."""
    leader = Leader(1, 2)
    leader.fetch(2, 100, now_ms=0)
    leader.replica.on_appended(110, now_ms=1_000)
    leader.fetch(2, 100, now_ms=2_000)
    leader.replica.on_appended(120, now_ms=3_000)
    leader.fetch(2, 110, now_ms=5_000)

    assert leader.leading.followers[2].last_caught_up_ms == 2_000
    assert leader.propose(now_ms=2_000 + LAG_MS) is None
    assert leader.propose(now_ms=2_001 + LAG_MS) is not None


def test_a_follower_behind_the_end_at_its_fetch_before_had_not_caught_up() -> None:
    """A follower that lacks one record of that end has not caught up."""
    leader = Leader(1, 2)
    leader.fetch(2, 100, now_ms=0)
    leader.replica.on_appended(110, now_ms=1_000)
    leader.fetch(2, 100, now_ms=2_000)
    leader.replica.on_appended(120, now_ms=3_000)
    leader.fetch(2, 109, now_ms=5_000)

    assert leader.leading.followers[2].last_caught_up_ms == 0


def test_a_follower_that_fetches_but_does_not_keep_up_leaves() -> None:
    """Being heard is not enough: lag is the time since it had caught up."""
    leader = Leader(1, 2)
    for step in range(12):
        leader.replica.on_appended(200 + step * 100, now_ms=step * 1_000)
        leader.fetch(2, 100 + step, now_ms=step * 1_000)

    change = leader.propose(now_ms=11_000)
    assert change is not None
    assert change.isr == (1,)


def test_a_member_of_the_isr_has_the_lag_time_for_its_first_fetch() -> None:
    """After an election followers need a moment to find the new leader."""
    leader = Leader(1, 2, 3)
    leader.fetch(2, 100, now_ms=5)

    assert leader.propose(now_ms=LAG_MS) is None
    change = leader.propose(now_ms=LAG_MS + 1)
    assert change is not None
    assert change.isr == (1, 2)


@pytest.mark.requirement("REP-12")
def test_a_follower_that_has_caught_up_joins() -> None:
    """With its broker epoch, so that the store can refuse another incarnation (KIP-903)."""
    leader = Leader(1, 2)
    leader.fetch(2, 100, now_ms=0)
    before = leader.fetch(3, 99, now_ms=0)
    after = leader.fetch(3, 100, now_ms=1)
    change = leader.propose(now_ms=1, asking=3)

    assert [before, after] == [False, True]
    assert change is not None
    assert (change.isr, change.added) == ((1, 2, 3), ((3, 73),))
    assert (change.leader_epoch, change.partition_epoch) == (5, 0)


def test_a_follower_below_the_start_of_the_epoch_does_not_join() -> None:
    """The new leader's watermark lags: 85 passes it, and 85..99 were acknowledged (R-11)."""
    leader = Leader(1, 2, log_end_offset=100, watermark=80)

    assert not leader.fetch(3, 85, now_ms=0)
    assert leader.propose(now_ms=0, asking=3) is None
    assert leader.fetch(3, 100, now_ms=1)


def test_a_follower_joins_the_isr_only_when_it_fetches() -> None:
    """An earlier fetch does not show that the follower still fetches."""
    leader = Leader(1, 2)
    leader.fetch(3, 100, now_ms=0)
    leader.fetch(2, 100, now_ms=1)

    assert leader.propose(now_ms=1, asking=2) is None
    assert leader.propose(now_ms=1) is None
    leader.fetch(3, 100, now_ms=2)
    change = leader.propose(now_ms=2, asking=3)
    assert change is not None
    assert change.isr == (1, 2, 3)


def test_a_silent_follower_leaves_once_and_stays_out() -> None:
    """With too few in sync the watermark does not advance, so the follower never falls below it
    (R-17)."""
    leader = Leader(1, 2)
    leader.replica.limits.min_insync_replicas = 2
    leader.fetch(2, 100, now_ms=0)
    leader.replica.on_appended(101, now_ms=1)
    leave = leader.propose(now_ms=LAG_MS + 1)
    assert leave is not None
    leader.leading.on_answer(leave, ChangeOutcome.APPLIED, 1)

    proposed = [leader.propose(now_ms=LAG_MS * step) for step in range(2, 20)]
    assert proposed == [None] * 18
    assert leader.leading.in_sync.committed == (1,)
    leader.fetch(2, 100, now_ms=LAG_MS * 20)
    back = leader.propose(now_ms=LAG_MS * 20, asking=2)
    assert back is not None
    assert (back.isr, back.added) == ((1, 2), ((2, 72),))


def test_a_follower_that_fetches_stays_however_many_records_it_is_behind() -> None:
    """From 0.9 on: replica.lag.max.messages=4000 took followers out in every burst of records."""
    leader = Leader(1, 2)
    for number in range(20):
        # Up to where the log ended at its last fetch, with a burst of 4,001 records in between.
        leader.fetch(2, leader.replica.log_end_offset, now_ms=number * 1_000)
        leader.replica.on_appended(leader.replica.log_end_offset + 4_001, now_ms=number * 1_000 + 1)
        assert leader.propose(now_ms=number * 1_000 + 999) is None


@pytest.mark.requirement("REP-11")
@pytest.mark.parametrize("lag_messages_max", [4_000, ANY_LAG])
def test_in_0_8_mode_a_follower_too_many_messages_behind_leaves_though_it_fetches(
    lag_messages_max: int,
) -> None:
    """It keeps up as KIP-16 has it; in 0.8 the number alone counts, and it is back within it."""
    leader = Leader(1, 2, 3)
    leader.replica.limits.lag_messages_max = lag_messages_max
    leader.replica.on_appended(8_000, now_ms=0)
    leader.fetch(2, 4_000, now_ms=1)
    stays = leader.propose(now_ms=1)
    leader.replica.on_appended(8_001, now_ms=2)
    leaves = leader.propose(now_ms=2)
    if lag_messages_max == ANY_LAG:
        assert (stays, leaves) == (None, None)
        return

    assert stays is None
    assert leaves is not None
    # The third has not fetched in this epoch: the lag time is its limit.
    assert leaves.isr == (1, 3)
    leader.leading.on_answer(leaves, ChangeOutcome.APPLIED, 1)
    leader.fetch(3, 4_000, now_ms=3)
    leader.fetch(2, 4_000, now_ms=3)
    both_behind = leader.propose(now_ms=3, asking=2)
    assert both_behind is not None
    assert (both_behind.isr, both_behind.added) == ((1,), ())


def test_in_0_8_mode_a_follower_comes_back_within_the_number_of_messages() -> None:
    """What keeps up as far as time goes does not hold the watermark meanwhile."""
    leader = Leader(1, watermark=100)
    leader.replica.limits.lag_messages_max = 10
    leader.fetch(2, 100, now_ms=0)
    leader.replica.on_appended(120, now_ms=1)
    leader.replica.maybe_raise_watermark(now_ms=1)
    alone = leader.replica.high_watermark
    leader.fetch(2, 119, now_ms=2)
    behind = leader.propose(now_ms=2, asking=2)
    leader.replica.on_appended(125, now_ms=3)
    leader.fetch(2, 120, now_ms=3)
    back = leader.propose(now_ms=3, asking=2)

    assert (alone, behind) == (120, None)
    assert back is not None
    assert back.isr == (1, 2)


@pytest.mark.requirement("REP-25")
def test_a_leader_believes_a_follower_that_lies() -> None:
    """Crash faults are tolerated, no others: a follower that asks for offset 150 is taken to have
    everything before it, whether it has stored that or not."""
    leader = Leader(1, 2)
    leader.replica.on_appended(150, now_ms=1)
    before = leader.replica.high_watermark
    leader.fetch(2, 150, now_ms=2)

    assert (before, leader.replica.high_watermark) == (100, 150)


def test_only_one_isr_change_is_pending_at_a_time() -> None:
    """A second one would be computed from an outdated state."""
    leader = Leader(1, 2)
    leader.fetch(2, 100, now_ms=0)
    leader.fetch(3, 100, now_ms=0)

    assert leader.propose(now_ms=0, asking=3) is not None
    assert leader.propose(now_ms=100_000) is None


def test_the_watermark_waits_for_a_member_that_is_being_added() -> None:
    """The store may have it already: a later leader could be chosen from it (R-12)."""
    leader = Leader(1, 2)
    leader.fetch(2, 100, now_ms=0)
    leader.fetch(3, 100, now_ms=0)
    leader.propose(now_ms=0, asking=3)
    leader.replica.on_appended(120, now_ms=100_000)
    leader.fetch(2, 120, now_ms=100_000)

    assert leader.replica.high_watermark == 100


def test_a_follower_that_lacks_a_promised_deletion_may_not_join() -> None:
    """The client was told that the records are deleted; the follower may lead next (S-19)."""
    leader = Leader(1)
    assert leader.fetch(2, 100, now_ms=0)
    leader.leading.promise_start(40)
    leader.leading.promise_start(30)

    assert not leader.fetch(2, 100, now_ms=1, start=39)
    assert leader.propose(1, asking=2) is None
    assert leader.fetch(2, 100, now_ms=2, start=40)
    change = leader.propose(2, asking=2)
    assert change is not None
    assert change.isr == (1, 2)


def test_a_new_leader_keeps_what_earlier_ones_may_have_promised() -> None:
    """It does not know why its log starts where it does."""
    replica = Replica(1, ReplicaHistory(), ReplicaLimits(), LogBounds(20, 100, 100))
    replica.become_leader(PartitionLeadership(1, 5, 0, (1,), (1, 2)), now_ms=0)
    for start, expected in ((19, False), (20, True)):
        fetch = FollowerFetch(2, LIVE[2], 100, -1, 5, start)
        assert replica.on_follower_fetch(fetch, 1).may_join is expected


def test_the_watermark_waits_for_a_follower_that_keeps_up_from_outside() -> None:
    """Otherwise a busy leader that is alone in its ISR is always ahead, and no follower ever
    joins."""
    leader = Leader(1)
    leader.fetch(2, 100, now_ms=0)
    leader.replica.on_appended(120, now_ms=1)
    held = leader.replica.high_watermark
    may_join = leader.fetch(2, 110, now_ms=2)
    leader.replica.on_appended(130, now_ms=3)

    assert held == 100
    assert may_join
    assert leader.replica.high_watermark == 110
    assert leader.replica.maybe_raise_watermark(now_ms=2 * LAG_MS)
    assert leader.replica.high_watermark == 130


def test_a_straggler_outside_does_not_hold_the_watermark() -> None:
    """It is far behind and was never in sync in this epoch."""
    leader = Leader(1)
    leader.fetch(2, 10, now_ms=0)
    leader.replica.on_appended(120, now_ms=1)

    assert leader.replica.high_watermark == 120


def test_members_that_have_left_the_assignment_do_not_count() -> None:
    """Reassignment leaves them in the ISR for a while (R-30)."""
    leader = Leader(1, 2)
    replica = leader.replica
    replica.become_leader(PartitionLeadership(1, 5, 1, (1, 2), (1, 3)), now_ms=0)
    replica.on_appended(120, now_ms=0)

    assert leader.leading.insync_count == 1
    assert replica.high_watermark == 120
    change = leader.propose(now_ms=0)
    assert change is not None
    assert change.isr == (1,)
