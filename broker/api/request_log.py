"""One line for each request, when the logger ``ottla.requests`` is turned up to TRACE.

Off by default: a line costs as much as a small request. While it is on, no request takes the short
way past the decoding of its header.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.broker.engine.context import RequestContext

logger = logging.getLogger("ottla.requests")
# Log4j's level of that name, as in KIP-412.
TRACE = 5

is_on = partial(logger.isEnabledFor, TRACE)


def tell(context: RequestContext) -> None:
    """Write the line of a request whose header is decoded; no client id counts as an empty one."""
    logger.log(
        TRACE,
        "api %d version %d, correlation id %d, client id %r, from %s",
        context.api_key,
        context.api_version,
        context.correlation_id,
        context.client_id,
        context.peer.connection_id,
    )
