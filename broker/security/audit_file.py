"""Where the lines of the audit log go: the log of the process, or a file of their own."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.protocol.ports import Disk, File

logger = logging.getLogger("ottla.audit")


class AuditFile:
    """Appends lines to a file, which is opened at the first one and never cut."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._file: File | None = None
        self._has_failed = False

    def write(self, line: str) -> None:
        """Append one line. After a failure the log of the process has the lines instead."""
        try:
            if self._file is None or not self._disk.exists(self._path):
                # A rotated file is a new one.
                self._file = self._disk.open(self._path, create=True)
            self._file.append([line.encode() + b"\n"])
        except OSError as error:
            self._file = None
            if not self._has_failed:
                logger.critical("the audit log %s cannot be written: %s", self._path, error)
            self._has_failed = True
            logger.info("%s", line)
        else:
            self._has_failed = False


def audit_sink(disk: Disk, path: str | None) -> Callable[[str], object]:
    """What writes a line: to the file of ``ottla.audit.log``, or to the logger ``ottla.audit``."""
    if path is None:
        return lambda line: logger.info("%s", line)
    return AuditFile(disk, path).write
