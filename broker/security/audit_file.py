"""Destinations of the audit log: the log of the process, or a separate file."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.protocol.ports import Disk, File

logger = logging.getLogger("ottla.audit")


class AuditFile:
    """Appends lines to a file. It opens the file for the first line and never truncates it."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._file: File | None = None
        self._has_failed = False

    def write(self, line: str) -> bool:
        """Append one line; return whether the file has it. After a failure lines go to the log of
        the process instead."""
        try:
            if self._file is None or not self._disk.exists(self._path):
                # After a log rotation the path is a new file.
                self._file = self._disk.open(self._path, create=True)
            self._file.append([line.encode() + b"\n"])
        except OSError as error:
            self._file = None
            if not self._has_failed:
                logger.critical("the audit log %s cannot be written: %s", self._path, error)
            self._has_failed = True
            logger.info("%s", line)
        else:
            if self._has_failed:
                logger.warning("the audit log %s can be written again", self._path)
            self._has_failed = False
        return not self._has_failed


def audit_sink(disk: Disk, path: str | None) -> Callable[[str], object]:
    """Return the function that writes a line to the file of ``ottla.audit.log`` or to the logger
    ``ottla.audit``."""
    if path is None:
        return lambda line: logger.info("%s", line)
    return AuditFile(disk, path).write
