"""Records the machine's boot in which a data directory was last written, and damage found then.

When a process dies nothing is lost: the page cache outlives it. When the machine dies, any page
that was not flushed may be lost. Only the second explains a hole in a log, so each directory stores
the boot id once its logs are loaded and before anything is appended.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ottla.broker.log.storage.checkpoints import read_file, replace_file
from ottla.broker.log.storage.health import is_out_of_space
from ottla.broker.log.storage.names import BOOT_MARK, join
from ottla.protocol.ids import TopicPartition
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.broker.log.storage.directory_services import LogDirectoryServices

_VERSION = 0


class BootMark(NamedTuple):
    """The boot id of the last write, and the logs that were damaged then.

    ``damaged``: logs whose damage no power loss explains. ``unread``: logs that were not loaded
    since the last possible power loss."""

    boot_id: str
    damaged: frozenset[TopicPartition] = frozenset()
    unread: frozenset[TopicPartition] = frozenset()


def encode_boot_mark(mark: BootMark) -> bytes:
    """JSON, sorted so that equal marks make equal files."""
    document = {
        "version": _VERSION,
        "bootId": mark.boot_id,
        "damaged": sorted(mark.damaged),
        "unread": sorted(mark.unread),
    }
    return json.dumps(document, separators=(",", ":")).encode()


def decode_boot_mark(content: bytes | None) -> BootMark | None:
    """The mark; None if it is absent or corrupt."""
    if content is None:
        return None
    try:
        document = json.loads(content)
        if document["version"] != _VERSION or not isinstance(document["bootId"], str):
            return None
        damaged, unread = (
            frozenset(TopicPartition(str(topic), int(number)) for topic, number in document[key])
            for key in ("damaged", "unread")
        )
        return BootMark(document["bootId"], damaged, unread)
    except (ValueError, KeyError, TypeError):
        return None


class BootRecord:
    """Reads and writes the boot mark of one data directory, which owns it."""

    def __init__(self, home: LogDirectoryServices) -> None:
        self._home = home
        self._path = join(home.health.path, BOOT_MARK)
        self._boot_id = ""
        self._found: BootMark | None = None
        self._unread: set[TopicPartition] = set()

    def read(self) -> None:
        """Read the file. Raises OSError."""
        self._boot_id = self._home.disk.boot_id()
        self._found = decode_boot_mark(read_file(self._home.disk, self._path))

    def may_have_lost_writes(self, partition: TopicPartition) -> bool:
        """Whether the machine is known to have gone down since the log was last written to.

        False without a usable mark or boot id: the operator then has to judge the damage."""
        found = self._found
        if found is None or not found.boot_id or not self._boot_id or partition in found.damaged:
            return False
        return partition in found.unread or found.boot_id != self._boot_id

    def keep_unread(self, partition: TopicPartition) -> None:
        """Remember a log that could not be checked for a temporary reason, such as a full disk."""
        if self.may_have_lost_writes(partition):
            self._unread.add(partition)

    async def save(self, damaged: Iterable[TopicPartition]) -> None:
        """Store the current boot and the damaged logs, durably. Raises OSError."""
        found = frozenset(damaged)
        unread = found & self._unread
        mark = BootMark(self._boot_id, found - unread, unread)
        if mark == self._found or not self._boot_id:
            return
        try:
            await replace_file(self._home.disk, self._path, encode_boot_mark(mark))
        except OSError as error:
            if not is_out_of_space(error):
                raise
            # With the old mark, later damage would be taken for the result of a power loss.
            await self._home.disk.unlink(self._path)
            await self._home.disk.fsync_directory(self._home.health.path)
            self._found = None
        else:
            self._found = mark

    async def update(self, damaged: Iterable[TopicPartition]) -> None:
        """As ``save``, while the directory is in use. Raises KafkaError(KAFKA_STORAGE_ERROR)."""
        try:
            await self.save(damaged)
        except OSError as error:
            raise self._home.health.judge(f"cannot write {self._path}", error) from error
