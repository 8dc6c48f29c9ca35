"""The first connection of a task: brokers that are being restarted are no reason for Spark to give
a query up."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeVar

from ottla.client.environment import real_environment
from ottla.client.errors import TransportError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

Result = TypeVar("Result")

logger = logging.getLogger(__name__)

RETRY_DELAYS_MS = (50, 200, 500, 1_000, 2_000, 2_000)


async def reached(attempt: Callable[[], Awaitable[Result]]) -> Result:
    """What the attempt to connect returns, which is made a few times more if it fails. Raises
    TransportError."""
    clock = real_environment().clock
    for delay_ms in RETRY_DELAYS_MS:
        try:
            return await attempt()
        except TransportError as error:
            logger.info("the cluster is not reached, and tried again: %s", error)
            await clock.sleep(delay_ms)
    return await attempt()
