"""Stored messages of formats 0 and 1 made record batches at the same offsets. Pure.

Messages that follow one another become one batch, as long as their offsets have no gap and they
have the same codec and kind of time; batches stay as they are. Where the broker had set the time,
all records of a batch have the same one. The batches have no producer and no leader epoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.message_sets.pieces import entries_in_pieces
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.records.batch import NO_TIMESTAMP, RecordBatch, TimestampType
from ottla.protocol.records.builder import BatchOptions, encode_batch
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.old_messages import is_sound, read_messages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ottla.protocol.records.old_messages import OldMessage
    from ottla.protocol.records.record import Entry

_BATCH_RECORDS_MAX = 1_000
_BATCH_BYTES_MAX = 64 * 1024


class _Kind(NamedTuple):
    """What all records of a batch have in common; no append time where producers set the times."""

    codec: Codec
    append_time_ms: int | None


class StoredMessages:
    """The batches of a stored file in order; ``read`` as in ``entries_in_pieces``.

    ``position`` is at the end the first byte that is in none of them: the file's size, or where a
    torn entry begins. Raises KafkaError while iterating, CORRUPT_MESSAGE also for a wrong
    checksum."""

    def __init__(self, read: Callable[[int, int], bytes], size_bytes: int) -> None:
        self.position = 0
        self._entries = entries_in_pieces(read, size_bytes, may_be_torn=True)

    def __iter__(self) -> Iterator[bytes]:
        gathered = _Gathered()
        for entry in self._entries:
            if not is_sound(entry):
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "the checksum of a message is wrong")
            self.position += entry.size_bytes
            if isinstance(entry, RecordBatch):
                yield from gathered.take()
                yield bytes(entry.view)
            else:
                yield from gathered.raised(entry)
        yield from gathered.take()


class _Gathered:
    """Records that will be one batch."""

    def __init__(self) -> None:
        self._kind = _Kind(Codec.NONE, None)
        self._base_offset = 0
        self._entries: list[Entry] = []
        self._size_bytes = 0

    def raised(self, message: OldMessage) -> Iterator[bytes]:
        """The batches that are complete before the records of a message or with them."""
        is_append_time = message.timestamp_type is TimestampType.LOG_APPEND_TIME
        for record in read_messages(message):
            # An append time of -1 would be none.
            stamped = is_append_time and record.timestamp > NO_TIMESTAMP
            kind = _Kind(message.codec, record.timestamp if stamped else None)
            if not self.fits(kind, record.offset):
                yield from self.take()
            self.add(kind, record.offset, (record.timestamp, record.key, record.value, ()))
        if message.is_compressed:
            # As it was compressed, and no more of it at once.
            yield from self.take()

    def fits(self, kind: _Kind, offset: int) -> bool:
        """Whether a record may be added."""
        return not self._entries or (
            kind == self._kind
            and offset == self._base_offset + len(self._entries)
            and len(self._entries) < _BATCH_RECORDS_MAX
            and (self._size_bytes < _BATCH_BYTES_MAX or kind.codec is not Codec.NONE)
        )

    def add(self, kind: _Kind, offset: int, entry: Entry) -> None:
        """Add a record that fits."""
        if not self._entries:
            self._kind, self._base_offset = kind, offset
        self._entries.append(entry)
        self._size_bytes += len(entry[1] or b"") + len(entry[2] or b"")

    def take(self) -> Iterator[bytes]:
        """The batch, if there is a record; then there is none."""
        if self._entries:
            codec, append_time_ms = self._kind
            options = BatchOptions(
                codec=codec, base_offset=self._base_offset, append_time_ms=append_time_ms
            )
            yield encode_batch(self._entries, options)
        self._entries, self._size_bytes = [], 0
