"""Collects the errors that the broker logs during a run: evidence like any other.

Without faults of the disk a broker has no reason to complain, and a handler that failed is easily
hidden from clients by their retries.
"""

from __future__ import annotations

import logging


class Complaints(logging.Handler):
    """Attached for one run; keeps the messages in their order."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []
        self._logger = logging.getLogger("ottla")
        self._level = self._logger.level

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            message += f" ({record.exc_info[1]!r})"
        if len(self.messages) < 1_000:
            self.messages.append(message)

    def __enter__(self) -> Complaints:
        self._level = self._logger.level
        if self._logger.getEffectiveLevel() > logging.ERROR:
            self._logger.setLevel(logging.ERROR)
        self._logger.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)
        self._logger.setLevel(self._level)
