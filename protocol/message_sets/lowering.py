"""Stored batches made the messages that consumers of formats 0 and 1 read. Pure.

Kafka's rules: offsets and codecs stay, headers and producers are lost, markers of transactions are
left out and records of aborted transactions are not. What is uncompressed becomes messages that
begin at the fetched offset, a compressed batch becomes one wrapper. zstd is refused: no old
consumer reads it. The work comes in short steps, so that it need not stop others.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.message_sets.pieces import entries_in_pieces
from ottla.protocol.message_sets.writer import enclosed, form_of, message, wrapped
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.records.batch import RecordBatch
from ottla.protocol.records.codec import decode_records
from ottla.protocol.records.compression import OUTPUT_BYTES_MAX, Codec
from ottla.protocol.records.old_messages import read_entry
from ottla.protocol.records.record import read_records, record_view

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ottla.protocol.records.old_messages import LogEntry
    from ottla.protocol.records.record import Record

# A step ends after as many messages, or one wrapper: about a millisecond.
_STEP_MESSAGES = 256
# Records of a batch that are decoded without a break: less than a millisecond.
DECODED_AT_ONCE_MAX = 4_096


class LoweringPlan(NamedTuple):
    """What is to become of stored records.

    ``max_bytes`` bounds the output. ``may_cut``: the last message may be cut off there, as
    consumers before Fetch 3 expect; without it the first message is whole however large it is.
    No message begins behind ``enough_bytes``."""

    magic: int
    from_offset: int
    max_bytes: int
    may_cut: bool
    enough_bytes: int = 2**31 - 1


class Lowered(NamedTuple):
    """One entry of a message set, the offset after the last record in it, and how many records were
    converted to make it."""

    data: bytes
    next_offset: int
    record_count: int


class Lowering:
    """The messages of one partition's answer, made step by step.

    ``read``: returns so many stored bytes from a position on, of the ``size_bytes`` that begin
    with a batch.

    Example: ``while lowering.step(): pass``."""

    def __init__(
        self, read: Callable[[int, int], bytes], size_bytes: int, plan: LoweringPlan
    ) -> None:
        self.data = bytearray()
        # The offset after the last entry that was looked at, markers included.
        self.next_offset = plan.from_offset
        self.record_count = 0
        # The reason why nothing can be answered; set only if there is no data.
        self.failure: KafkaError | None = None
        self._plan = plan
        self._entries = entries_in_pieces(read, size_bytes)
        self._messages: Iterator[Lowered | None] = iter(())

    def step(self) -> bool:
        """Go on for about a millisecond; False when the answer is complete. Raises OSError."""
        try:
            return self._step()
        except KafkaError as error:
            # What comes before the fault is answered; the next fetch begins with the fault.
            if not self.data:
                self.failure = error
            return False

    def _step(self) -> bool:
        plan = self._plan
        for _ in range(_STEP_MESSAGES):
            one = next(self._messages, _NO_MORE)
            if one is None:
                return True
            if one is _NO_MORE:
                entry = next(self._entries, None)
                if entry is None:
                    return False
                self._messages = lowered(entry, plan.magic, plan.from_offset)
                if isinstance(entry, RecordBatch) and entry.is_control:
                    self.next_offset = entry.next_offset
                continue
            room_bytes = plan.max_bytes - len(self.data)
            if len(one.data) > room_bytes and plan.may_cut:
                self.data += one.data[:room_bytes]
                return False
            if len(one.data) > room_bytes and self.data:
                return False
            self.data += one.data
            self.record_count += one.record_count
            self.next_offset = one.next_offset
            if len(self.data) >= plan.enough_bytes:
                return False
        return len(self.data) < plan.max_bytes


_NO_MORE = Lowered(b"", -1, 0)


def lowered(entry: LogEntry, magic: int, from_offset: int) -> Iterator[Lowered | None]:
    """The entries of a message set for one stored entry, from an offset on; None says that about a
    millisecond of work is done and more is to come.

    Raises KafkaError while iterating: UNSUPPORTED_COMPRESSION_TYPE for zstd, CORRUPT_MESSAGE."""
    if not isinstance(entry, RecordBatch) and entry.magic <= magic:
        yield Lowered(bytes(entry.view), entry.offset + 1, 0)
        return
    if isinstance(entry, RecordBatch) and entry.is_control:
        return
    codec, timestamp_type = entry.codec, entry.timestamp_type
    if codec is Codec.ZSTD:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs version 10 of the fetch request"
        )
    if codec is not Codec.NONE:
        yield from _wrapped(entry, magic)
        return
    form = form_of(magic, Codec.NONE, timestamp_type)
    for part in _parts(entry):
        if part[-1].offset < from_offset:
            # What is passed over is work, too.
            yield None
            continue
        for offset, timestamp, key, value, _headers in part:
            if offset >= from_offset:
                yield Lowered(message(form, offset, timestamp, key, value), offset + 1, 1)


def _wrapped(entry: LogEntry, magic: int) -> Iterator[Lowered | None]:
    """A compressed entry as one wrapper, made part by part; nothing for one without records."""
    form = form_of(magic, Codec.NONE, entry.timestamp_type)
    content = bytearray()
    base_offset = last_offset = latest = -1
    record_count = 0
    for part in _parts(entry):
        if not record_count:
            base_offset, latest = part[0].offset, part[0].timestamp
        content += wrapped(form, part, base_offset)
        last_offset, record_count = part[-1].offset, record_count + len(part)
        latest = max(latest, *(one.timestamp for one in part))
        yield None
    if record_count:
        kind = entry.codec, entry.timestamp_type
        data = enclosed(magic, (last_offset, latest), content, kind)
        yield Lowered(data, last_offset + 1, record_count)


def _parts(entry: LogEntry) -> Iterator[list[Record]]:
    """The records of an entry, as many at once as a step takes.

    What decodes a whole batch at once is faster and lets no other thread run meanwhile: only where
    that does not take long."""
    records: Iterator[Record]
    if not isinstance(entry, RecordBatch):
        records = iter(read_entry(entry))
    elif entry.record_count > DECODED_AT_ONCE_MAX:
        records = read_records(entry, OUTPUT_BYTES_MAX)
    else:
        records = iter(decode_records(entry, record_view(entry, OUTPUT_BYTES_MAX)))
    while part := list(islice(records, _STEP_MESSAGES)):
        yield part
