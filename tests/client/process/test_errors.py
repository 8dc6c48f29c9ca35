"""What every error of a client contains."""

from __future__ import annotations

import pytest

from ottla.client.group.requests import GroupRefused
from ottla.client.process import errors
from ottla.client.process.errors import (
    AbortRequired,
    CommitFailed,
    DeliveryTimedOut,
    DeserializationFailed,
    NoOffset,
    RangeLost,
)
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from ottla.protocol.ports import Address
from ottla.wire import errors as wire_errors
from ottla.wire.errors import (
    BrokerUnreachable,
    ClientError,
    ConnectionLost,
    RequestRefused,
    RequestTimedOut,
)

HERE = Address("127.0.0.1", 9092)
T1 = TopicPartition("t", 1)
NAMED = (None, "t", 1)

EXAMPLES: list[tuple[ClientError, str, tuple[str | None, str | None, int | None], bool]] = [
    (BrokerUnreachable(HERE, "refused"), "NONE", ("127.0.0.1:9092", None, None), True),
    (ConnectionLost(HERE, "reset", was_sent=True), "NONE", ("127.0.0.1:9092", None, None), True),
    (
        RequestTimedOut(HERE, "Fetch", 5, was_sent=False),
        "NONE",
        ("127.0.0.1:9092", None, None),
        True,
    ),
    (
        RequestRefused.for_partition(ErrorCode.NOT_LEADER_OR_FOLLOWER, T1, "b:1"),
        "NOT_LEADER_OR_FOLLOWER",
        ("b:1", "t", 1),
        True,
    ),
    (
        RequestRefused(ErrorCode.TOPIC_ALREADY_EXISTS, topic="t"),
        "TOPIC_ALREADY_EXISTS",
        (None, "t", None),
        False,
    ),
    (
        GroupRefused(ErrorCode.NON_EMPTY_GROUP, "g", None, "b:1"),
        "NON_EMPTY_GROUP",
        ("b:1", None, None),
        False,
    ),
    (
        DeliveryTimedOut(T1, 5, was_sent=True, last_answer=ErrorCode.NOT_ENOUGH_REPLICAS),
        "NOT_ENOUGH_REPLICAS",
        NAMED,
        True,
    ),
    (NoOffset(T1, 7), "NONE", NAMED, False),
    (RangeLost(T1, 7, 9, 8), "NONE", NAMED, False),
    (CommitFailed("g", ErrorCode.ILLEGAL_GENERATION, [T1]), "ILLEGAL_GENERATION", NAMED, False),
    (DeserializationFailed(T1, 7, "key", ValueError("x")), "NONE", NAMED, False),
    (AbortRequired("x", ErrorCode.INVALID_TXN_STATE), "INVALID_TXN_STATE", (None,) * 3, False),
]


@pytest.mark.parametrize(("error", "code", "place", "retriable"), EXAMPLES)
def test_every_error_tells_its_code_its_place_and_whether_to_try_again(
    error: ClientError,
    code: str,
    place: tuple[str | None, str | None, int | None],
    retriable: bool,
) -> None:
    """One handler for all of them needs no questions about their kind."""
    assert error.code.name == code
    assert (error.broker, error.topic, error.partition) == place
    assert error.retriable is retriable
    assert error.can_retry == error.can_retry.strip() != ""


def test_whether_to_try_again_depends_on_what_was_sent() -> None:
    """The one thing that must never be guessed is whether a request took effect."""
    lost = [ConnectionLost(HERE, "reset", was_sent=was_sent) for was_sent in (False, True)]
    late = [DeliveryTimedOut(T1, 5, was_sent=was_sent) for was_sent in (False, True)]

    assert ["twice" in error.can_retry for error in (*lost, *late)] == [False, True] * 2


def test_all_errors_are_of_one_family() -> None:
    """``except ClientError`` catches whatever a client raises about the cluster."""
    own = [
        kind
        for module in (wire_errors, errors)
        for kind in vars(module).values()
        if isinstance(kind, type) and kind.__module__ == module.__name__
    ]

    assert len(own) > 20
    assert all(issubclass(kind, ClientError) for kind in own)
