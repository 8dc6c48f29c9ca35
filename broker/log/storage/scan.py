"""Iterates over the batches of a segment file, by headers alone or with all their bytes.

A length in a header is not trusted: it is compared with the file's size before anything is
allocated or skipped by it (hazard S-02).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from ottla.protocol.errors import CorruptLogError, KafkaError
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.records.batch import (
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    RecordBatch,
    parse_batch,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.protocol.ports import File

MAX_TIMESTAMP_POSITION = 35
LENGTH_MIN = HEADER_BYTES - LENGTH_END
# Large enough to be read at the speed of memory, small enough to stay in the processor's cache.
CHUNK_BYTES = 512 * 1024
_WALK_BYTES = 4096
_new_tuple = tuple.__new__
# base offset, length, (leader epoch), magic, (checksum, attributes), last offset delta
_STEP = struct.Struct(">qi4xB6xi")


class BatchPosition(NamedTuple):
    """The position of one batch in its file."""

    position: int
    size_bytes: int
    base_offset: int
    last_offset: int


def walk(file: File, position: int, end: int) -> Iterator[BatchPosition]:
    """The batches from a batch's start up to ``end``; reads only their headers.

    Raises CorruptLogError where no batch can start or one would reach beyond ``end``."""
    while position < end:
        chunk = file.pread(min(_WALK_BYTES, end - position), position)
        limit = len(chunk) - _STEP.size
        at = 0
        while at <= limit:
            base_offset, length, magic, last_offset_delta = _STEP.unpack_from(chunk, at)
            start = position + at
            size_bytes = LENGTH_END + length
            if magic != MAGIC or length < LENGTH_MIN or start + size_bytes > end:
                raise CorruptLogError(f"{file.path} holds no batch at position {start}")
            # Made directly: a named tuple's constructor is a Python function and twice as slow.
            place: BatchPosition = _new_tuple(
                BatchPosition, (start, size_bytes, base_offset, base_offset + last_offset_delta)
            )
            yield place
            at += size_bytes
        if at == 0:
            raise CorruptLogError(f"{file.path} ends within a batch at position {position}")
        position += at


def place_at(file: File, position: int, end: int) -> BatchPosition:
    """The batch that starts exactly there. Raises CorruptLogError if none does."""
    content = file.pread(_STEP.size, position)
    if len(content) < _STEP.size:
        raise CorruptLogError(f"{file.path} ends within a batch at position {position}")
    base_offset, length, magic, last_offset_delta = _STEP.unpack(content)
    if magic != MAGIC or length < LENGTH_MIN or position + LENGTH_END + length > end:
        raise CorruptLogError(f"{file.path} holds no batch at position {position}")
    return BatchPosition(
        position, LENGTH_END + length, base_offset, base_offset + last_offset_delta
    )


def find_offset(file: File, position: int, end: int, offset: int) -> BatchPosition | None:
    """The first batch from a batch's start on whose last offset reaches ``offset``.

    As ``walk`` with a condition, without an object for every skipped batch."""
    step = _STEP.unpack_from
    step_bytes = _STEP.size
    while position < end:
        chunk = file.pread(min(_WALK_BYTES, end - position), position)
        limit = len(chunk) - step_bytes
        at = 0
        while at <= limit:
            base_offset, length, magic, last_offset_delta = step(chunk, at)
            if magic != MAGIC or length < LENGTH_MIN or position + at + LENGTH_END + length > end:
                raise CorruptLogError(f"{file.path} holds no batch at position {position + at}")
            if base_offset + last_offset_delta >= offset:
                last_offset = base_offset + last_offset_delta
                return BatchPosition(position + at, LENGTH_END + length, base_offset, last_offset)
            at += LENGTH_END + length
        if at == 0:
            raise CorruptLogError(f"{file.path} ends within a batch at position {position}")
        position += at
    return None


class BatchScan:
    """Iterates over (position, batch) with the complete bytes of each batch.

    Ends before the first item that is not a complete, well-formed batch and sets ``problem`` (None:
    the end was reached). ``position`` is then the first byte not delivered. The caller verifies
    checksums. A batch is valid until the next iteration."""

    def __init__(self, file: File, start: int, end: int) -> None:
        self.position = start
        self.end = end
        self.problem: str | None = None
        # Whether the problem is that the file ends within its last batch.
        self.is_cut_short = False
        self._file = file

    def __iter__(self) -> Iterator[tuple[int, RecordBatch]]:
        wanted = CHUNK_BYTES
        while self.position < self.end and self.problem is None:
            start = self.position
            chunk = memoryview(self._file.pread(min(wanted, self.end - start), start))
            if len(chunk) < min(wanted, self.end - start):
                self.problem = "the file is shorter than it was"
                return
            at = 0
            try:
                while True:
                    batch = parse_batch(chunk, at)
                    yield start + at, batch
                    at += batch.size_bytes
                    self.position = start + at
            except KafkaError as error:
                # The end of the chunk, the end of the file, or damage.
                if self.position == self.end:
                    return
                size_bytes = self._size_at(chunk, at)
                if size_bytes and at + size_bytes <= len(chunk):
                    # The size in the header is valid, but another field is not.
                    self.problem = error.message
                # The next iteration reads a batch larger than a chunk in one piece.
                wanted = max(CHUNK_BYTES, size_bytes)

    def _size_at(self, chunk: memoryview, at: int) -> int:
        """The size of the batch there, or of its header; 0, with a problem set, if it is none."""
        room_bytes = self.end - self.position
        if room_bytes < HEADER_BYTES:
            self.problem = "the rest is shorter than a batch header"
            self.is_cut_short = True
            return 0
        if len(chunk) - at < HEADER_BYTES:
            return HEADER_BYTES
        _, length, magic, _ = _STEP.unpack_from(chunk, at)
        if magic != MAGIC:
            self.problem = f"unknown magic {magic}"
        elif length < LENGTH_MIN:
            self.problem = f"impossible batch length {length}"
        elif LENGTH_END + length > room_bytes:
            self.problem = f"a batch of {length} bytes reaches beyond the end"
            self.is_cut_short = True
        else:
            return LENGTH_END + length  # type: ignore[no-any-return]
        return 0
