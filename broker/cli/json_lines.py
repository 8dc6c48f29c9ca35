"""Writes the log of ``ottla start --log-format json``."""

from __future__ import annotations

import json
import logging
import time

from ottla.broker.server.log_names import current_broker


class JsonLines(logging.Formatter):
    """One JSON object per line, for programs that collect logs: ``time`` in UTC, ``level``,
    ``logger``, ``message``, and where they apply ``broker`` and ``exception``."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, object] = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        node_id = current_broker()
        if node_id is not None:
            line["broker"] = node_id
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)
