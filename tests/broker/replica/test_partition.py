"""One replica: its roles, its fences, and what it lets pass."""

from __future__ import annotations

import pytest

from ottla.broker.replica.epochs import EpochEnd
from ottla.broker.replica.history import ReplicaHistory
from ottla.broker.replica.leading import Leadership, ReplicaLimits
from ottla.broker.replica.partition import GOOD, FetchVerdict, Replica
from ottla.broker.replica.progress import FollowerFetch
from ottla.broker.replica.roles import LogBounds, Role, RoleChange
from ottla.broker.replica.watermark import Isolation
from ottla.protocol.errors import ErrorCode
from tests.broker.replica.batches import data_batch, marker_batch

STALE = RoleChange(ErrorCode.STALE_CONTROLLER_EPOCH)


def replica_of(
    log_end_offset: int = 0,
    *,
    start: int = 0,
    watermark: int | None = None,
    limits: ReplicaLimits | None = None,
) -> Replica:
    bounds = LogBounds(start, log_end_offset, watermark)
    return Replica(1, ReplicaHistory(), limits or ReplicaLimits(), bounds)


def led_by(
    leader: int,
    leader_epoch: int = 0,
    *,
    isr: tuple[int, ...] = (1,),
    replicas: tuple[int, ...] | None = None,
    partition_epoch: int = 0,
) -> Leadership:
    return Leadership(leader, leader_epoch, partition_epoch, isr, replicas or isr)


def leader_of(*isr: int, log_end_offset: int = 0, min_insync: int = 1) -> Replica:
    """Node 1 leading in epoch 0 with that ISR, which is also the assignment."""
    replica = replica_of(log_end_offset, limits=ReplicaLimits(min_insync))
    replica.become_leader(led_by(1, isr=isr), now_ms=0)
    return replica


def fetch(node_id: int, offset: int, *, last_epoch: int = 0, epoch: int = 0) -> FollowerFetch:
    return FollowerFetch(node_id, 70 + node_id, offset, last_epoch, epoch, 0)


# ---- the watermark ----


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
    assert replica_of(10, start=3, watermark=1).high_watermark == 3
    assert replica_of(10, start=3, watermark=11).high_watermark == 10


@pytest.mark.requirement("REP-20")
def test_too_few_in_sync_refuse_acks_all_and_nothing_else() -> None:
    """The refusal comes before the append, so it is definite (R-18, R-20)."""
    replica = leader_of(1, min_insync=2)

    assert replica.can_append(-1) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert replica.can_append(1) is ErrorCode.NONE
    assert replica.can_append(0) is ErrorCode.NONE


@pytest.mark.requirement("REP-19")
def test_a_leader_alone_accepts_writes_if_one_is_enough() -> None:
    """Both followers are dead and min.insync.replicas is 1."""
    replica = replica_of()
    replica.become_leader(led_by(1, isr=(1,), replicas=(1, 2, 3)), now_ms=0)

    assert replica.can_append(-1) is ErrorCode.NONE


def test_the_watermark_stands_still_below_min_insync() -> None:
    """Else the last replica standing would alone decide what is committed (R-18, KAFKA-15583)."""
    replica = replica_of(limits=ReplicaLimits(2))
    replica.become_leader(led_by(1, isr=(1,), replicas=(1, 2, 3)), now_ms=0)
    moved = replica.on_appended(10, now_ms=0)

    assert not moved
    assert replica.high_watermark == 0
    assert replica.replication_state(10, 0) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_a_topic_with_fewer_replicas_than_it_demands_still_shows_its_records() -> None:
    """acks=1 is accepted there, so the records must become visible."""
    replica = leader_of(1, min_insync=2)

    assert replica.on_appended(10, now_ms=0)


def test_waiting_for_replication_ends_with_the_leadership() -> None:
    """In the next epoch other records may stand at that offset; the outcome is open (R-20)."""
    replica = leader_of(1, 2)
    replica.on_appended(10, now_ms=0)
    assert replica.replication_state(10, 0) is None

    replica.become_follower(led_by(2, 1, isr=(1, 2)))
    while_following = replica.replication_state(10, 0)
    replica.become_leader(led_by(1, 2, isr=(1,), replicas=(1, 2)), now_ms=0)

    assert while_following is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert replica.high_watermark == 10
    assert replica.replication_state(10, 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER


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


# ---- roles and epochs ----


def test_a_new_leader_notes_its_epoch_before_it_writes() -> None:
    """A leadership without writes must leave a trace (R-04)."""
    replica = replica_of(7, watermark=7)
    change = replica.become_leader(led_by(1, 4), now_ms=0)

    assert change == RoleChange(is_new_epoch=True)
    assert replica.history.leader_epochs() == [(4, 7)]


def test_an_older_leader_epoch_is_refused() -> None:
    """A late word of the controller must not depose a later leader."""
    replica = leader_of(1)
    replica.become_follower(led_by(2, 5, isr=(1, 2)))

    assert replica.become_leader(led_by(1, 4), now_ms=0) == STALE
    assert replica.become_follower(led_by(3, 4, isr=(1, 3))) == STALE
    assert (replica.role, replica.leader_epoch) == (Role.FOLLOWER, 5)


def test_two_leaders_of_one_epoch_are_refused() -> None:
    """Epochs tell histories apart only as long as each has one leader."""
    replica = leader_of(1)

    assert replica.become_follower(led_by(2, 0, isr=(1, 2), partition_epoch=9)) == STALE
    assert replica.role is Role.LEADER


def test_an_epoch_below_that_of_the_own_log_is_refused() -> None:
    """After a restart the log knows more than the memory."""
    history = ReplicaHistory()
    history.load_leader_epochs([(6, 0)])
    replica = Replica(1, history, ReplicaLimits(), LogBounds(0, 3))

    assert replica.become_leader(led_by(1, 5), now_ms=0) == STALE
    assert replica.become_leader(led_by(1, 6), now_ms=0).error is ErrorCode.NONE


def test_a_repeated_word_of_the_controller_changes_nothing() -> None:
    """Its request is sent again when the answer was lost."""
    replica = leader_of(1, 2)
    replica.on_appended(5, now_ms=0)
    replica.on_follower_fetch(fetch(2, 3), now_ms=0)
    again = replica.become_leader(led_by(1, isr=(1, 2)), now_ms=9)

    assert again == RoleChange()
    assert replica.high_watermark == 3


def test_a_later_state_of_the_same_epoch_is_merged() -> None:
    """Within an epoch the ISR moves by versions; the followers' progress stays."""
    replica = leader_of(1, 2, 3)
    replica.on_appended(5, now_ms=0)
    replica.on_follower_fetch(fetch(2, 5), now_ms=0)
    smaller = led_by(1, isr=(1, 2), replicas=(1, 2, 3), partition_epoch=1)
    change = replica.become_leader(smaller, now_ms=1)
    older = replica.become_leader(led_by(1, isr=(1, 2, 3)), now_ms=2)

    assert change == RoleChange(watermark_moved=True)
    assert older == RoleChange()
    assert replica.high_watermark == 5
    assert replica.leading is not None
    assert replica.leading.in_sync.committed == (1, 2)


def test_a_follower_keeps_its_log_until_the_leader_has_answered() -> None:
    """Cutting at the own watermark loses what the old leader has acknowledged (R-01)."""
    replica = replica_of(10, watermark=4)
    replica.become_follower(led_by(2, 3, isr=(1, 2)))

    assert (replica.log_end_offset, replica.high_watermark) == (10, 4)


def test_every_new_epoch_is_a_new_start_whoever_leads() -> None:
    """The leader may have been another one in between (R-05)."""
    replica = replica_of(10)
    first = replica.become_follower(led_by(2, 3, isr=(1, 2)))
    second = replica.become_follower(led_by(2, 5, isr=(1, 2)))
    repeated = replica.become_follower(led_by(2, 5, isr=(1, 2), partition_epoch=4))

    assert [first, second] == [RoleChange(is_new_epoch=True)] * 2
    assert repeated == RoleChange()


@pytest.mark.requirement("REP-02")
def test_only_the_leader_serves() -> None:
    """A produce or a fetch that comes to a follower is sent on by its error."""
    replica = replica_of(10)
    without_role = replica.check_leader_epoch(-1)
    replica.become_follower(led_by(2, 3, isr=(1, 2)))

    assert without_role is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert replica.can_append(1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert replica.judge_fetch(0, -1) == FetchVerdict(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert replica.check_leader_epoch(3, require_leader=False) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("believed", "error"),
    [
        (-1, ErrorCode.NONE),
        (4, ErrorCode.FENCED_LEADER_EPOCH),
        (5, ErrorCode.NONE),
        (6, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_requests_are_fenced_both_ways(believed: int, error: ErrorCode) -> None:
    """Lower: the client is behind. Higher: this leader is (R-10, KIP-320)."""
    replica = replica_of()
    replica.become_leader(led_by(1, 5), now_ms=0)

    assert replica.check_leader_epoch(believed) is error


def test_a_replica_that_resigned_has_no_role_and_remembers_its_epoch() -> None:
    """StopReplica ends the service; an older leader must still be fenced."""
    replica = leader_of(1)
    replica.become_leader(led_by(1, 3), now_ms=0)
    replica.resign()

    assert replica.can_append(1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert replica.become_leader(led_by(1, 2), now_ms=0) == STALE
    assert replica.become_leader(led_by(1, 3), now_ms=0).is_new_epoch


# ---- reading ----


@pytest.mark.requirement("NET-18")
def test_each_reader_has_its_bound() -> None:
    """Followers copy to the log end; consumers see only what is committed."""
    replica = leader_of(1, 2)
    history = replica.history
    history.observe(data_batch(0, at=0))
    history.observe(data_batch(1, count=2, at=1, transactional=True))
    replica.on_appended(5, now_ms=0)
    replica.on_follower_fetch(fetch(2, 4), now_ms=0)

    assert replica.upper_bound(Isolation.LOG_END) == 5
    assert replica.upper_bound(Isolation.READ_UNCOMMITTED) == 4
    assert replica.upper_bound(Isolation.READ_COMMITTED) == 1


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


@pytest.mark.requirement("LOG-16")
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


# ---- followers, as the leader sees them ----


def diverging_leader() -> Replica:
    """Epoch 1 wrote 0..9, epoch 3 has led from 10 on and its log ends at 20."""
    replica = replica_of(10)
    replica.history.load_leader_epochs([(1, 0)])
    replica.become_leader(led_by(1, 3, isr=(1, 2)), now_ms=0)
    replica.on_appended(20, now_ms=0)
    return replica


@pytest.mark.parametrize(
    ("asked", "verdict"),
    [
        (fetch(2, 15, last_epoch=2, epoch=3), FetchVerdict(diverging=EpochEnd(1, 10))),
        (fetch(2, 12, last_epoch=1, epoch=3), FetchVerdict(diverging=EpochEnd(1, 10))),
        (fetch(2, 15, last_epoch=3, epoch=2), FetchVerdict(ErrorCode.FENCED_LEADER_EPOCH)),
        (fetch(2, 15, last_epoch=3, epoch=4), FetchVerdict(ErrorCode.UNKNOWN_LEADER_EPOCH)),
        (fetch(2, 15, last_epoch=9, epoch=3), FetchVerdict(ErrorCode.OFFSET_OUT_OF_RANGE)),
        (fetch(2, 21, last_epoch=3, epoch=3), FetchVerdict(diverging=EpochEnd(3, 20))),
        (fetch(7, 15, last_epoch=3, epoch=3), FetchVerdict(ErrorCode.UNKNOWN_LEADER_EPOCH)),
    ],
)
def test_a_fetch_that_does_not_fit_acknowledges_nothing(
    asked: FollowerFetch, verdict: FetchVerdict
) -> None:
    """Counted, it would raise the watermark over records the follower does not have (R-09)."""
    replica = diverging_leader()

    assert replica.on_follower_fetch(asked, now_ms=0) == verdict
    assert replica.high_watermark == 0
    assert replica.leading is not None
    assert not replica.leading.followers[2].is_known


def test_an_older_incarnation_of_a_follower_is_refused() -> None:
    """Its log was wiped or lost its end since it asked (R-22)."""
    replica = leader_of(1, 2)
    replica.on_appended(10, now_ms=0)
    replica.on_follower_fetch(fetch(2, 4)._replace(broker_epoch=100), now_ms=0)
    late = replica.on_follower_fetch(fetch(2, 10)._replace(broker_epoch=99), now_ms=0)

    assert late == FetchVerdict(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert replica.high_watermark == 4


# ---- as a follower ----


def test_a_follower_takes_the_watermark_of_its_leader_within_its_own_log() -> None:
    """It has fewer records than the leader, or a leader that knows less than the last one."""
    replica = replica_of(5, watermark=3)
    replica.become_follower(led_by(2, 1, isr=(1, 2)))
    marks = []
    for end, leader_mark in ((5, 2), (8, 6), (10, 50)):
        replica.on_replicated(end, leader_mark, leader_epoch=1)
        marks.append(replica.high_watermark)

    assert marks == [3, 6, 10]


def test_an_answer_from_an_older_epoch_is_dropped() -> None:
    """The log has moved on since it was asked for (R-06)."""
    replica = replica_of(5)
    replica.become_follower(led_by(2, 2, isr=(1, 2)))

    assert not replica.on_replicated(8, 8, leader_epoch=1)
    assert replica.log_end_offset == 5


def test_a_cut_takes_the_watermark_along() -> None:
    """It must not point behind the end, nor, after a new beginning, before the start (R-26)."""
    replica = replica_of(10, watermark=8)
    replica.become_follower(led_by(2, 2, isr=(1, 2)))
    replica.on_cut(0, 6)
    after_truncation = replica.high_watermark
    replica.on_cut(100, 100)

    assert (after_truncation, replica.high_watermark) == (6, 100)
