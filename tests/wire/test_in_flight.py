"""Requests that wait for their answers."""

from __future__ import annotations

import pytest

from ottla.protocol.errors import RemoteProtocolError
from ottla.wire.requests import CORRELATION_ID_LAST, InFlight, InFlightRequest


def sent(in_flight: InFlight[str], name: str, deadline_ms: float = 100) -> int:
    """Add a request."""
    number = in_flight.next_correlation_id
    in_flight.add(InFlightRequest(number, 0, 0, 0, deadline_ms, 0, name))
    return number


def test_answers_meet_their_requests_in_order() -> None:
    """The oldest is answered first, always."""
    in_flight: InFlight[str] = InFlight()
    numbers = [sent(in_flight, name) for name in "abc"]

    assert [in_flight.answered(number).waiter for number in numbers] == ["a", "b", "c"]
    assert len(in_flight) == 0


def test_an_answer_out_of_turn_is_a_breach() -> None:
    """Hazard N-08: taking it would give one request the answer to another."""
    in_flight: InFlight[str] = InFlight()
    sent(in_flight, "a")
    second = sent(in_flight, "b")

    with pytest.raises(RemoteProtocolError, match="while 0 was due"):
        in_flight.answered(second)


def test_an_answer_without_a_request_is_a_breach() -> None:
    """A second answer to one request shifts all that follow."""
    in_flight: InFlight[str] = InFlight()
    number = sent(in_flight, "a")
    in_flight.answered(number)

    with pytest.raises(RemoteProtocolError, match="to no request"):
        in_flight.answered(number)


def test_numbers_wrap_after_the_largest() -> None:
    """A busy connection gets there within months."""
    in_flight: InFlight[str] = InFlight()
    in_flight.next_correlation_id = CORRELATION_ID_LAST

    assert sent(in_flight, "a") == CORRELATION_ID_LAST
    assert sent(in_flight, "b") == 0


def test_a_later_request_may_have_the_earlier_deadline() -> None:
    """A long poll may be in front of a quick request."""
    in_flight: InFlight[str] = InFlight()
    assert in_flight.next_deadline_ms(0) is None
    sent(in_flight, "long", 500)
    sent(in_flight, "quick", 50)

    assert in_flight.next_deadline_ms(0) == 50
    assert in_flight.overdue(49, 0) is None
    overdue = in_flight.overdue(50, 0)
    assert overdue is not None
    assert overdue.waiter == "quick"
    assert [waiting.waiter for waiting in in_flight.drain()] == ["long", "quick"]


def test_a_step_of_the_connection_gives_all_of_them_their_time_again() -> None:
    """Requests behind others on a slow link time out only when no bytes move any more."""
    in_flight: InFlight[str] = InFlight()
    sent(in_flight, "long", 500)
    sent(in_flight, "quick", 50)

    assert in_flight.next_deadline_ms(40) == 90
    assert in_flight.overdue(89, 40) is None
    overdue = in_flight.overdue(90, 40)
    assert overdue is not None
    assert overdue.waiter == "quick"
