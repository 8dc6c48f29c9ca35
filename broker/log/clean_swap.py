"""Replaces the sources of a compaction by the cleaned segment; a crash leaves one of the two.

The steps in order, each durable before the next (file names as in Kafka's LogCleaner):

    1 the files are written under names that a start removes       a crash here: the old log
    2 they are renamed to .swap; from the last one on they count    the new one, made at the start
    3 the sources are renamed to .deleted                           the new one, made at the start
    4 the log is renamed to its final name, then the indexes        the new one

Readers do not notice: all old files are opened before the first rename and served until the last
one (hazard S-20). The swap holds the log's lock, which every change of the set of segments takes;
if the sources have changed before, nothing is swapped (hazard S-26).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.log.clean_writer import PASS_MARK, CleanedFiles, pass_path
from ottla.broker.log.storage.health import is_out_of_descriptors
from ottla.broker.log.storage.names import (
    DELETED,
    LOG,
    OFFSET_INDEX,
    SWAP,
    TIME_INDEX,
    TXN_INDEX,
    parse_segment_name,
)
from ottla.broker.log.storage.segment import Segment
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.broker.log.open_log import OpenLog

_REPLACED = (LOG, OFFSET_INDEX, TIME_INDEX, TXN_INDEX)


class Sources(NamedTuple):
    """Segments of a log and their sizes as the cleaner read them."""

    segments: tuple[Segment, ...]
    sizes: tuple[int, ...]

    def are_in(self, log: OpenLog) -> bool:
        """Whether all of them are still in the log, adjacent and unchanged."""
        number = log.segment_number(self.segments[0].base_offset)
        found = log.segments[number : number + len(self.segments)]
        return (
            len(found) == len(self.segments)
            and all(one is other for one, other in zip(found, self.segments, strict=True))
            and all(not one.is_active for one in found)
            and self.sizes == tuple(one.size_bytes for one in found)
        )

    def were_deleted(self, log: OpenLog) -> bool:
        """Whether the log starts after them now."""
        return self.segments[-1].base_offset < log.segments[0].base_offset


def sources_of(segments: Sequence[Segment]) -> Sources:
    """Capture the segments with their present sizes."""
    return Sources(tuple(segments), tuple(one.size_bytes for one in segments))


async def remove_leftovers(log: OpenLog) -> None:
    """Remove the files of an earlier run before another one writes under the same names.

    A leftover at or before a replacement would make the next start undo the replacement. Raises
    KafkaError(KAFKA_STORAGE_ERROR)."""
    async with log.lock:
        log.ensure_usable()
        try:
            for name in await log.home.disk.scan(log.directory):
                if name.endswith(PASS_MARK) and parse_segment_name(name) is not None:
                    await log.home.disk.unlink(f"{log.directory}/{name}")
                    log.names_changed += 1
        except OSError as error:
            what = f"cannot clean the log of {log.partition}"
            raise log.home.health.latch(what, error) from error


async def discard_files(log: OpenLog, files: CleanedFiles) -> None:
    """Remove a written segment that is not swapped in. Raises OSError."""
    for suffix in files.suffixes:
        await log.home.disk.unlink(pass_path(log.directory, files.base_offset, suffix))
    log.names_changed += 1


async def swap_segments(
    log: OpenLog,
    sources: Sources,
    files: CleanedFiles,
    *,
    drops_markers: bool,
    is_wanted: Callable[[], bool],
) -> bool:
    """Replace the sources by the written segment; False if they have changed.

    ``drops_markers``: transaction markers were removed. ``is_wanted`` is called under the log's
    lock. Raises KafkaError(KAFKA_STORAGE_ERROR), CorruptLogError before anything has changed."""
    health = log.home.health
    try:
        # The slow part, so it is done before the log's lock is taken.
        for suffix in files.suffixes:
            path = pass_path(log.directory, files.base_offset, suffix)
            await log.home.disk.open(path).fsync()
    except FileNotFoundError:
        return False  # the directory of a deleted partition has another name
    except OSError as error:
        refuse = health.judge if is_out_of_descriptors(error) else health.latch
        raise refuse(f"cannot clean the log of {log.partition}", error) from error
    async with log.lock:
        log.ensure_usable()
        if not sources.are_in(log) or not is_wanted():
            return False
        assert files.base_offset == sources.segments[0].base_offset
        await _open_all(log, sources)
        try:
            await _remove_snapshots(log, sources, drops_markers=drops_markers)
            is_done = False
            try:
                await _rename_all(log, sources, files)
                _replace(log, sources, files)
                is_done = True
            finally:
                if not is_done:
                    # The names on the disk are between two states; a start sorts them out.
                    log.refusal = "a cleaning was interrupted"
            log.names_changed += 1
            await log.sync_names()
        except OSError as error:
            what = f"cannot replace segments of {log.partition}"
            raise health.latch(what, error) from error
        return True


async def _open_all(log: OpenLog, sources: Sources) -> None:
    """Open all files of the sources, so that readers no longer need their names."""
    for segment in sources.segments:
        await log.home.offload.run(segment.load_indexes)
    for segment in sources.segments:
        segment.load_indexes()
        segment.largest_timestamp()
        _ = segment.file, segment.transactions.entries
    for segment in sources.segments:
        # Keep them open: idle segments in this list would be closed.
        log.home.open_segments.closed(segment)


async def _remove_snapshots(log: OpenLog, sources: Sources, *, drops_markers: bool) -> None:
    """Remove snapshots without a segment, and those that may list a lost transaction as open.

    A snapshot taken between a transaction's first record and its marker lists it as open. Without
    the marker it would stay open for ever (hazard S-22)."""
    gone = {one.base_offset for one in sources.segments[1:]}
    end_offset = sources.segments[-1].next_offset
    for offset in list(log.snapshot_offsets):
        if offset in gone or (drops_markers and offset < end_offset):
            await log.home.disk.unlink(log.snapshot_path(offset))
            log.snapshot_offsets.remove(offset)
            log.names_changed += 1
    log.names_changed += 1
    await log.sync_names()


async def _rename_all(log: OpenLog, sources: Sources, files: CleanedFiles) -> None:
    disk, directory = log.home.disk, log.directory
    target = sources.segments[0]
    for suffix in files.suffixes:
        source = pass_path(directory, files.base_offset, suffix)
        await disk.rename(source, target.path_of(suffix) + SWAP)
    await disk.fsync_directory(directory)
    due_ms = log.home.clock.now_ms() + log.settings.file_delete_delay_ms
    for segment in sources.segments:
        for suffix in _REPLACED:
            path = segment.path_of(suffix)
            if disk.exists(path):
                await disk.rename(path, path + DELETED)
                log.home.late_deletions.schedule(path + DELETED, due_ms)
    await disk.fsync_directory(directory)
    # The log first: while it is named .swap, a start removes all indexes in its range, and the
    # index of aborted transactions cannot be rebuilt.
    await disk.rename(target.path_of(LOG) + SWAP, target.path_of(LOG))
    await disk.fsync_directory(directory)
    for suffix in files.suffixes:
        if suffix != LOG:
            await disk.rename(target.path_of(suffix) + SWAP, target.path_of(suffix))


def _replace(log: OpenLog, sources: Sources, files: CleanedFiles) -> None:
    """Switch readers to the new segment. Appends may have rolled the log in the meantime."""
    segment = Segment(log.home, log.directory, files.base_offset, log.settings.index_interval_bytes)
    segment.size_bytes = segment.synced_bytes = files.size_bytes
    segment.next_offset = sources.segments[-1].next_offset
    segment.max_timestamp = None
    segment.indexes.forget()
    segment.is_used = False
    number = log.segment_number(files.base_offset)
    segments = log.segments
    log.set_segments((*segments[:number], segment, *segments[number + len(sources.segments) :]))
    for replaced in sources.segments:
        replaced.detach()
