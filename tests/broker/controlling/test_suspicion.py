"""Which failures mean that a broker's process is gone."""

from __future__ import annotations

import pytest

from ottla.broker.controlling.suspicion import FailureSign, Suspicion, sign_of
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.ports import Address
from ottla.wire.errors import BrokerUnreachable, ConnectionLost

PLACE = Address("127.0.0.1", 1)
REFUSED, BROKEN, RESET, NONE = FailureSign


def unreachable(cause: BaseException) -> BrokerUnreachable:
    error = BrokerUnreachable(PLACE, "test")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "sign"),
    [
        (ConnectionRefusedError(), REFUSED),
        (unreachable(ConnectionRefusedError()), REFUSED),
        (ConnectionResetError(), BROKEN),
        (ConnectionLost(PLACE, "test", was_sent=True), BROKEN),
        (unreachable(ConnectionResetError()), RESET),
        (unreachable(ConnectionLost(PLACE, "test", was_sent=False)), RESET),
        (unreachable(TimeoutError()), NONE),
        (unreachable(OSError("no route")), NONE),
        (KafkaError(ErrorCode.REQUEST_TIMED_OUT), NONE),
    ],
)
def test_a_slow_network_is_no_sign_of_death(error: Exception, sign: FailureSign) -> None:
    """Only a kernel that answers for a process which is gone tells of its death; taking silence
    for it would move leaderships whenever the network stutters."""
    assert sign_of(error) is sign


@pytest.mark.parametrize(
    ("signs", "is_dead"),
    [
        ([BROKEN, REFUSED, REFUSED], True),
        ([BROKEN, RESET, NONE, REFUSED, REFUSED], True),
        ([BROKEN, REFUSED], False),
        ([BROKEN, REFUSED, RESET, REFUSED], False),
        ([REFUSED, REFUSED, REFUSED], False),
        ([RESET, REFUSED, REFUSED], False),
    ],
)
def test_a_loss_and_two_refusals_in_a_row_are_death(
    signs: list[FailureSign], is_dead: bool
) -> None:
    """Who has not begun to listen is not dead, and one refusal may be a restart of the network."""
    suspicion = Suspicion()
    assert [suspicion.failed(sign) for sign in signs][-1] is is_dead
    suspicion.answered()
    assert not any(suspicion.failed(REFUSED) for _ in range(3))


def test_who_never_answered_cannot_be_lost() -> None:
    """Another process may have the address by now and close connections from strangers."""
    suspicion = Suspicion()
    for sign in (BROKEN, REFUSED, REFUSED):
        assert suspicion.failed(sign, has_answered=False) is False
