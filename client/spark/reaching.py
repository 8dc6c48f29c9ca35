"""Retries the first connection of a driver or a task while brokers are away.

A restart of all brokers must not end a query.
"""

from __future__ import annotations

import itertools
import logging
from typing import TYPE_CHECKING, TypeVar

from ottla.client.process.environment import real_environment
from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.errors import ClientError, TransportError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ottla.client.spark.given import Given

Result = TypeVar("Result")

logger = logging.getLogger(__name__)

OPTION = "firstContactTimeoutMs"
TIMEOUT_MS = 60_000
RETRY_DELAYS_MS = (50, 200, 500, 1_000)
RETRY_DELAY_MS_MAX = 2_000


class NotReached(ClientError):
    """No broker answered within the time limit."""


class Reach(NamedTuple):
    """The bootstrap addresses, and how long to try them."""

    servers: str
    timeout_ms: int

    @classmethod
    def of(cls, given: Given) -> Reach:
        """Read the options. Raises ValueError."""
        timeout_ms = given.number(OPTION, at_least=0)
        return cls(given.bootstrap_servers(), TIMEOUT_MS if timeout_ms is None else timeout_ms)


async def reached(attempt: Callable[[], Awaitable[Result]], reach: Reach) -> Result:
    """Retry ``attempt`` until it succeeds or the time is over. Raises NotReached, and what will
    fail again, such as AuthenticationFailed."""
    clock = real_environment().clock
    until_ms = clock.now_ms() + reach.timeout_ms
    for delay_ms in itertools.chain(RETRY_DELAYS_MS, itertools.repeat(RETRY_DELAY_MS_MAX)):
        try:
            return await attempt()
        except TransportError as error:
            if not error.retriable:
                # A refused login or certificate stays refused, and its sentence says what to do.
                raise
            left_ms = until_ms - clock.now_ms()
            if left_ms <= 0:
                raise NotReached(
                    f"no broker has answered at {reach.servers} within {reach.timeout_ms} ms, "
                    f"which is what the option {OPTION} allows: {error}"
                ) from error
            if delay_ms == RETRY_DELAYS_MS[0]:
                logger.warning("%s; trying again for %.0f s", error, left_ms / 1_000)
            await clock.sleep(min(delay_ms, left_ms))
    raise AssertionError("unreachable")
