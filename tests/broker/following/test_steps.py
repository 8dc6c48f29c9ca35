"""What a leader's answer means for a follower's log, case by case."""

from __future__ import annotations

import pytest

from ottla.broker.following.steps import (
    DROP,
    FetchPosition,
    FollowerStep,
    LeaderAnswer,
    LogAction,
    step_for,
)
from ottla.broker.replica.epochs import UNDEFINED_END, EpochEnd
from ottla.broker.replica.history import ReplicaHistory
from ottla.broker.replica.leading import ReplicaLimits
from ottla.broker.replica.partition import Replica
from ottla.broker.replica.roles import LogBounds
from ottla.protocol.errors import ErrorCode
from tests.broker.replica.support.replicas import led_by

EPOCH = 9
LEADER = 2

Epochs = list[tuple[int, int]]


def follower(epochs: Epochs, end: int, *, start: int = 0, watermark: int | None = None) -> Replica:
    """Node 1 following node 2 in epoch 9, with a log of these epochs."""
    history = ReplicaHistory()
    history.load_leader_epochs(epochs)
    replica = Replica(1, history, ReplicaLimits(), LogBounds(start, end, watermark))
    replica.become_follower(led_by(LEADER, EPOCH, isr=(1, LEADER)))
    return replica


def ask(replica: Replica) -> FetchPosition:
    end = replica.log_end_offset
    last = replica.history.epochs.epoch_at(end - 1)
    return FetchPosition(replica.leader_epoch, end, last, replica.log_start_offset)


def step(replica: Replica, told: LeaderAnswer) -> FollowerStep:
    return step_for(ask(replica), told, replica)


def test_records_are_appended() -> None:
    """The usual answer."""
    replica = follower([(8, 0)], 10)
    told = LeaderAnswer(high_watermark=10, log_start_offset=0, has_records=True)
    assert step(replica, told) == FollowerStep(LogAction.APPEND, has_records=True)


@pytest.mark.parametrize(
    ("own", "end", "leader_end", "cut"),
    [
        # The leader has less of the same epoch.
        pytest.param([(1, 0)], 10, (1, 7), 7, id="same epoch"),
        # KIP-101, scenario 1: m2 of epoch 0 is with both; nothing parts, so nothing is cut there.
        # KIP-101, scenario 2: A holds m1 m2 of epoch 0, B has written m3 under epoch 1.
        pytest.param([(0, 0)], 2, (0, 1), 1, id="kip-101 scenario 2"),
        # KIP-279, fast failover: the leader never saw epoch 2 and says where its epoch 1 ended,
        # of which this log has less: what follows of epoch 2 goes.
        pytest.param([(1, 0), (2, 10)], 20, (1, 21), 10, id="kip-279: own end is lower"),
        pytest.param([(1, 0), (2, 10)], 20, (1, 5), 5, id="kip-279: leader's end is lower"),
        # Neither knows the other's epoch: cut to the end of the newest one below, ask again.
        pytest.param([(1, 0), (3, 10), (5, 15)], 20, (4, 30), 15, id="kip-279: ask again"),
        pytest.param([(1, 0), (3, 10)], 15, (2, 12), 10, id="kip-279: the second question"),
        # All of it is of epochs that the leader has forgotten, or never had.
        pytest.param([(5, 0)], 8, (2, 3), 0, id="nothing in common"),
        pytest.param([(5, 4)], 8, (5, 4), 4, id="only the beginning"),
    ],
)
def test_a_diverging_log_is_cut_to_where_both_have_the_same(
    own: Epochs, end: int, leader_end: tuple[int, int], cut: int
) -> None:
    """R-03: min of both ends of the epoch that both know, or on to the next question."""
    told = LeaderAnswer(high_watermark=end, diverging=EpochEnd(*leader_end))
    assert step(follower(own, end), told) == FollowerStep(LogAction.TRUNCATE, cut)


def test_a_follower_never_cuts_by_its_high_watermark() -> None:
    """R-01: what the watermark does not cover yet may have been acknowledged."""
    replica = follower([(8, 0)], 10, watermark=3)
    told = LeaderAnswer(high_watermark=3, log_start_offset=0)

    assert step(replica, told) == FollowerStep(LogAction.APPEND)
    assert replica.log_end_offset == 10


def test_an_answer_of_another_epoch_is_dropped() -> None:
    """R-06: a late refusal must not end the fetching of the new epoch, nor a late cut touch it."""
    replica = follower([(8, 0)], 10)
    asked = ask(replica)
    replica.become_follower(led_by(3, EPOCH + 1, isr=(1, 3)))

    for told in (
        LeaderAnswer(ErrorCode.FENCED_LEADER_EPOCH),
        LeaderAnswer(diverging=EpochEnd(8, 2)),
        LeaderAnswer(ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=50),
        LeaderAnswer(high_watermark=10, has_records=True),
    ):
        assert step_for(asked, told, replica) == DROP


def test_an_answer_for_another_place_is_dropped() -> None:
    """The log was cut meanwhile: what would follow its old end does not follow the new one."""
    replica = follower([(8, 0)], 10)
    asked = ask(replica)
    replica.on_cut(0, 6)
    assert step_for(asked, LeaderAnswer(high_watermark=10, has_records=True), replica) == DROP


def test_a_leader_follows_no_broker() -> None:
    """R-07: the log of a leader is its own."""
    replica = follower([(8, 0)], 10)
    asked = ask(replica)
    replica.become_leader(led_by(1, EPOCH + 1), now_ms=0)
    assert step_for(asked, LeaderAnswer(diverging=EpochEnd(8, 2)), replica) == DROP


def test_a_replica_without_a_role_follows_no_broker() -> None:
    """The partition was taken away while the answer was under way."""
    replica = follower([(8, 0)], 10)
    asked = ask(replica)
    replica.resign()
    assert step_for(asked, LeaderAnswer(high_watermark=10, has_records=True), replica) == DROP


def test_only_a_leaders_later_start_makes_a_follower_start_over() -> None:
    """R-27: a follower that wipes its log on any out-of-range may wipe the only other copy."""
    out = ErrorCode.OFFSET_OUT_OF_RANGE
    replica = follower([(8, 0)], 10)

    assert step(replica, LeaderAnswer(out, log_start_offset=11)) == FollowerStep(
        LogAction.RESTART, 11
    )
    for start in (-1, 0, 10):
        assert step(replica, LeaderAnswer(out, log_start_offset=start)) == FollowerStep(
            LogAction.WAIT, error=out
        )


def test_an_empty_log_may_start_anywhere() -> None:
    """It has nothing to lose, and no epoch by which the leader could tell where it parts."""
    out = ErrorCode.OFFSET_OUT_OF_RANGE
    replica = follower([], 10, start=10)

    assert step(replica, LeaderAnswer(out, log_start_offset=4)) == FollowerStep(
        LogAction.RESTART, 4
    )
    assert step(replica, LeaderAnswer(out, log_start_offset=-1)) == FollowerStep(
        LogAction.WAIT, error=out
    )
    # Where it begins already; there is nothing to do but to wait for the leader.
    assert step(replica, LeaderAnswer(out, log_start_offset=10)) == FollowerStep(
        LogAction.WAIT, error=out
    )


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ],
)
def test_every_other_refusal_is_waited_out(error: ErrorCode) -> None:
    """R-06: a follower that gives up on a refusal stays behind until the next election."""
    # Whatever else stands in the answer.
    told = LeaderAnswer(error, 99, 50, EpochEnd(1, 1), has_records=True)
    assert step(follower([(8, 0)], 10), told) == FollowerStep(LogAction.WAIT, error=error)


def test_a_question_that_would_be_asked_for_ever_is_asked_slowly() -> None:
    """A leader that says nonsense must cost neither records nor a busy loop."""
    wait = FollowerStep(LogAction.WAIT, error=ErrorCode.UNKNOWN_LEADER_EPOCH)
    replica = follower([(8, 0)], 10)

    assert step(replica, LeaderAnswer(diverging=UNDEFINED_END)) == wait
    assert step(replica, LeaderAnswer(diverging=EpochEnd(8, 10))) == wait
    assert step(replica, LeaderAnswer(diverging=EpochEnd(8, 25))) == wait


def test_a_leadership_without_writes_does_not_count_as_the_last_epoch() -> None:
    """R-04: a follower that led without writing says the epoch of its last record."""
    replica = follower([(5, 0), (6, 10)], 10)
    assert ask(replica).last_fetched_epoch == 5
