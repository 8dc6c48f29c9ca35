"""Segments that Kafka before 0.11 wrote, rewritten as record batches before their log is loaded.

The broker writes a copy of a segment of message formats 0 and 1 as record batches, flushes it and
renames it to .swap. From then on the copy is valid, and a start completes the swap (leftovers.py).
Offsets stay the same; indexes are rebuilt. The broker does not change a damaged segment, and leaves
a torn end for recovery to judge. It skips a segment that begins with a record batch.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.broker.log.recovery.leftovers import tidy_directory
from ottla.broker.log.recovery.recovery import is_old_message
from ottla.broker.log.storage.names import (
    CLEANED,
    LOG,
    SWAP,
    join,
    parse_segment_name,
    segment_name,
)
from ottla.protocol.errors import CorruptLogError, KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.protocol.message_sets.stored import StoredMessages
    from ottla.protocol.ports import Buffer, Disk, File, Offload

logger = logging.getLogger("ottla.log")

_WRITE_BYTES = 1024 * 1024


async def raise_old_segments(
    disk: Disk, offload: Offload, directory: str, names: list[str]
) -> list[str]:
    """Rewrite the segments of a directory that begin with an old message; its names then.

    Raises CorruptLogError if one is damaged and its end not merely torn, OSError."""
    old = await offload.run(_old_segments, disk, directory, names)
    if not old:
        return names
    logger.info("rewriting %d segments of older message formats in %s", len(old), directory)
    for base_offset in old:
        written = join(directory, segment_name(base_offset, LOG + CLEANED))
        file = await offload.run(_rewrite, disk, directory, base_offset, written)
        await file.fsync()
        await disk.rename(written, join(directory, segment_name(base_offset, LOG + SWAP)))
        await disk.fsync_directory(directory)
        names = await tidy_directory(disk, directory)
    return names


def _old_segments(disk: Disk, directory: str, names: Iterable[str]) -> list[int]:
    """Base offsets, ascending."""
    found = []
    for base_offset, suffix in sorted(filter(None, map(parse_segment_name, names))):
        if suffix == LOG:
            file = disk.open(join(directory, segment_name(base_offset, LOG)))
            if is_old_message(file, 0, file.size_bytes):
                found.append(base_offset)
    return found


def _stored_messages() -> type[StoredMessages]:
    """Loaded by brokers that find such a segment only."""
    from ottla.protocol.message_sets.stored import StoredMessages

    return StoredMessages


def _rewrite(disk: Disk, directory: str, base_offset: int, path: str) -> File:
    source = disk.open(join(directory, segment_name(base_offset, LOG)))
    target = disk.open(path, create=True)
    if target.size_bytes:
        target.truncate(0)
    messages = _stored_messages()(
        lambda position, count: source.pread(count, position), source.size_bytes
    )
    waiting: list[Buffer] = []
    waiting_bytes = 0
    try:
        for batch in messages:
            waiting.append(batch)
            waiting_bytes += len(batch)
            if waiting_bytes >= _WRITE_BYTES:
                target.append(waiting)
                waiting, waiting_bytes = [], 0
    except KafkaError as error:
        raise CorruptLogError(
            f"{source.path} holds messages of a Kafka before 0.11 and is damaged: "
            f"{error.message}; nothing was changed"
        ) from error
    torn_bytes = source.size_bytes - messages.position
    if torn_bytes:
        waiting.append(source.pread(torn_bytes, messages.position))
    target.append(waiting)
    return target
