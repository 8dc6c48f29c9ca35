"""Adds the broker id to log lines when several brokers run in one process.

Tasks, timers and socket callbacks keep the context in which they were created, so it is enough to
start each broker in its own task. With a single broker the lines carry no id.
"""

from __future__ import annotations

import contextvars
import json
import logging
from datetime import UTC, datetime
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


class BrokerNames(logging.Filter):
    """Sets the ``broker`` field of ``LOG_FORMAT``: "broker 2 ", or empty."""

    def filter(self, record: logging.LogRecord) -> bool:
        node_id = _NODE_ID.get()
        record.broker = "" if node_id is None else f"broker {node_id} "
        return True


class JsonLines(logging.Formatter):
    """One JSON object per line, for programs that collect logs: ``time`` in UTC, ``level``,
    ``logger``, ``message``, and where they apply ``broker`` and ``exception``."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, object] = {
            "time": moment.replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        node_id = _NODE_ID.get()
        if node_id is not None:
            line["broker"] = node_id
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)
