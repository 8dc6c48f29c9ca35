"""Which broker of a process says what: its number is in the context of everything that it runs.

Tasks, timers and the callbacks of sockets keep the context in which they were made, so it is
enough to start each broker in a task of its own. Where there is one broker, nobody is named.
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
    """Do what the broker of that id does. Awaited by a task of its own: it names all of it."""
    _NODE_ID.set(node_id)
    await work


class BrokerNames(logging.Filter):
    """Gives records the ``broker`` of ``LOG_FORMAT``: "broker 2 ", or nothing."""

    def filter(self, record: logging.LogRecord) -> bool:
        node_id = _NODE_ID.get()
        record.broker = "" if node_id is None else f"broker {node_id} "
        return True
