"""Moves of replicas that are given up, replaced or refused."""

from __future__ import annotations

import pytest

from ottla.coordinator.controller.events import AlterMoves
from ottla.coordinator.controller.specs import MoveSpec, TopicSpec
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from tests.coordinator.controller.moving import MOVED, T0, Watched
from tests.coordinator.controller.scene import Scene, broker, partition_errors

OLD = {1, 2, 3}


def test_a_move_can_be_given_up() -> None:
    """What was added goes at once; the rest is as it was."""
    scene = Watched()
    assert scene.ask(MoveSpec(T0, None)) == [ErrorCode.NO_REASSIGNMENT_IN_PROGRESS]
    scene.ask(MoveSpec(T0, (3, 4)))
    scene.leader_writes("t", 0, (1, 2, 4))
    scene.sent.clear()
    assert scene.ask(MoveSpec(T0, None)) == [ErrorCode.NONE]

    state = scene.state("t", 0)
    assert set(state.replicas) == OLD
    assert (state.leader, state.isr, state.is_moving) == (1, (1, 2), False)
    assert scene.deleted_on(4) == [(state.leader_epoch, True)]
    assert scene.deleted_on(1) == []


def test_another_target_replaces_the_first() -> None:
    """KIP-455: replicas that are no longer targets leave at once, even if one of them leads."""
    scene = Watched()
    scene.ask(MOVED)
    scene.leader_writes("t", 0, (1, 2, 3, 4))
    scene.live(*(broker(node_id) for node_id in (4, 5, 6)))
    assert scene.state("t", 0).leader == 4
    # No other replica is in sync: without this one the partition would be lost.
    assert scene.ask(MoveSpec(T0, (5, 6))) == [ErrorCode.INVALID_REPLICA_ASSIGNMENT]
    assert scene.ask(MoveSpec(T0, None)) == [ErrorCode.INVALID_REPLICA_ASSIGNMENT]
    scene.live(broker(1, 2, 1), *(broker(node_id) for node_id in (4, 5, 6)))
    scene.leader_writes("t", 0, (4, 1))
    assert scene.ask(MoveSpec(T0, (1, 5))) == [ErrorCode.NONE]

    state = scene.state("t", 0)
    assert (state.replicas, state.adding) == ((1, 5, 2, 3), (5,))
    assert (state.leader, state.isr) == (1, (1,))
    scene.leader_writes("t", 0, (1, 5))
    assert scene.state("t", 0).replicas == (1, 5)


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        (MoveSpec(T0, ()), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (MoveSpec(T0, (4, 4)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (MoveSpec(T0, (7,)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (MoveSpec(T0, (-1,)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (MoveSpec(TopicPartition("t", 1), (4,)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (MoveSpec(TopicPartition("u", 0), (4,)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (MoveSpec(T0, (1, 2, 3)), ErrorCode.NONE),
    ],
)
def test_moves_that_cannot_be_are_refused_one_by_one(spec: MoveSpec, error: ErrorCode) -> None:
    """One bad line in a plan of thousands does not spoil the others."""
    scene = Watched()
    before = scene.state("t", 0)

    assert scene.ask(spec) == [error]
    assert scene.state("t", 0) == before


def test_the_number_of_replicas_can_be_kept() -> None:
    """KIP-860: a plan made for three replicas must not take one away from a topic of four."""
    scene = Watched()
    decision = scene.handle(AlterMoves((MoveSpec(T0, (4, 5)),), allow_factor_change=False))

    assert partition_errors(decision) == [ErrorCode.INVALID_REPLICATION_FACTOR]
    assert scene.ask(MoveSpec(T0, (4, 5))) == [ErrorCode.NONE]


def test_another_order_of_the_same_replicas_is_done_at_once() -> None:
    """This changes the preferred leader; no records have to be copied."""
    scene = Watched()
    scene.ask(MoveSpec(T0, (2, 1, 3)))

    state = scene.state("t", 0)
    assert (state.replicas, state.leader, state.is_moving) == ((2, 1, 3), 1, False)


def test_messages_of_format_1_are_not_copied_to_another_broker() -> None:
    """Without leader epochs a follower could not tell where its log and the leader's diverge."""
    scene = Scene(broker(1), broker(2))
    keep = {"ottla.keep.message.format": "true"}
    one, two = scene.create(
        TopicSpec("kept", 1, 1, configs=keep), TopicSpec("twice", 1, 2, configs=keep)
    )
    (node_id,) = scene.state("kept", 0).replicas
    item = TopicPartition("kept", 0)

    assert (one.error_code, two.error_code) == (
        ErrorCode.NONE,
        ErrorCode.INVALID_REPLICATION_FACTOR,
    )
    decision = scene.handle(AlterMoves((MoveSpec(item, (3 - node_id,)),)))
    assert partition_errors(decision) == [ErrorCode.INVALID_REPLICA_ASSIGNMENT]
    decision = scene.handle(AlterMoves((MoveSpec(item, (node_id,)),)))
    assert partition_errors(decision) == [ErrorCode.NONE]
