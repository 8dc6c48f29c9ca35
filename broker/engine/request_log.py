"""One line for each request, when the logger ``ottla.requests`` is turned up to TRACE.

Off by default: a line costs as much as a small request. To ask the logger for its level costs a
thirtieth of one, so the dispatcher looks at a flag. ``refresh`` brings it up to date: after a
client has changed levels, with each request that takes the general way, and with each timed one.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.broker.engine.context import RequestContext

logger = logging.getLogger("ottla.requests")
# Log4j's level of that name, as in KIP-412.
TRACE = 5


class RequestLog:
    """The log of requests of this process; brokers that share a process share its loggers."""

    __slots__ = ("is_on",)

    def __init__(self) -> None:
        self.is_on = False

    def refresh(self) -> bool:
        """Whether the logger's level is TRACE now; sets ``is_on``."""
        self.is_on = logger.isEnabledFor(TRACE)
        return self.is_on

    def write(self, context: RequestContext) -> None:
        """Write the line of a request whose header is decoded; no client id counts as an empty
        one."""
        logger.log(
            TRACE,
            "api %d version %d, correlation id %d, client id %r, from %s",
            context.api_key,
            context.api_version,
            context.correlation_id,
            context.client_id,
            context.peer.connection_id,
        )


REQUEST_LOG = RequestLog()
