"""What producers of formats 0 and 1 send, made the one record batch that a log stores. Pure.

Kafka's rules: a set is uncompressed messages, or one wrapper; a torn message at its end is left
out. Offsets count from 0, wrong ones inside a wrapper are put right. Format 0 has no timestamps. A
message that says that the broker has set its time is refused, as are attribute bits without a
meaning, which Kafka ignores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records.batch import (
    APPEND_TIME_BIT,
    CODEC_BITS,
    LENGTH_END,
    LENGTH_POSITION,
    MAGIC,
    MAGIC_POSITION,
    RecordBatch,
    parse_batch,
)
from ottla.protocol.records.builder import BatchOptions, finish_batch
from ottla.protocol.records.codec import encode_entries
from ottla.protocol.records.compression import OUTPUT_BYTES_MAX, Codec
from ottla.protocol.records.old_messages import (
    ENTRY_BYTES_MIN,
    OldMessage,
    check_message_crc,
    parse_message,
    read_messages,
)

if TYPE_CHECKING:
    from ottla.protocol.ports import Buffer
    from ottla.protocol.records.record import Entry

# Bit 3 means nothing in format 0.
_KNOWN_BITS = (CODEC_BITS, CODEC_BITS | APPEND_TIME_BIT)


def is_message_set(records: Buffer) -> bool:
    """Whether the first entry has a format before 2; False where there is none."""
    return len(records) > MAGIC_POSITION and records[MAGIC_POSITION] < MAGIC


def has_no_message(records: Buffer) -> bool:
    """Whether not even the first entry is complete, so that there is nothing to store."""
    return whole_bytes(memoryview(records), 0) == 0


def raised(records: Buffer, output_limit_bytes: int = OUTPUT_BYTES_MAX) -> RecordBatch:
    """The batch of a message set that holds at least one message.

    It has the set's codec and no producer. Raises KafkaError: CORRUPT_MESSAGE for what is
    malformed, has a wrong checksum or a reserved bit, INVALID_TIMESTAMP for the broker's kind of
    timestamp, INVALID_RECORD for a wrapper that is not alone, and what ``decompress`` raises."""
    view = memoryview(records)
    messages: list[OldMessage] = []
    position = 0
    while size_bytes := whole_bytes(view, position):
        if view[position + MAGIC_POSITION] >= MAGIC:
            raise KafkaError(
                ErrorCode.INVALID_RECORD, "a record batch follows messages of an older format"
            )
        one = parse_message(view, position)
        check_sent(one)
        messages.append(one)
        position += size_bytes
    codec = next((one.codec for one in messages if one.is_compressed), Codec.NONE)
    if codec is not Codec.NONE and len(messages) > 1:
        raise KafkaError(ErrorCode.INVALID_RECORD, "a compressed message is not alone in its set")
    entries: list[Entry] = [
        (record.timestamp, record.key, record.value, ())
        for one in messages
        for record in read_messages(one, output_limit_bytes)
    ]
    return parse_batch(memoryview(finish_batch(encode_entries(entries), BatchOptions(codec=codec))))


def check_sent(one: OldMessage) -> None:
    """Raise KafkaError for what no producer may send: see ``raised``."""
    if not check_message_crc(one):
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "the checksum of a message is wrong")
    if one.attributes & ~_KNOWN_BITS[one.magic]:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE,
            f"format {one.magic} has no meaning for the attributes {one.attributes:#04x}",
        )
    if one.attributes & APPEND_TIME_BIT:
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, "only the broker sets append times")


def whole_bytes(view: memoryview, position: int) -> int:
    """The size of the complete entry there; 0 if the rest is torn or nothing.

    Raises KafkaError(CORRUPT_MESSAGE) for a size that no entry has."""
    available = len(view) - position
    if available < LENGTH_END:
        return 0
    length = int.from_bytes(view[position + LENGTH_POSITION : position + LENGTH_END], signed=True)
    size_bytes = LENGTH_END + length
    if size_bytes < ENTRY_BYTES_MIN[0]:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"a message gives its size as {size_bytes} bytes"
        )
    return size_bytes if size_bytes <= available else 0
