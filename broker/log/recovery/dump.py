"""Lists the content of a file of a data directory, for ``ottla log dump FILE``.

Batches are described with the field names of Kafka's DumpLogSegments, so that scripts for its
output work. Everything is verified, and damage is listed as an entry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.log.storage.index import OffsetIndex, TimeIndex
from ottla.broker.log.storage.names import (
    LOG,
    OFFSET_INDEX,
    TIME_INDEX,
    TXN_INDEX,
    parse_segment_name,
)
from ottla.broker.log.storage.scan import CHUNK_BYTES, BatchScan
from ottla.broker.log.storage.settings import INT32_MAX
from ottla.broker.log.storage.txn_index import decode_aborted
from ottla.protocol.errors import KafkaError
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.records.batch import (
    CODEC_BITS,
    LENGTH_END,
    LENGTH_POSITION,
    MAGIC,
    TimestampType,
    check_crc,
)
from ottla.protocol.records.old_messages import (
    OldMessage,
    check_message_crc,
    parse_message,
    read_entry,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.protocol.ports import File
    from ottla.protocol.records.batch import RecordBatch
    from ottla.protocol.records.old_messages import LogEntry
    from ottla.protocol.records.record import Record

_OUTPUT_BYTES_MAX = 256 * 1024 * 1024
_TIME_NAMES = {
    TimestampType.CREATE_TIME: "CreateTime",
    TimestampType.LOG_APPEND_TIME: "LogAppendTime",
}


class DumpedEntry(NamedTuple):
    """One item of a file, with the field names of Kafka's tool.

    ``kind`` is batch, record, entry (of an index), text or problem."""

    kind: str
    fields: dict[str, object]

    @property
    def is_problem(self) -> bool:
        """Whether the item is damaged."""
        return self.kind == PROBLEM or self.fields.get("isvalid") is False


BATCH, RECORD, ENTRY, TEXT, PROBLEM = "batch", "record", "entry", "text", "problem"


def dump_file(file: File, *, records: bool = False) -> Iterator[DumpedEntry]:
    """The entries of a file, parsed by its suffix. ``records``: include the records of batches."""
    parsed = parse_segment_name(file.path.rpartition("/")[2])
    base_offset, suffix = parsed if parsed is not None else (0, "")
    if suffix.startswith(LOG):
        yield from _dump_batches(file, records=records)
        return
    content = file.pread(file.size_bytes, 0)
    if suffix.startswith(OFFSET_INDEX):
        yield from _dump_offsets(content, base_offset)
    elif suffix.startswith(TIME_INDEX):
        yield from _dump_times(content, base_offset)
    elif suffix.startswith(TXN_INDEX):
        yield from _dump_transactions(content)
    else:
        for line in content.decode("utf-8", "replace").splitlines():
            yield DumpedEntry(TEXT, {"line": line})


def line_of(entry: DumpedEntry) -> str:
    """The entry as one line, in the format of Kafka's tool."""
    fields = entry.fields
    if entry.kind == TEXT:
        return str(fields["line"])
    if entry.kind == PROBLEM:
        return str(fields["problem"])
    line = " ".join(f"{name}: {_shown(value)}" for name, value in fields.items())
    return f"| {line}" if entry.kind == RECORD else line


def _dump_batches(file: File, *, records: bool = False) -> Iterator[DumpedEntry]:
    """The batches of a ``.log`` file, messages of older formats, and an unreadable end."""
    start = 0
    while True:
        scan = BatchScan(file, start, file.size_bytes)
        for position, batch in scan:
            is_valid = check_crc(batch)
            entry: LogEntry = batch
            if batch.magic < MAGIC:
                entry = parse_message(batch.buffer, batch.position)
                yield _message_entry(position, entry, is_valid)
            else:
                yield _batch_entry(position, batch, is_valid)
            if records and is_valid:
                yield from _record_entries(entry)
        if scan.problem is None:
            return
        start = scan.position
        for message in _old_messages(file, start):
            is_valid = check_message_crc(message)
            yield _message_entry(start, message, is_valid)
            if records and is_valid:
                yield from _record_entries(message)
            start += message.size_bytes
        if start == scan.position:
            break
    rest = file.size_bytes - start
    where = f"no batch at position: {start} ({rest} bytes to the end)"
    yield DumpedEntry(PROBLEM, {"problem": f"{where}: {scan.problem}", "position": start})


def _old_messages(file: File, position: int) -> Iterator[OldMessage]:
    """The adjacent messages of magic 0 and 1 from a position on; there may be none."""
    wanted = CHUNK_BYTES
    while room_bytes := file.size_bytes - position:
        asked = min(wanted, room_bytes)
        chunk = memoryview(file.pread(asked, position))
        at = 0
        try:
            while True:
                message = parse_message(chunk, at)
                yield message
                at += message.size_bytes
        except KafkaError:
            # The end of the chunk or of these formats; the next iteration continues there.
            position += at
        if at == 0:
            wanted = LENGTH_END + int.from_bytes(chunk[LENGTH_POSITION:LENGTH_END], signed=True)
            if len(chunk) < asked or not asked < wanted <= room_bytes:
                return


def _batch_entry(position: int, batch: RecordBatch, is_valid: bool) -> DumpedEntry:
    own: dict[str, object] = {
        "baseOffset": batch.base_offset,
        "lastOffset": batch.last_offset,
        "count": batch.record_count,
        "baseSequence": batch.base_sequence,
        "lastSequence": batch.last_sequence,
        "producerId": batch.producer_id,
        "producerEpoch": batch.producer_epoch,
        "partitionLeaderEpoch": batch.leader_epoch,
        "isTransactional": batch.is_transactional,
        "isControl": batch.is_control,
    }
    common = _common_fields(position, batch, batch.max_timestamp, is_valid)
    return DumpedEntry(BATCH, own | common)


def _message_entry(position: int, message: OldMessage, is_valid: bool) -> DumpedEntry:
    common = _common_fields(position, message, message.timestamp, is_valid)
    return DumpedEntry(BATCH, {"offset": message.offset} | common)


def _common_fields(
    position: int, entry: LogEntry, timestamp: int, is_valid: bool
) -> dict[str, object]:
    """The fields that Kafka's tool prints for every format."""
    try:
        codec_name = entry.codec.name.lower()
    except KafkaError:
        codec_name = f"unknown ({entry.attributes & CODEC_BITS})"
    return {
        "position": position,
        _time_name(entry): timestamp,
        "size": entry.size_bytes,
        "magic": entry.magic,
        "compresscodec": codec_name,
        "crc": entry.crc,
        "isvalid": is_valid,
    }


def _time_name(entry: LogEntry) -> str:
    return _TIME_NAMES[entry.timestamp_type] if entry.magic else "NoTimestampType"


def _record_entries(entry: LogEntry) -> Iterator[DumpedEntry]:
    time_name = _time_name(entry)
    try:
        for record in read_entry(entry, _OUTPUT_BYTES_MAX):
            yield _record_entry(record, time_name)
    except KafkaError as error:
        yield DumpedEntry(PROBLEM, {"problem": f"| {error.message}"})


def _record_entry(record: Record, time_name: str) -> DumpedEntry:
    return DumpedEntry(
        RECORD,
        {
            "offset": record.offset,
            time_name: record.timestamp,
            "keySize": _size(record.key),
            "valueSize": _size(record.value),
            "headerKeys": [key for key, _ in record.headers],
            "key": _text(record.key),
            "payload": _text(record.value),
        },
    )


def _dump_offsets(content: bytes, base_offset: int) -> Iterator[DumpedEntry]:
    index = OffsetIndex.decode(content, INT32_MAX)
    if index is None or not index.is_ascending:
        yield _spoiled(content, "offset index")
        return
    for relative_offset, position in zip(index.offsets, index.positions, strict=True):
        yield DumpedEntry(ENTRY, {"offset": base_offset + relative_offset, "position": position})


def _dump_times(content: bytes, base_offset: int) -> Iterator[DumpedEntry]:
    index = TimeIndex.decode(content)
    if index is None or not index.is_ascending:
        yield _spoiled(content, "time index")
        return
    for timestamp, relative_offset in zip(index.timestamps, index.offsets, strict=True):
        yield DumpedEntry(ENTRY, {"timestamp": timestamp, "offset": base_offset + relative_offset})


def _dump_transactions(content: bytes) -> Iterator[DumpedEntry]:
    entries = decode_aborted(content)
    if entries is None:
        yield _spoiled(content, "index of aborted transactions")
        return
    for entry in entries:
        yield DumpedEntry(
            ENTRY,
            {
                "version": 0,
                "producerId": entry.producer_id,
                "firstOffset": entry.first_offset,
                "lastOffset": entry.last_offset,
                "lastStableOffset": entry.last_stable_offset,
            },
        )


def _spoiled(content: bytes, what: str) -> DumpedEntry:
    return DumpedEntry(PROBLEM, {"problem": f"{len(content)} bytes that are no {what}"})


def _shown(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"[{','.join(value)}]" if isinstance(value, list) else str(value)


def _size(value: bytes | memoryview | None) -> int:
    return -1 if value is None else len(value)


def _text(value: bytes | memoryview | None) -> str | None:
    return None if value is None else bytes(value).decode("utf-8", "backslashreplace")
