"""Every request of a connection gets one answer, in the order of the requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.history import History


def check(history: History) -> list[str]:
    """Violations in words. Answers may be missing at the end: the connection may have broken."""
    found = []
    for exchange in history.exchanges:
        expected = exchange.asked[: len(exchange.answered)]
        if exchange.answered != expected:
            place = next(
                (
                    number
                    for number, (one, other) in enumerate(
                        zip(exchange.asked, exchange.answered, strict=False)
                    )
                    if one != other
                ),
                len(expected),
            )
            found.append(
                f"replies: {exchange.name} asked {exchange.asked[place : place + 3]}, "
                f"was answered {exchange.answered[place : place + 3]} (request {place})"
            )
    return found
