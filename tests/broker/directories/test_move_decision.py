"""What becomes of a request to move a replica to another data directory."""

from __future__ import annotations

import pytest

from ottla.broker.directories.move_decision import MoveDecision, ReplicaLocation, decide_move
from ottla.protocol.errors import ErrorCode

DIRECTORIES = {"/a": True, "/b": True, "/c": True}
ONE_FAILED = {**DIRECTORIES, "/c": False}
SERVED = ReplicaLocation("t-0", True, False, True, "/a", None)
MOVING = SERVED._replace(future="/b")
ELSEWHERE = ReplicaLocation("t-0", True, False, False, None, None)
UNKNOWN = ELSEWHERE._replace(is_in_cluster=False)
NOTHING = MoveDecision()


@pytest.mark.parametrize(
    ("replica", "target", "decision"),
    [
        pytest.param(SERVED, "/b", MoveDecision(remembers=True, begins=True), id="a move begins"),
        pytest.param(SERVED, "/a", NOTHING, id="it is there already"),
        pytest.param(MOVING, "/b", NOTHING, id="it is on its way there"),
        pytest.param(MOVING, "/a", MoveDecision(cancels=True), id="back to where it is"),
        pytest.param(
            MOVING,
            "/c",
            MoveDecision(cancels=True, remembers=True, begins=True),
            id="elsewhere while it is on its way",
        ),
        pytest.param(
            ELSEWHERE,
            "/b",
            MoveDecision(ErrorCode.REPLICA_NOT_AVAILABLE, remembers=True),
            id="the replica may come later",
        ),
        pytest.param(
            UNKNOWN,
            "/b",
            MoveDecision(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, remembers=True),
            id="so may the topic",
        ),
        pytest.param(
            SERVED, "/x", MoveDecision(ErrorCode.LOG_DIR_NOT_FOUND), id="no such directory"
        ),
        pytest.param(
            SERVED._replace(is_offline=True, is_served=False),
            "/b",
            MoveDecision(ErrorCode.KAFKA_STORAGE_ERROR),
            id="its own directory has failed",
        ),
        pytest.param(
            SERVED._replace(name="t" * 214 + "-0"),
            "/b",
            MoveDecision(ErrorCode.INVALID_TOPIC_EXCEPTION),
            id="the copy's name would be too long",
        ),
    ],
)
def test_a_request_is_decided_as_kafka_decides_it(
    replica: ReplicaLocation, target: str, decision: MoveDecision
) -> None:
    """Tools tell these cases apart by their codes, and repeat those that may pass."""
    assert decide_move(replica, target, DIRECTORIES) == decision


@pytest.mark.parametrize(
    ("replica", "target", "decision"),
    [
        (SERVED, "/c", MoveDecision(ErrorCode.KAFKA_STORAGE_ERROR)),
        (SERVED, "/b", MoveDecision(ErrorCode.KAFKA_STORAGE_ERROR, remembers=True)),
        (SERVED, "/a", NOTHING),
        (MOVING, "/a", MoveDecision(cancels=True)),
    ],
)
def test_no_move_begins_while_a_directory_has_failed(
    replica: ReplicaLocation, target: str, decision: MoveDecision
) -> None:
    """It may hold a copy of the same replica; giving up a move needs nothing of it."""
    assert decide_move(replica, target, ONE_FAILED) == decision


def test_a_name_that_just_fits_is_moved() -> None:
    """255 bytes are what file systems take."""
    fits = SERVED._replace(name="t" * 213 + "-0")

    assert decide_move(fits, "/b", DIRECTORIES).begins
