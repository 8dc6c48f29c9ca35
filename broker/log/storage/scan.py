"""Iterates over the batches of a segment file, by headers alone or with all their bytes.

A length in a header is not trusted: it is compared with the file's size before anything is
allocated or skipped by it (hazard S-02). Messages of formats 0 and 1 are met in logs that keep them
only, and are what batches are to a caller; recovery refuses them in other logs.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from ottla.protocol.errors import CorruptLogError, ErrorCode, KafkaError
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.records.batch import (
    HEADER_BYTES,
    LENGTH_END,
    LENGTH_POSITION,
    MAGIC,
    MAGIC_POSITION,
    RecordBatch,
    parse_batch,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ottla.protocol.message_sets.kept import KeptMessage
    from ottla.protocol.ports import Buffer, File

MAX_TIMESTAMP_POSITION = 35
LENGTH_MIN = HEADER_BYTES - LENGTH_END
# The smallest message of format 1, with a null key and a null value.
_KEPT_BYTES_MIN = 34
_KEPT_TIMESTAMP = slice(18, 26)
# Large enough to be read at the speed of memory, small enough to stay in the processor's cache.
CHUNK_BYTES = 512 * 1024
_WALK_BYTES = 4096
_OLD_FORMAT = ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
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
                kept = _kept_place(file, start, end)
                yield kept
                at += kept.size_bytes
                continue
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
        return _kept_place(file, position, end)
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
                # A kept message has the offset of the last one inside.
                room_bytes = end - position - at
                is_kept = magic < MAGIC and _KEPT_BYTES_MIN <= LENGTH_END + length <= room_bytes
                if not is_kept or base_offset >= offset:
                    return _kept_place(file, position + at, end)
            elif base_offset + last_offset_delta >= offset:
                last_offset = base_offset + last_offset_delta
                return BatchPosition(position + at, LENGTH_END + length, base_offset, last_offset)
            at += LENGTH_END + length
        if at == 0:
            raise CorruptLogError(f"{file.path} ends within a batch at position {position}")
        position += at
    return None


def parse_entry(buffer: Buffer, position: int = 0) -> RecordBatch:
    """The batch or kept message that starts there. Raises KafkaError as ``parse_batch`` does."""
    try:
        return parse_batch(buffer, position)
    except KafkaError as error:
        if error.code is not _OLD_FORMAT:
            raise
    return _kept_message().parse(buffer, position)


def max_timestamp_at(file: File, position: int) -> int:
    """The largest timestamp of the batch that starts there, -1 without one."""
    content = file.pread(MAX_TIMESTAMP_POSITION + 8, position)
    if content[MAGIC_POSITION] < MAGIC:
        content = content[_KEPT_TIMESTAMP] if content[MAGIC_POSITION] else b"\xff"
        return int.from_bytes(content, signed=True)
    return int.from_bytes(content[MAX_TIMESTAMP_POSITION:], signed=True)


def _kept_message() -> type[KeptMessage]:
    """Loaded by brokers with logs that keep messages only."""
    from ottla.protocol.message_sets.kept import KeptMessage

    return KeptMessage


def _kept_place(file: File, position: int, end: int) -> BatchPosition:
    """The kept message that starts there. Raises CorruptLogError if none does."""
    head = file.pread(min(_STEP.size, end - position), position)
    if len(head) > MAGIC_POSITION and head[MAGIC_POSITION] < MAGIC:
        size_bytes = LENGTH_END + int.from_bytes(head[LENGTH_POSITION:LENGTH_END], signed=True)
        if _KEPT_BYTES_MIN <= size_bytes <= end - position:
            try:
                one = _kept_message().parse(file.pread(size_bytes, position))
            except KafkaError as error:
                raise CorruptLogError(f"{file.path} at {position}: {error.message}") from error
            return BatchPosition(position, size_bytes, one.base_offset, one.last_offset)
    raise CorruptLogError(f"{file.path} holds no batch at position {position}")


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
        # Until the first kept message; most logs have none.
        self._parse: Callable[[memoryview, int], RecordBatch] = parse_batch

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
                    batch = self._parse(chunk, at)
                    yield start + at, batch
                    at += batch.size_bytes
                    self.position = start + at
            except KafkaError as error:
                if error.code is _OLD_FORMAT and self._parse is parse_batch:
                    self._parse = parse_entry
                    continue
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
        if len(chunk) - at > MAGIC_POSITION and chunk[at + MAGIC_POSITION] < MAGIC:
            length = int.from_bytes(chunk[at + LENGTH_POSITION : at + LENGTH_END], signed=True)
            if _KEPT_BYTES_MIN <= LENGTH_END + length <= room_bytes:
                return LENGTH_END + length
        if len(chunk) - at <= MAGIC_POSITION < room_bytes:
            # Another look tells the format: the rest may be a message, which has a shorter header.
            return HEADER_BYTES
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
