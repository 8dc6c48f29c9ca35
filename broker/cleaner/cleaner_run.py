"""One run of the cleaner over one log: read, note the keys, write what survives.

A generator over files, with nothing of the log but paths and numbers, so that the same code runs
in a process of its own and, in slices, where files are in memory. It never touches what it reads:
what it has written is swapped in by the log's owner (broker/log/clean_swap.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.cleaner.batches import (
    Horizons,
    LiveProducer,
    Survival,
    corrupt,
    note_batch,
)
from ottla.broker.cleaner.offset_map import KeyMap
from ottla.broker.cleaner.transactions import Aborted, CleanedTransactions
from ottla.broker.log.clean_writer import CleanedFiles, CleanedSegment
from ottla.broker.log.storage.scan import BatchScan
from ottla.broker.log.storage.txn_index import AbortedTransaction
from ottla.protocol.errors import CorruptLogError
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.records.batch import check_crc

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ottla.protocol.ports import Apart, Disk
    from ottla.protocol.records.batch import RecordBatch

# Work between two looks at the rate limit, and in between which nothing else runs where the pass
# shares the event loop: a millisecond of small records.
SLICE_BYTES = 64 * 1024


class SourceFile(NamedTuple):
    """A segment's data file as far as it was written when the run began."""

    path: str
    base_offset: int
    next_offset: int
    size_bytes: int


class CleanOrder(NamedTuple):
    """What to clean, as values that another process understands."""

    directory: str
    # All segments up to the end, oldest first, those that become one segment together.
    groups: tuple[tuple[SourceFile, ...], ...]
    first_dirty_offset: int
    aborted: tuple[AbortedTransaction, ...]
    producers: Mapping[int, LiveProducer]
    horizons: Horizons
    index_interval_bytes: int
    budget_bytes: int
    # Read and written together; None: no limit.
    bytes_per_second: float | None = None


class Slice(NamedTuple):
    """So many bytes were read and written since the last one."""

    size_bytes: int


class CleanedGroup(NamedTuple):
    """A group of segments was written anew. ``end_offset``: how far the map of keys reached;
    ``map_use``: which part of its budget of memory the map took."""

    number: int
    files: CleanedFiles
    end_offset: int
    bytes_read: int
    records_read: int
    records_kept: int
    markers_dropped: int
    is_changed: bool
    map_use: float


def clean_log(disk: Disk, order: CleanOrder) -> Iterator[Slice | CleanedGroup]:
    """Clean group after group; the next one is begun when the iteration goes on.

    Raises CorruptLogError or KafkaError for what is wrong with the log, OSError."""
    key_map = KeyMap(order.budget_bytes, order.first_dirty_offset)
    yield from _note_keys(disk, order, key_map)
    assert key_map.end_offset >= order.first_dirty_offset
    aborted = [Aborted(*row) for row in order.aborted]
    survival = Survival(key_map, CleanedTransactions(aborted), order.producers, order.horizons)
    for number, group in enumerate(order.groups):
        if group[0].base_offset >= key_map.end_offset:
            return
        yield from _clean_group(disk, order, number, survival)


def clean_apart(apart: Apart, order: CleanOrder) -> Iterator[CleanedGroup]:
    """As ``clean_log`` in a process of its own, at no more than the order's rate."""
    started_ms, done_bytes = apart.now_ms(), 0
    for step in clean_log(apart.disk, order):
        if isinstance(step, CleanedGroup):
            yield step
        elif order.bytes_per_second is not None:
            done_bytes += step.size_bytes
            due_ms = started_ms + 1000 * done_bytes / order.bytes_per_second
            if due_ms > apart.now_ms():
                apart.pause(due_ms - apart.now_ms())


def _note_keys(disk: Disk, order: CleanOrder, key_map: KeyMap) -> Iterator[Slice]:
    transactions = CleanedTransactions([Aborted(*row) for row in order.aborted])
    waiting_bytes = 0
    for source in _files(order):
        if source.next_offset <= order.first_dirty_offset:
            continue
        for batch in _batches(disk, source):
            if not note_batch(key_map, transactions, batch.as_batch(), order.first_dirty_offset):
                return
            waiting_bytes += batch.size_bytes
            if waiting_bytes >= SLICE_BYTES:
                yield Slice(waiting_bytes)
                waiting_bytes = 0
        key_map.pass_over(max(key_map.end_offset, source.next_offset))


def _files(order: CleanOrder) -> Iterator[SourceFile]:
    for group in order.groups:
        yield from group


def _clean_group(
    disk: Disk, order: CleanOrder, number: int, survival: Survival
) -> Iterator[Slice | CleanedGroup]:
    group = order.groups[number]
    target = CleanedSegment(disk, order.directory, group[0].base_offset, order.index_interval_bytes)
    survival.start_group()
    total_bytes = sum(source.size_bytes for source in group)
    bytes_read = waiting_bytes = 0
    for source in group:
        for batch in _batches(disk, source):
            bytes_read += batch.size_bytes
            # Of a kept message that loses anything a record batch stays.
            raised = batch.as_batch()
            remains = survival.judge(raised, is_last=bytes_read == total_bytes)
            if raised is not batch and remains == raised.view:
                remains = batch.view
            waiting_bytes += batch.size_bytes
            if remains is not None:
                target.append(remains)
                waiting_bytes += len(remains)
            if waiting_bytes >= SLICE_BYTES:
                yield Slice(waiting_bytes)
                waiting_bytes = 0
    assert bytes_read == total_bytes, "without its last batch, the segment's end is not known"
    kept = survival.kept
    files = target.finish(AbortedTransaction(*row) for row in kept.rows)
    yield Slice(waiting_bytes)
    yield CleanedGroup(
        number,
        files,
        survival.end_offset,
        bytes_read,
        kept.records_read,
        kept.records_kept,
        kept.markers_dropped,
        kept.is_changed or len(group) > 1,
        survival.map_bytes / max(1, order.budget_bytes),
    )


def _batches(disk: Disk, source: SourceFile) -> Iterator[RecordBatch]:
    """All batches of a file, each checked: a flipped bit must not get a new checksum.

    No checksum covers the base offset; it must at least lie where the segment does."""
    scan = BatchScan(disk.open(source.path), 0, source.size_bytes)
    next_offset = source.base_offset
    for position, batch in scan:
        if not check_crc(batch):
            raise corrupt(batch)
        if batch.base_offset < next_offset or batch.next_offset > source.next_offset:
            raise CorruptLogError(
                f"{source.path} at position {position}: offset {batch.base_offset} cannot be there"
            )
        next_offset = batch.next_offset
        yield batch
    if scan.problem is not None:
        raise CorruptLogError(f"{source.path} at position {scan.position}: {scan.problem}")
