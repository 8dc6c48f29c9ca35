"""One replica: what it lets be written, what is committed, what may be read."""

from __future__ import annotations

import pytest

from ottla.broker.replica.fetching import GOOD, FetchVerdict
from ottla.broker.replica.leading import ReplicaLimits
from ottla.broker.replica.partition import Replica
from ottla.broker.replica.roles import LogBounds
from ottla.broker.replica.watermark import FetchIsolation
from ottla.protocol.errors import ErrorCode
from tests.broker.replica.support.batches import data_batch, marker_batch
from tests.broker.replica.support.replicas import fetch, leader_of, led_by, replica_of


@pytest.mark.requirement("REP-06", "REP-28")
def test_alone_in_the_isr_an_append_is_committed_at_once() -> None:
    """A single broker is an ISR of one, through the code of the cluster."""
    replica = leader_of(1)
    moved = replica.on_appended(5, now_ms=0)

    assert moved
    assert replica.high_watermark == 5
    assert replica.replication_state(5, 0) is ErrorCode.NONE


@pytest.mark.requirement("REP-06", "REP-07", "REP-14", "REP-15", "NET-20", "NET-28")
def test_a_record_is_committed_when_the_whole_isr_has_fetched_past_it() -> None:
    """The next fetch offset is the acknowledgement; not a majority, all of them."""
    replica = leader_of(1, 2, 3)
    replica.on_appended(50, now_ms=0)
    steps = []
    for node_id, offset in ((2, 50), (3, 20), (3, 50), (3, 50)):
        verdict = replica.on_follower_fetch(fetch(node_id, offset), now_ms=1)
        steps.append((verdict.watermark_moved, replica.high_watermark))

    assert steps == [(False, 0), (True, 20), (True, 50), (False, 50)]


@pytest.mark.requirement("REP-14")
def test_the_watermark_of_a_leader_never_goes_back() -> None:
    """A follower that restarted with less must not make committed records disappear."""
    replica = leader_of(1, 2)
    replica.on_appended(50, now_ms=0)
    replica.on_follower_fetch(fetch(2, 50), now_ms=1)
    replica.on_follower_fetch(fetch(2, 10), now_ms=2)

    assert replica.high_watermark == 50


def test_a_follower_that_is_silent_in_this_epoch_holds_the_watermark() -> None:
    """What it said to an earlier leader is of another lineage (R-10)."""
    replica = leader_of(1, 2, log_end_offset=10)

    assert replica.high_watermark == 0


def test_a_missing_checkpoint_means_the_log_start() -> None:
    """Never the log end: what was not committed must not become so by a lost file (R-26)."""
    assert replica_of(10, start=3).high_watermark == 3
    assert replica_of(10, start=3, watermark=7).high_watermark == 7


def test_a_log_that_stayed_in_use_is_taken_up_at_the_watermark_it_had_reached() -> None:
    """What was saved may be older, and the ends of transactions between the two are forgotten: by
    the older one they would seem replicated already, and be shown (T-17)."""
    replica = replica_of(10, watermark=5)
    replica.become_follower(led_by(2))
    replica.on_replicated(10, 8, leader_epoch=0)
    again = Replica(1, replica.history, ReplicaLimits(), LogBounds(0, 10, 5))

    assert again.high_watermark == 8
    assert replica_of(10, start=3, watermark=1).high_watermark == 3
    assert replica_of(10, start=3, watermark=11).high_watermark == 10


@pytest.mark.requirement("REP-20")
def test_too_few_in_sync_refuse_acks_all_and_nothing_else() -> None:
    """The refusal comes before the append, so it is definite (R-18, R-20)."""
    replica = replica_of(limits=ReplicaLimits(2))
    replica.become_leader(led_by(1, isr=(1,), replicas=(1, 2, 3)), now_ms=0)

    assert replica.can_append(-1) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert replica.can_append(1) is ErrorCode.NONE
    assert replica.can_append(0) is ErrorCode.NONE


@pytest.mark.requirement("REP-19")
def test_a_leader_alone_accepts_writes_if_one_is_enough() -> None:
    """Both followers are dead and min.insync.replicas is 1."""
    replica = replica_of()
    replica.become_leader(led_by(1, isr=(1,), replicas=(1, 2, 3)), now_ms=0)

    assert replica.can_append(-1) is ErrorCode.NONE


@pytest.mark.parametrize("isr", [(1,), (1, 2)])
def test_where_flushes_count_the_leaders_own_copy_counts_from_its_flush_on(
    isr: tuple[int, ...],
) -> None:
    """A power cut of all replicas must not take records that a consumer has seen (R-21)."""
    replica = replica_of(limits=ReplicaLimits(counts_flushed=True))
    replica.become_leader(led_by(1, isr=isr), now_ms=0)
    steps = [replica.on_appended(10, now_ms=0), replica.on_flushed(4, now_ms=0)]
    replica.on_follower_fetch(fetch(2, 10), now_ms=1)
    marks = [replica.high_watermark]
    steps += [replica.on_flushed(10, now_ms=2), replica.on_flushed(10, now_ms=3)]

    assert marks == [4]
    assert steps == [False, isr == (1,), True, False]
    assert replica.high_watermark == 10


def test_what_was_cut_was_not_flushed_at_its_next_offset() -> None:
    """Other records will take those offsets (S-06)."""
    replica = replica_of(10, limits=ReplicaLimits(counts_flushed=True))
    replica.on_flushed(10, now_ms=0)
    replica.become_follower(led_by(2, 1, isr=(1, 2)))
    replica.on_cut(0, 4)
    replica.on_replicated(10, 4, 1)
    replica.become_leader(led_by(1, 2, isr=(1,), replicas=(1, 2)), now_ms=0)

    assert replica.high_watermark == 4


def test_the_high_watermark_does_not_move_below_min_insync_replicas() -> None:
    """Else the last in-sync replica would decide alone what is committed (R-18, KAFKA-15583)."""
    replica = replica_of(limits=ReplicaLimits(2))
    replica.become_leader(led_by(1, isr=(1,), replicas=(1, 2, 3)), now_ms=0)
    moved = replica.on_appended(10, now_ms=0)

    assert not moved
    assert replica.high_watermark == 0
    assert replica.replication_state(10, 0) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


@pytest.mark.parametrize(
    ("isr", "refusal", "outcome"),
    [
        ((1, 2), ErrorCode.NONE, None),
        ((1,), ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND),
    ],
)
def test_a_minimum_above_the_number_of_replicas_asks_for_all_of_them(
    isr: tuple[int, ...], refusal: ErrorCode, outcome: ErrorCode | None
) -> None:
    """Not for more than there are: three of two would refuse acks=all for ever."""
    replica = replica_of(limits=ReplicaLimits(3))
    replica.become_leader(led_by(1, isr=isr, replicas=(1, 2)), now_ms=0)
    before = replica.can_append(-1)
    replica.on_appended(10, now_ms=0)

    assert before is refusal
    assert replica.replication_state(10, 0) is outcome


def test_a_partition_with_one_replica_takes_acks_all_whatever_the_minimum() -> None:
    """One broker with the configuration of three still serves."""
    replica = leader_of(1, min_insync=2)

    assert replica.can_append(-1) is ErrorCode.NONE
    assert replica.on_appended(10, now_ms=0)
    assert replica.replication_state(10, 0) is ErrorCode.NONE


def test_waiting_for_replication_ends_with_the_leadership() -> None:
    """In the next epoch other records may stand at that offset; the outcome is open (R-20)."""
    replica = leader_of(1, 2)
    replica.on_appended(10, now_ms=0)
    assert replica.replication_state(10, 0) is None

    replica.become_follower(led_by(2, 1, isr=(1, 2)))
    while_following = replica.replication_state(10, 0)
    replica.become_leader(led_by(1, 2, isr=(1,), replicas=(1, 2)), now_ms=0)

    assert while_following is ErrorCode.REQUEST_TIMED_OUT
    assert replica.high_watermark == 10
    assert replica.replication_state(10, 0) is ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize("epoch", [1, 2])
def test_leader_answers_when_the_smaller_isr_has_the_batch(epoch: int) -> None:
    """The controller has raised the epoch, perhaps twice, and this broker still leads: its log was
    not cut, so the batch is where it was. Only the follower that is gone is not waited for (R-20).
    """
    replica = leader_of(1, 2, 3)
    replica.on_appended(10, now_ms=0)
    replica.on_follower_fetch(fetch(2, 10), now_ms=0)
    before = replica.replication_state(10, 0)
    replica.become_leader(led_by(1, epoch, isr=(1, 2), replicas=(1, 2, 3)), now_ms=1)
    silent = replica.replication_state(10, 0)
    replica.on_follower_fetch(fetch(2, 10, epoch=epoch), now_ms=2)

    assert (before, silent) == (None, None)
    assert replica.replication_state(10, 0) is ErrorCode.NONE


def test_too_small_an_isr_after_a_new_epoch_leaves_the_outcome_open() -> None:
    """The batch is there and counts when a follower is back."""
    replica = replica_of(limits=ReplicaLimits(2))
    replica.become_leader(led_by(1, isr=(1, 2)), now_ms=0)
    replica.on_appended(10, now_ms=0)
    replica.become_leader(led_by(1, 1, isr=(1,), replicas=(1, 2)), now_ms=1)

    assert replica.replication_state(10, 0) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_a_coordinator_continues_in_the_next_leader_epoch_and_not_in_a_later_one() -> None:
    """In an epoch between, another broker may have led (G-12)."""
    replica = leader_of(1, 2)
    replica.become_leader(led_by(1, 1, isr=(1,), replicas=(1, 2)), now_ms=0)
    after_one = [replica.leads_since(epoch) for epoch in (0, 1)]
    replica.become_leader(led_by(1, 3, isr=(1,), replicas=(1, 2)), now_ms=0)
    after_a_gap = [replica.leads_since(epoch) for epoch in (0, 1, 3)]
    replica.become_follower(led_by(2, 4, isr=(1, 2)))
    following = replica.leads_since(3)
    replica.become_leader(led_by(1, 5, isr=(1,), replicas=(1, 2)), now_ms=0)

    assert after_one == [True, True]
    assert after_a_gap == [False, False, True]
    assert not following
    assert [replica.leads_since(epoch) for epoch in (3, 4, 5)] == [False, False, True]


@pytest.mark.parametrize(
    ("replicas", "isr", "unclean", "acks", "error"),
    [
        ((1,), (1,), True, 1, ErrorCode.NONE),
        ((1,), (1,), True, -1, ErrorCode.NONE),
        ((1, 2), (1, 2), False, 1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ((1, 2), (1, 2), False, 0, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ((1, 2), (1, 2), False, -1, ErrorCode.NONE),
        ((1, 2), (1,), False, -1, ErrorCode.NONE),
        ((1, 2), (1, 2), True, -1, ErrorCode.NONE),
        ((1, 2), (1,), True, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_without_a_lease_only_what_cannot_vanish_is_accepted(
    replicas: tuple[int, ...], isr: tuple[int, ...], unclean: bool, acks: int, error: ErrorCode
) -> None:
    """A leader that the store has forgotten must not promise anything (R-19)."""
    replica = replica_of(limits=ReplicaLimits(unclean_leader_election=unclean))
    replica.become_leader(led_by(1, isr=isr, replicas=replicas), now_ms=0)

    assert replica.can_append(acks, has_lease=False) is error


@pytest.mark.requirement("NET-18")
def test_each_reader_has_its_bound() -> None:
    """Followers copy to the log end; consumers see only what is committed."""
    replica = leader_of(1, 2)
    history = replica.history
    history.observe(data_batch(0, at=0))
    history.observe(data_batch(1, count=2, at=1, transactional=True))
    replica.on_appended(5, now_ms=0)
    replica.on_follower_fetch(fetch(2, 4), now_ms=0)

    assert replica.upper_bound(FetchIsolation.LOG_END) == 5
    assert replica.upper_bound(FetchIsolation.READ_UNCOMMITTED) == 4
    assert replica.upper_bound(FetchIsolation.READ_COMMITTED) == 1


def test_the_stable_offset_waits_for_the_marker_to_be_replicated() -> None:
    """Until then the marker may be truncated, and the transaction be open again (T-17)."""
    replica = leader_of(1, 2)
    replica.history.observe(data_batch(0, count=3, at=0, transactional=True))
    replica.history.observe(marker_batch(3))
    replica.on_appended(4, now_ms=0)
    stable = []
    for offset in (3, 4):
        replica.on_follower_fetch(fetch(2, offset), now_ms=0)
        stable.append(replica.last_stable_offset)

    assert stable == [0, 4]


def test_the_stable_offset_is_never_before_the_log_start() -> None:
    """DeleteRecords may take the beginning of an open transaction away."""
    replica = leader_of(1)
    replica.history.observe(data_batch(0, count=3, at=0, transactional=True))
    replica.on_appended(3, now_ms=0)
    replica.on_cut(2, 3)

    assert replica.last_stable_offset == 2


@pytest.mark.parametrize(
    ("offset", "verdict"),
    [
        (4, FetchVerdict(ErrorCode.OFFSET_OUT_OF_RANGE)),
        (5, GOOD),
        (10, GOOD),
        (11, FetchVerdict(ErrorCode.OFFSET_OUT_OF_RANGE)),
    ],
)
def test_a_fetch_lies_within_the_log(offset: int, verdict: FetchVerdict) -> None:
    """Between watermark and log end there is nothing to read, which is no error."""
    replica = replica_of(10, start=5)
    replica.become_leader(led_by(1, isr=(1, 2)), now_ms=0)

    assert replica.high_watermark == 5
    assert replica.judge_fetch(offset, 0) == verdict


def test_a_new_leader_does_not_name_offsets_before_it_has_caught_up() -> None:
    """A consumer that already has read further would go back (KIP-207, R-28)."""
    replica = replica_of(10, watermark=6)
    replica.become_leader(led_by(1, isr=(1, 2)), now_ms=0)
    before = replica.check_offsets_known()
    replica.on_follower_fetch(fetch(2, 10, last_epoch=-1), now_ms=0)

    assert before is ErrorCode.OFFSET_NOT_AVAILABLE
    assert replica.check_offsets_known() is ErrorCode.NONE
