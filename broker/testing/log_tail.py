"""The last lines that the brokers of one cluster have logged."""

from __future__ import annotations

import logging
from collections import deque

from ottla.broker.server.log_names import LOG_FORMAT, BrokerNames

LINES_MAX = 500


class LogTail(logging.Handler):
    """Keeps what is logged in one thread, for as long as it is attached.

    It receives what the program's logging lets through, warnings by default, and changes nothing
    about that."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: deque[str] = deque(maxlen=LINES_MAX)
        self._thread_id: int | None = None
        self.addFilter(BrokerNames())
        self.setFormatter(logging.Formatter(LOG_FORMAT))

    def attach(self, thread_id: int | None) -> None:
        """Listen to that thread."""
        self._thread_id = thread_id
        logging.getLogger("ottla").addHandler(self)

    def detach(self) -> None:
        logging.getLogger("ottla").removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread == self._thread_id:
            self.lines.extend(self.format(record).splitlines())
