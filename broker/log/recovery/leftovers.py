"""Cleans up after a crash in a partition directory, before anything is loaded.

Removes the files of segments that were being deleted or written; completes a replacement whose
renaming had begun (hazard S-14). The order is that of Kafka's LogLoader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.log.storage.names import (
    CLEANED,
    DELETED,
    LOG,
    SEGMENT_SUFFIXES,
    SNAPSHOT,
    SWAP,
    join,
    parse_segment_name,
    segment_name,
)
from ottla.broker.log.storage.scan import walk
from ottla.protocol.errors import CorruptLogError

if TYPE_CHECKING:
    from ottla.protocol.ports import Disk

_TEMPORARY = ".tmp"


async def tidy_directory(disk: Disk, directory: str) -> list[str]:
    """Finish or undo interrupted changes; returns the remaining names. Raises OSError."""
    names = await disk.scan(directory)
    removed: set[str] = set()
    cleaned = [parse_segment_name(name) for name in names if name.endswith(CLEANED)]
    cleaned_from = min((found[0] for found in cleaned if found), default=None)
    swaps: list[str] = []
    for name in names:
        if name.endswith((DELETED, CLEANED, _TEMPORARY)):
            removed.add(name)
        elif name.endswith(SWAP):
            found = parse_segment_name(name)
            # Replacements are renamed to .swap from the newest down: with a .cleaned file left at
            # or below this one, it was not valid yet.
            if found is None or (cleaned_from is not None and found[0] >= cleaned_from):
                removed.add(name)
            else:
                swaps.append(name)
    await _remove(disk, directory, removed)
    if swaps:
        await _complete_swaps(disk, directory, swaps)
        names = await disk.scan(directory)
    names = [name for name in names if name not in removed]
    orphans = _orphans(names)
    await _remove(disk, directory, orphans)
    return [name for name in names if name not in orphans]


async def _remove(disk: Disk, directory: str, names: set[str]) -> None:
    for name in sorted(names):
        await disk.unlink(join(directory, name))


def _orphans(names: list[str]) -> set[str]:
    """Indexes without a log, which is always removed first. Snapshots need no log."""
    parsed = {name: parse_segment_name(name) for name in names}
    logs = {found[0] for found in parsed.values() if found and found[1] == LOG}
    alone = (LOG, SNAPSHOT)
    return {
        name
        for name, found in parsed.items()
        if found and found[1] in SEGMENT_SUFFIXES and found[1] not in alone
        if found[0] not in logs
    }


async def _complete_swaps(disk: Disk, directory: str, swaps: list[str]) -> None:
    for name in swaps:
        if not name.endswith(LOG + SWAP):
            continue
        base_offset = int(name[: -len(LOG + SWAP)])
        last_offset = _last_offset(disk, join(directory, name), base_offset)
        for other in await disk.scan(directory):
            found = parse_segment_name(other)
            # All segments in the range of the replacement were its sources.
            if (
                found
                and found[1] in SEGMENT_SUFFIXES
                and found[1] != SNAPSHOT
                and base_offset <= found[0] <= last_offset
            ):
                await disk.unlink(join(directory, other))
        await disk.rename(join(directory, name), join(directory, segment_name(base_offset, LOG)))
    for name in await disk.scan(directory):
        if name.endswith(SWAP):
            # An index, whose log is already renamed.
            await disk.rename(join(directory, name), join(directory, name.removesuffix(SWAP)))
    await disk.fsync_directory(directory)


def _last_offset(disk: Disk, path: str, base_offset: int) -> int:
    file = disk.open(path)
    last_offset = base_offset
    try:
        for place in walk(file, 0, file.size_bytes):
            last_offset = max(last_offset, place.last_offset)
    except CorruptLogError:
        # Recovery reports it; the offsets found so far are covered for certain.
        return last_offset
    return last_offset
