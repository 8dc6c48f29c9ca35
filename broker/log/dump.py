"""What is in a file of a data directory, line by line, for ``ottla log dump FILE``.

Batches are printed in the words of Kafka's DumpLogSegments, so that people and scripts that know
its output can read ours. Nothing is believed: damage is a line like any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.log.index import OffsetIndex, TimeIndex
from ottla.broker.log.names import LOG, OFFSET_INDEX, TIME_INDEX, TXN_INDEX, parse_segment_name
from ottla.broker.log.scan import BatchScan
from ottla.broker.log.settings import INT32_MAX
from ottla.broker.log.txn_index import decode_aborted
from ottla.protocol.errors import KafkaError
from ottla.protocol.records.batch import TimestampType, check_crc
from ottla.protocol.records.record import read_records

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.protocol.ports import File
    from ottla.protocol.records.batch import RecordBatch
    from ottla.protocol.records.record import Record

_OUTPUT_BYTES_MAX = 256 * 1024 * 1024
_TIME_NAMES = {
    TimestampType.CREATE_TIME: "CreateTime",
    TimestampType.LOG_APPEND_TIME: "LogAppendTime",
}


def dump_file(file: File, *, records: bool = False) -> Iterator[str]:
    """Lines about a file, by what its name says it is. ``records``: also those in batches."""
    parsed = parse_segment_name(file.path.rpartition("/")[2])
    base_offset, suffix = parsed if parsed is not None else (0, "")
    if suffix.startswith(LOG):
        yield from dump_batches(file, records=records)
        return
    content = file.pread(file.size_bytes, 0)
    if suffix.startswith(OFFSET_INDEX):
        yield from _dump_offsets(content, base_offset)
    elif suffix.startswith(TIME_INDEX):
        yield from _dump_times(content, base_offset)
    elif suffix.startswith(TXN_INDEX):
        yield from _dump_transactions(content)
    else:
        yield from content.decode("utf-8", "replace").splitlines()


def dump_batches(file: File, *, records: bool = False) -> Iterator[str]:
    """One line for each batch of a ``.log`` file, and one for what is no batch at its end."""
    scan = BatchScan(file, 0, file.size_bytes)
    for position, batch in scan:
        is_valid = check_crc(batch)
        yield _batch_line(position, batch, is_valid)
        if records and is_valid:
            yield from _record_lines(batch)
    if scan.problem is not None:
        rest = file.size_bytes - scan.position
        yield f"no batch at position: {scan.position} ({rest} bytes to the end): {scan.problem}"


def _batch_line(position: int, batch: RecordBatch, is_valid: bool) -> str:
    codec = batch.attributes & 7
    try:
        codec_name = batch.codec.name.lower()
    except KafkaError:
        codec_name = f"unknown ({codec})"
    fields = (
        ("baseOffset", batch.base_offset),
        ("lastOffset", batch.last_offset),
        ("count", batch.record_count),
        ("baseSequence", batch.base_sequence),
        ("lastSequence", batch.last_sequence),
        ("producerId", batch.producer_id),
        ("producerEpoch", batch.producer_epoch),
        ("partitionLeaderEpoch", batch.leader_epoch),
        ("isTransactional", _yes(batch.is_transactional)),
        ("isControl", _yes(batch.is_control)),
        ("position", position),
        (_TIME_NAMES[batch.timestamp_type], batch.max_timestamp),
        ("size", batch.size_bytes),
        ("magic", batch.magic),
        ("compresscodec", codec_name),
        ("crc", batch.crc),
        ("isvalid", _yes(is_valid)),
    )
    return " ".join(f"{name}: {value}" for name, value in fields)


def _record_lines(batch: RecordBatch) -> Iterator[str]:
    time_name = _TIME_NAMES[batch.timestamp_type]
    try:
        for record in read_records(batch, _OUTPUT_BYTES_MAX):
            yield _record_line(record, time_name)
    except KafkaError as error:
        yield f"| {error.message}"


def _record_line(record: Record, time_name: str) -> str:
    headers = ",".join(key for key, _ in record.headers)
    return (
        f"| offset: {record.offset} {time_name}: {record.timestamp} "
        f"keySize: {_size(record.key)} valueSize: {_size(record.value)} headerKeys: [{headers}] "
        f"key: {_text(record.key)} payload: {_text(record.value)}"
    )


def _dump_offsets(content: bytes, base_offset: int) -> Iterator[str]:
    index = OffsetIndex.decode(content, INT32_MAX)
    if index is None or not index.is_ascending:
        yield f"{len(content)} bytes that are no offset index"
        return
    for relative_offset, position in zip(index.offsets, index.positions, strict=True):
        yield f"offset: {base_offset + relative_offset} position: {position}"


def _dump_times(content: bytes, base_offset: int) -> Iterator[str]:
    index = TimeIndex.decode(content)
    if index is None or not index.is_ascending:
        yield f"{len(content)} bytes that are no time index"
        return
    for timestamp, relative_offset in zip(index.timestamps, index.offsets, strict=True):
        yield f"timestamp: {timestamp} offset: {base_offset + relative_offset}"


def _dump_transactions(content: bytes) -> Iterator[str]:
    entries = decode_aborted(content)
    if entries is None:
        yield f"{len(content)} bytes that are no index of aborted transactions"
        return
    for entry in entries:
        yield (
            f"version: 0 producerId: {entry.producer_id} firstOffset: {entry.first_offset} "
            f"lastOffset: {entry.last_offset} lastStableOffset: {entry.last_stable_offset}"
        )


def _yes(value: bool) -> str:
    return "true" if value else "false"


def _size(value: bytes | memoryview | None) -> int:
    return -1 if value is None else len(value)


def _text(value: bytes | memoryview | None) -> str:
    return "null" if value is None else bytes(value).decode("utf-8", "backslashreplace")
