"""Adds the broker id to log lines when several brokers run in one process.

Tasks, timers and socket callbacks keep the context in which they were created, so it is enough to
start each broker in its own task. With a single broker the lines carry no id.
"""

from __future__ import annotations

import contextvars
import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

LOG_FORMAT = "%(asctime)s %(levelname)s %(broker)s%(name)s: %(message)s"
_NODE_ID: contextvars.ContextVar[int | None] = contextvars.ContextVar("node_id", default=None)


async def as_broker(node_id: int, work: Coroutine[Any, Any, None]) -> None:
    """Run ``work`` with the broker id in its context. To be awaited by a task per broker."""
    _NODE_ID.set(node_id)
    await work


def current_broker() -> int | None:
    """The broker whose work logs now; None in a process of a single broker."""
    return _NODE_ID.get()


class BrokerNames(logging.Filter):
    """Sets the ``broker`` field of ``LOG_FORMAT``: "broker 2 ", or empty."""

    def filter(self, record: logging.LogRecord) -> bool:
        node_id = _NODE_ID.get()
        record.broker = "" if node_id is None else f"broker {node_id} "
        return True
