"""One replica: how its role changes, what fences it, and what followers are to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.broker.replica.epochs import EpochEnd
from ottla.broker.replica.fetching import FetchVerdict
from ottla.broker.replica.history import ReplicaHistory
from ottla.broker.replica.leading import ReplicaLimits
from ottla.broker.replica.partition import Replica
from ottla.broker.replica.roles import LogBounds, Role, RoleChange
from ottla.protocol.errors import ErrorCode
from tests.broker.replica.support.replicas import fetch, leader_of, led_by, replica_of

if TYPE_CHECKING:
    from ottla.broker.replica.progress import FollowerFetch

STALE = RoleChange(ErrorCode.STALE_CONTROLLER_EPOCH)


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


def test_a_repeated_request_of_the_controller_changes_nothing() -> None:
    """The controller sends it again when the answer was lost."""
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


def test_every_new_epoch_is_a_new_start_with_any_leader() -> None:
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


def test_a_follower_limits_the_leaders_high_watermark_to_its_own_log_end() -> None:
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
