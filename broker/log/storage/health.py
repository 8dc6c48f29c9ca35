"""The health of one data directory: a latch for the first I/O error, and the free space.

The latch closes synchronously, before any other task runs, and only a restart opens it (hazards
R-29, S-09, S-12): after a failed write or fsync the content of the disk is unknown, and a
successful retry proves nothing.
"""

from __future__ import annotations

import errno
import logging
from typing import TYPE_CHECKING

from ottla.broker.log.storage.free_space import NONE, RoomGauge
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.protocol.ports import Disk

logger = logging.getLogger("ottla.log")

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
# Between two tries of a mandatory operation, while the process has no descriptor left.
SCARCE_MS = 100.0
_SCARCE = (*_NO_DESCRIPTORS, errno.ENOMEM, errno.EAGAIN, errno.EINTR)


def is_out_of_space(error: OSError) -> bool:
    """Whether the disk is full, which passes when space is freed."""
    return error.errno in _NO_SPACE


def is_out_of_descriptors(error: OSError) -> bool:
    """Whether no more files can be opened; open ones still work."""
    return error.errno in _NO_DESCRIPTORS


def is_passing(error: OSError) -> bool:
    """Whether the cause is temporary (space, descriptors, memory) and the disk may be healthy."""
    return is_out_of_space(error) or error.errno in _SCARCE


def storage_error(message: str) -> KafkaError:
    """The error for callers when the disk of a log fails."""
    return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, message)


class DirectoryHealth:
    """The health of one data directory; shared by all its logs."""

    def __init__(self, disk: Disk, path: str, free_bytes_floor: int = 0) -> None:
        self.path = path
        self.failure: str | None = None
        # Set while less than the floor is free: produce is refused with a retriable error, while
        # fetches, deletes and replication continue (hazard S-11).
        self.is_low_on_space = False
        self._disk = disk
        self._free_bytes_floor = free_bytes_floor
        # The same for the controller, with hysteresis.
        self.gauge = RoomGauge(free_bytes_floor)
        self._on_failure: list[Callable[[], object]] = []
        # Closes open files that are not needed.
        self.make_room: Callable[[], object] = _nothing

    @property
    def is_online(self) -> bool:
        return self.failure is None

    def on_failure(self, callback: Callable[[], object]) -> None:
        """Call back once, synchronously, when the directory goes offline (at once if it has)."""
        if self.failure is not None:
            callback()
        else:
            self._on_failure.append(callback)

    def latch(self, what: str, error: OSError) -> KafkaError:
        """Take the directory offline for good; returns the error for the caller to raise."""
        message = f"{what}: {error.strerror or error}"
        if self.failure is None:
            self.failure = message
            logger.error("data directory %s is offline: %s", self.path, message)
            callbacks, self._on_failure = self._on_failure, []
            for callback in callbacks:
                callback()
        return storage_error(message)

    def judge(self, what: str, error: OSError) -> KafkaError:
        """Return the error to raise for a failed read or write; may take the directory offline.

        It stays online if the cause is temporary; the caller has undone a partial write."""
        if is_out_of_space(error):
            self.is_low_on_space = True
            self.gauge.refused()
        if is_out_of_descriptors(error):
            self.make_room()
        if is_passing(error):
            return storage_error(f"{what}: {error.strerror or error}")
        return self.latch(what, error)

    def ensure_online(self) -> None:
        """Raise KafkaError(KAFKA_STORAGE_ERROR) once the directory has failed."""
        if self.failure is not None:
            raise storage_error(f"data directory {self.path} is offline: {self.failure}")

    @property
    def has_no_room(self) -> bool:
        """Whether the disk has refused a write and would probably refuse the next one."""
        return self.gauge.room == NONE

    def check_space(self, now_ms: float = 0.0) -> bool:
        """Check the free space; stores and returns whether it is below the floor."""
        try:
            free_bytes = self._disk.free_bytes(self.path)
        except OSError as error:
            self.latch(f"cannot read the free space of {self.path}", error)
            return self.is_low_on_space
        self.gauge.look(free_bytes, now_ms)
        low = free_bytes < self._free_bytes_floor
        if low != self.is_low_on_space:
            logger.warning(
                "data directory %s has %d bytes free: produce is %s",
                self.path,
                free_bytes,
                "refused until space is freed" if low else "accepted again",
            )
        self.is_low_on_space = low
        return low


def _nothing() -> None:
    """The default of ``make_room``: there are no files to close."""
