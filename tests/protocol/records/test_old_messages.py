"""Message sets of magic 0 and 1 are read as their old writers meant them, or refused."""

from __future__ import annotations

import contextlib
import importlib
import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records.batch import TimestampType, iterate_batches
from ottla.protocol.records.builder import BatchOptions, encode_batch
from ottla.protocol.records.compression import Codec, compress
from ottla.protocol.records.old_messages import (
    OldMessage,
    check_message_crc,
    iterate_entries,
    parse_message,
    read_any,
    read_messages,
)
from ottla.protocol.records.record import Record
from tests.protocol.records.old_bytes import (
    LOG_APPEND_TIME,
    Made,
    enclose,
    entry,
    message_set,
    wrap,
    wrapper,
)
from tests.protocol.records.samples import FIRST_TIMESTAMP, code_of, quick, thorough

# Written by other software than ours and the test's.
V0 = bytes.fromhex("0000000000000000000000101fecd70a0000000000016b0000000176")
V1 = bytes.fromhex("00000000000000000000001839268c3301000000018bcfe56800000000016b0000000176")
LIMIT_BYTES = 1 << 20

MADE = [
    Made(40, FIRST_TIMESTAMP, b"k", b"v"),
    Made(41, FIRST_TIMESTAMP + 5, None, b"no key"),
    Made(43, FIRST_TIMESTAMP + 2, b"gone", None),
    Made(44, FIRST_TIMESTAMP + 3, b"", b""),
]
old_codecs = pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
both = pytest.mark.parametrize("magic", [0, 1])


def expected(magic: int, made: list[Made], timestamp: int | None = None) -> list[Record]:
    return [
        Record(
            one.offset,
            -1 if magic == 0 else one.timestamp if timestamp is None else timestamp,
            one.key,
            one.value,
        )
        for one in made
    ]


def refusal(data: bytes) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        list(read_any(data, LIMIT_BYTES))
    return code_of(refused.value)


def test_known_bytes_of_both_formats() -> None:
    """The same key and value, and only magic 1 knows when."""
    assert list(read_any(V0 + V1)) == [
        Record(0, -1, b"k", b"v"),
        Record(0, FIRST_TIMESTAMP, b"k", b"v"),
    ]
    assert entry(0, Made(0, 0, b"k", b"v")) == V0
    assert entry(1, Made(0, FIRST_TIMESTAMP, b"k", b"v")) == V1


@both
def test_a_set_without_compression(magic: int) -> None:
    """Nulls and empty fields are different things: one deletes a key of a compacted topic."""
    assert list(read_any(message_set(magic, MADE))) == expected(magic, MADE)


@both
@old_codecs
def test_what_a_wrapper_holds_has_absolute_offsets(magic: int, codec: Codec) -> None:
    """With the gap that compaction left inside, which counting from the end would fill."""
    assert list(read_any(wrapper(magic, MADE, codec))) == expected(magic, MADE)


def test_the_append_time_of_a_wrapper_holds_for_all_inside() -> None:
    """The broker stamps the wrapper only; what producers said is still there below (KIP-32)."""
    data = wrapper(1, MADE, Codec.GZIP, LOG_APPEND_TIME)
    (message,) = iterate_entries(data)

    assert message.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert list(read_any(data)) == expected(1, MADE, FIRST_TIMESTAMP + 5)


def test_magic_0_has_no_timestamp_type() -> None:
    """The bit was not assigned then; taking it for the broker's time would invent one."""
    message = parse_message(entry(0, MADE[0], LOG_APPEND_TIME))

    assert message.timestamp_type is TimestampType.CREATE_TIME
    assert message.timestamp == -1


def test_a_wrapper_produced_with_offset_0_keeps_its_inner_offsets() -> None:
    """Early librdkafka never filled the field; subtracting would give negative offsets."""
    inner = message_set(1, [one._replace(offset=n) for n, one in enumerate(MADE)])
    data = wrap(1, Made(0, FIRST_TIMESTAMP, None, inner), Codec.GZIP)

    assert [record.offset for record in read_any(data)] == [0, 1, 2, 3]


def test_a_bare_snappy_block_is_read_too() -> None:
    """Clients that link plain snappy write no xerial frame."""
    block = compress(Codec.SNAPPY, message_set(0, MADE))[20:]
    data = entry(0, Made(44, 0, None, block), Codec.SNAPPY)

    assert list(read_any(data)) == expected(0, MADE)


def test_the_wrong_lz4_header_checksum_of_magic_0_is_forgiven() -> None:
    """All writers of that format hashed the frame's magic too; later formats do it right."""
    frame = bytearray(compress(Codec.LZ4, message_set(0, MADE)))
    frame[6] ^= 0x55
    assert list(read_any(entry(0, Made(44, 0, None, bytes(frame)), Codec.LZ4))) == expected(0, MADE)

    frame = bytearray(compress(Codec.LZ4, message_set(1, MADE)))
    frame[6] ^= 0x55
    later = entry(1, Made(44, 0, None, bytes(frame)), Codec.LZ4)
    assert refusal(later) is ErrorCode.CORRUPT_MESSAGE


# The formats mixed


def mixed_segment(codec: Codec) -> tuple[bytes, list[Record]]:
    """What is left of a partition that was upgraded twice, newest format last, and once back."""

    def at(offset: int) -> list[Made]:
        return [one._replace(offset=offset + n) for n, one in enumerate(MADE)]

    def batch(offset: int) -> bytes:
        entries = [(one.timestamp, one.key, one.value, ()) for one in MADE]
        return encode_batch(entries, BatchOptions(codec=codec, base_offset=offset, leader_epoch=1))

    def old(magic: int, offset: int) -> bytes:
        if codec is Codec.NONE:
            return message_set(magic, at(offset))
        return wrapper(magic, at(offset), codec)

    parts = [(0, 0), (1, 4), (2, 8), (1, 12), (0, 16), (2, 20)]
    data = b"".join(batch(place) if magic == 2 else old(magic, place) for magic, place in parts)
    return data, [record for magic, place in parts for record in expected(magic, at(place))]


@pytest.mark.requirement("FMT-22")
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
def test_three_formats_in_one_segment_are_read_in_order(codec: Codec) -> None:
    """Topics older than an upgrade are served from such segments until retention ends them."""
    data, records = mixed_segment(codec)

    assert list(read_any(data)) == records


@pytest.mark.requirement("FMT-22")
def test_bytes_12_to_15_are_read_by_the_format_that_byte_16_names() -> None:
    """A checksum taken for a leader epoch, or the reverse, would be believed: no size differs."""
    data, _ = mixed_segment(Codec.GZIP)
    entries = list(iterate_entries(data))

    assert [each.magic for each in entries] == [0, 1, 2, 1, 0, 2]
    for each in entries:
        if isinstance(each, OldMessage):
            assert each.crc == int.from_bytes(each.view[12:16])
            assert check_message_crc(each)
        else:
            assert each.leader_epoch == 1


@both
def test_where_batches_are_wanted_old_messages_are_still_refused(magic: int) -> None:
    """Reading them is not serving them: the broker's own paths know nothing of these formats."""
    with pytest.raises(KafkaError) as refused:
        list(iterate_batches(message_set(magic, MADE)))
    assert code_of(refused.value) is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


# What is refused


@both
def test_every_flipped_byte_is_noticed(magic: int) -> None:
    """Only the offset lies outside the checksum; a size that lies is no entry at all."""
    data = entry(magic, MADE[0])
    for place in range(8, len(data)):
        broken = bytearray(data)
        broken[place] ^= 0x01

        assert refusal(bytes(broken)) is ErrorCode.CORRUPT_MESSAGE, place


@both
def test_every_cut_is_noticed(magic: int) -> None:
    """A torn write ends anywhere."""
    data = entry(magic, MADE[0])
    for size in range(1, len(data)):
        assert refusal(data[:size]) is ErrorCode.CORRUPT_MESSAGE, size


@both
@pytest.mark.parametrize("size", [-(2**31), -13, -12, -1, 0, 13, 2**31 - 1])
def test_sizes_that_cannot_be_are_refused(magic: int, size: int) -> None:
    """None may be skipped by or allocated, least of all one that leads backwards for ever."""
    data = bytearray(message_set(magic, MADE))
    data[8:12] = size.to_bytes(4, signed=True)

    assert refusal(bytes(data)) is ErrorCode.CORRUPT_MESSAGE


@both
@pytest.mark.parametrize("size", [-(2**31), -2, 2, 3, 2**31 - 1])
def test_field_sizes_that_cannot_be_are_refused(magic: int, size: int) -> None:
    """With a right checksum: a hostile producer computes one."""
    stamp = bytes(8) if magic else b""
    for fields in (
        size.to_bytes(4, signed=True) + b"k" + b"\xff\xff\xff\xff",
        b"\xff\xff\xff\xff" + size.to_bytes(4, signed=True) + b"v",
        b"\xff\xff\xff\xff\xff\xff\xff\xff" + b"more than the sizes say",
    ):
        data = enclose(0, bytes([magic, 0]) + stamp + fields)

        assert refusal(data) is ErrorCode.CORRUPT_MESSAGE


@both
@pytest.mark.parametrize("codec", range(4, 8))
def test_codecs_that_the_format_never_had_are_refused(magic: int, codec: int) -> None:
    """zstd came with magic 2 only (KIP-110); no old consumer could read it."""
    data = entry(magic, MADE[0], codec)

    assert refusal(data) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def wrong_wrappers() -> dict[str, bytes]:
    """Wrappers with right checksums whose contents do not fit."""
    one = [Made(0, 7, b"k", b"v")]
    plain = message_set(1, one)
    broken = bytearray(plain)
    broken[-1] ^= 1
    huge = entry(1, Made(2**62, 7, b"k", b"v")) + plain

    def around(value: bytes, offset: int = 9) -> bytes:
        return wrap(1, Made(offset, 7, None, value), Codec.GZIP)

    return {
        "null": entry(1, Made(9, 7, None, None), Codec.GZIP),
        "no data": entry(1, Made(9, 7, None, b""), Codec.GZIP),
        "empty": around(b""),
        "not compressed": entry(1, Made(9, 7, None, plain), Codec.GZIP),
        "a wrapper": around(wrapper(1, MADE, Codec.GZIP), offset=44),
        "another format": around(message_set(0, one)),
        "a batch": around(encode_batch([(7, b"k", b"v", ())])),
        "a spoiled message": around(bytes(broken)),
        "a torn message": around(plain + plain[:-1]),
        "a torn place": around(plain + plain[:11]),
        "a step back": around(plain[:8] + (-13).to_bytes(4, signed=True) + plain[12:]),
        "more offsets than there is room for": around(message_set(1, MADE), offset=43),
        "an offset of 64 bits": around(huge, offset=2**62),
    }


@pytest.mark.parametrize("what", wrong_wrappers())
def test_wrappers_that_contradict_their_contents_are_refused(what: str) -> None:
    """One level, one format, every size and checksum right, at least one message."""
    assert refusal(wrong_wrappers()[what]) is ErrorCode.CORRUPT_MESSAGE


@both
@old_codecs
def test_a_bomb_stops_at_the_limit(magic: int, codec: Codec) -> None:
    """A wrapper of kilobytes may stand for gigabytes (N-04)."""
    data = wrapper(magic, [Made(0, 7, None, bytes(2 * LIMIT_BYTES))], codec)

    assert refusal(data) is ErrorCode.MESSAGE_TOO_LARGE


def test_good_entries_come_before_the_refusal() -> None:
    """Entries before the damage are still readable."""
    found = read_any(message_set(0, MADE) + bytes(30))

    assert [next(found) for _ in MADE] == expected(0, MADE)
    with pytest.raises(KafkaError):
        next(found)


@thorough
@given(data=st.binary(max_size=300), magic=st.integers(0, 2))
def test_noise_is_refused(data: bytes, magic: int) -> None:
    """Random bytes after a torn write (S-02) are no records, and nothing but a refusal."""
    noise = bytearray(data)
    noise[16:17] = bytes([magic])

    assert refusal(bytes(noise)) is ErrorCode.CORRUPT_MESSAGE


@thorough
@given(
    magic=st.integers(0, 1),
    codec=st.sampled_from([Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]),
    level=st.sampled_from(["set", "wrapper", "inside"]),
    changes=st.lists(st.tuples(st.integers(0, 2**12), st.integers(0, 255)), max_size=4),
)
def test_mutants_with_right_checksums_are_read_or_refused(
    magic: int, codec: Codec, level: str, changes: list[tuple[int, int]]
) -> None:
    """A hostile producer computes the checksum and the size of whatever it sends."""
    base = message_set(magic, MADE) if level == "inside" else wrapper(magic, MADE, codec)
    mutant = bytearray(base if level == "inside" else base[16:])
    for place, byte in changes:
        mutant[place % len(mutant)] = byte
    if level == "inside":
        data = wrap(magic, Made(44, FIRST_TIMESTAMP, None, bytes(mutant)), codec)
    else:
        data = enclose(44, bytes(mutant))
    with contextlib.suppress(KafkaError):
        records = list(read_any(data, LIMIT_BYTES))
        assert all(-(2**63) <= record.offset < 2**63 for record in records)
    with contextlib.suppress(KafkaError):
        message = parse_message(data)
        assert message.size_bytes == len(data)
        list(read_messages(message, LIMIT_BYTES))


# Another client's own writer and reader of these formats


legacy: Any = importlib.import_module("kafka.record.legacy_records")
_fields = st.none() | st.binary(max_size=100)
sets = st.lists(st.tuples(st.integers(0, 2**60), _fields, _fields), min_size=1, max_size=10)


@pytest.mark.parametrize(
    ("magic", "codec"),
    # Its LZ4 of magic 0 needs a package that is not always there.
    [*itertools.product((0, 1), (Codec.NONE, Codec.GZIP, Codec.SNAPPY)), (1, Codec.LZ4)],
)
@quick
@given(made=sets)
def test_sets_of_kafka_python_are_read(
    magic: int, codec: Codec, made: list[tuple[int, bytes | None, bytes | None]]
) -> None:
    """Offsets inside from 0 on, as any producer's; its wrappers say offset 0 and time 0."""
    builder = legacy.LegacyRecordBatchBuilder(magic, int(codec), 1 << 20)
    for offset, (timestamp, key, value) in enumerate(made):
        builder.append(offset, timestamp, key, value)
    data = bytes(builder.build())

    assert list(read_any(data)) == [
        Record(offset, timestamp if magic else -1, key, value)
        for offset, (timestamp, key, value) in enumerate(made)
    ]


@both
@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY])
def test_kafka_python_reads_the_same_from_stored_wrappers(magic: int, codec: Codec) -> None:
    """Both readers of the same bytes, here with the offsets and stamps that brokers set."""
    for attributes in (0, LOG_APPEND_TIME) if magic else (0,):
        data = wrapper(magic, MADE, codec, attributes)
        theirs = [
            Record(each.offset, -1 if magic == 0 else each.timestamp, each.key, each.value)
            for each in legacy.LegacyRecordBatch(data, magic)
        ]

        assert list(read_any(data)) == theirs
