"""Whether one data directory can still be trusted: the latch of the first I/O error, free space.

The latch closes synchronously, before anything else can run, and nothing but a restart opens it
(hazards R-29, S-09, S-12): after a failed write or fsync nobody knows what the disk holds, and a
retry that succeeds proves nothing.
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
# Between two tries of what must be done, while the process has no descriptor left.
SCARCE_MS = 100.0
_SCARCE = (*_NO_DESCRIPTORS, errno.ENOMEM, errno.EAGAIN, errno.EINTR)


def is_out_of_space(error: OSError) -> bool:
    """A full disk heals when somebody frees space; every other I/O error is final."""
    return error.errno in _NO_SPACE


def is_out_of_descriptors(error: OSError) -> bool:
    """Nothing more can be opened; what is open works as before."""
    return error.errno in _NO_DESCRIPTORS


def is_passing(error: OSError) -> bool:
    """Space, descriptors and memory come back; nothing is known to be wrong with the disk."""
    return is_out_of_space(error) or error.errno in _SCARCE


def storage_error(message: str) -> KafkaError:
    """What callers see when the disk under a log does not do its work."""
    return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, message)


class DirectoryHealth:
    """Shared by all logs of one data directory."""

    def __init__(self, disk: Disk, path: str, free_bytes_floor: int = 0) -> None:
        self.path = path
        self.failure: str | None = None
        # Set while less than the floor is free: produce should be refused with a retriable
        # error while fetches, deletes and replication go on (hazard S-11).
        self.is_low_on_space = False
        self._disk = disk
        self._free_bytes_floor = free_bytes_floor
        # What the controller is told: as above, but it does not change back and forth.
        self.gauge = RoomGauge(free_bytes_floor)
        self._on_failure: list[Callable[[], object]] = []
        # Closes what is open and need not be.
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
        """The error to raise for a failed read or write, after taking the directory offline.

        It stays online if the cause may pass: the caller has undone a partial write."""
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
        """Whether an append would be refused, as far as is known: none is to be asked for."""
        return self.gauge.room == NONE

    def check_space(self, now_ms: float = 0.0) -> bool:
        """Look at the free space; returns and remembers whether it is below the floor."""
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
    """Nobody has files open."""
