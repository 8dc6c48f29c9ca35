"""The survey of records, compiled and plain, and the stream that says what is wrong."""

from __future__ import annotations

import importlib
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records import survey_pure
from ottla.protocol.records.batch import HEADER_BYTES, parse_batch
from ottla.protocol.records.builder import BatchOptions, encode_batch
from ottla.protocol.records.compression import CODECS, Codec, compress
from ottla.protocol.records.record_stream import RecordStream
from ottla.protocol.records.survey import COMPILED_NAME, SurveyTwin
from ottla.protocol.records.validation import record_facts, validate_records
from ottla.protocol.records.varint import INT64_MAX, INT64_MIN, encode_varint
from tests.protocol.records.broken import (
    BROKEN,
    NOW,
    SPOILED,
    batch_around,
    record,
    sized,
    spoiled,
)
from tests.protocol.records.samples import batches_of_entries, codecs, quick, sample_batch
from tests.protocol.records.test_codec_mutations import CORPUS, _mutate
from tests.protocol.records.twins import exact, has_compiler

try:
    COMPILED: SurveyTwin | None = importlib.import_module(COMPILED_NAME)
except ImportError:
    COMPILED = None
TWINS = [
    pytest.param(survey_pure, id="pure"),
    *([pytest.param(COMPILED, id="compiled")] if COMPILED is not None else []),
]
twins = pytest.mark.parametrize("twin", TWINS)


def code_of(data: bytes, limit_bytes: int = 1 << 20) -> ErrorCode:
    try:
        validate_records(parse_batch(data), limit_bytes)
    except KafkaError as error:
        return error.code if error.message else ErrorCode.UNKNOWN_SERVER_ERROR
    return ErrorCode.NONE


def read_one_by_one(payload: bytes, count: int, base_timestamp: int, piece_bytes: int) -> object:
    """What the stream says of records that come in pieces."""
    pieces = [payload[at : at + piece_bytes] for at in range(0, len(payload), piece_bytes)]
    stream = RecordStream(iter(pieces), count)
    try:
        facts = [stream.read(base_timestamp) for _ in range(count)]
        stream.expect_end()
    except KafkaError as error:
        return error.code, stream.index
    return facts


def test_the_survey_is_compiled_where_it_could_be() -> None:
    """A produce request of a megabyte would take the event loop for tens of milliseconds."""
    assert COMPILED is not None or not has_compiler(), "install again (make)"


@twins
def test_good_records_are_gone_over_to_their_end(twin: SurveyTwin) -> None:
    """Times, keys and numbers of all shapes."""
    payload = (
        record(0)
        + record(1, delta=encode_varint(-700_000))
        + sized(b"\x07\x04" + encode_varint(2) + b"\x01\x01\x00")
        + record(3, b"\x04" + sized(b"h") + sized(b"x") + sized(b"") + b"\x01")
        # Zero in two bytes and one in five: readers take that.
        + sized(b"\x00\x80\x00" + b"\x88\x80\x80\x80\x00" + b"\x81\x00\x01\x00")
    )

    assert twin.survey_records(payload, 0, 0, 5, NOW) == (
        5,
        len(payload),
        NOW - 700_000,
        NOW + 2,
        2,
    )
    assert twin.survey_records(b"xx" + payload, 2, 0, 1, NOW) == (
        1,
        2 + len(record()),
        NOW,
        NOW,
        -1,
    )
    assert twin.survey_records(b"", 0, 7, 9, NOW) == (7, 0, INT64_MAX, INT64_MIN, -1)


@twins
@pytest.mark.parametrize(("count", "size"), [(10_000, 5), (200, 70), (70, 9_000), (3, 300_000)])
def test_numbers_of_every_length_are_read(twin: SurveyTwin, count: int, size: int) -> None:
    """Offset deltas and sizes go from one byte to three."""
    entries = [(NOW + number % 3, None, b"v" * size, ()) for number in range(count)]
    batch = parse_batch(encode_batch(entries))

    found = twin.survey_records(batch.payload, 0, 0, count, batch.base_timestamp)

    assert found == (count, len(batch.payload), NOW, NOW + min(count - 1, 2), 0)


@twins
@pytest.mark.parametrize("name", BROKEN)
def test_the_survey_stops_at_a_broken_record(twin: SurveyTwin, name: str) -> None:
    """In front of it, so that it can be said what is wrong."""
    count, payload = BROKEN[name]

    index, position, *_ = twin.survey_records(payload, 0, 0, count, NOW)

    assert index < count or position < len(payload)
    assert position == sum(len(record(number)) for number in range(index))


@twins
def test_a_position_outside_of_the_data_is_refused(twin: SurveyTwin) -> None:
    """The caller counts wrong; nothing there may be read."""
    for position, first in ((5, 0), (-1, 0), (0, -1)):
        with pytest.raises(ValueError, match="4 bytes"):
            twin.survey_records(b"abcd", position, first, 9, NOW)


def _same_for_both(payload: bytes, count: int, base_timestamp: int) -> None:
    pure = survey_pure.survey_records(payload, 0, 0, count, base_timestamp)
    if COMPILED is not None:
        assert COMPILED.survey_records(exact(payload), 0, 0, count, base_timestamp) == pure
    streamed = read_one_by_one(payload, count, base_timestamp, 7)
    if pure[0] == count and pure[1] == len(payload):
        assert isinstance(streamed, list)
        times = [timestamp for timestamp, _has_key in streamed]
        keyless = [place for place, (_time, has_key) in enumerate(streamed) if not has_key]
        assert (min(times), max(times), (keyless or [-1])[0]) == pure[2:]
    else:
        assert streamed == (ErrorCode.INVALID_RECORD, pure[0])


@quick
@given(st.binary(max_size=200), st.integers(1, 4), st.sampled_from((NOW, 0, INT64_MIN, INT64_MAX)))
def test_twins_and_stream_agree_on_garbage(payload: bytes, count: int, base: int) -> None:
    """None of them takes what another refuses, or stops elsewhere."""
    _same_for_both(payload, count, base)


@pytest.mark.parametrize("seed", range(4))
def test_twins_and_stream_agree_on_damaged_records(seed: int) -> None:
    """Mutants of good batches get further into them than garbage does."""
    draw = random.Random(seed)
    stopped = 0
    for _ in range(400):
        data = bytearray(draw.choice(CORPUS))
        for _ in range(draw.randint(0, 2)):
            _mutate(draw, data)
        payload = bytes(data[HEADER_BYTES:])
        count, base = draw.randint(1, 5), draw.choice((NOW, INT64_MIN + 5, INT64_MAX - 5))
        _same_for_both(payload, count, base)
        stopped += survey_pure.survey_records(payload, 0, 0, count, base)[0] < count
    assert 50 < stopped < 390


@quick
@given(batches_of_entries, codecs)
def test_what_our_producers_make_is_valid(
    entries: list[tuple[int, bytes, bytes, tuple[()]]], codec: Codec
) -> None:
    """Nothing that is made here is refused here."""
    assert code_of(encode_batch(entries, BatchOptions(codec=codec))) is ErrorCode.NONE


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("name", BROKEN)
def test_broken_records_are_invalid_whatever_they_are_compressed_with(
    name: str, codec: Codec
) -> None:
    """Each of them would stop a consumer, or give it other records than were counted (S-31)."""
    count, payload = BROKEN[name]

    assert code_of(batch_around(payload, count, codec)) is ErrorCode.INVALID_RECORD
    assert code_of(batch_around(record(), 1, codec)) is ErrorCode.NONE


@pytest.mark.parametrize("codec", CODECS[1:])
@pytest.mark.parametrize("how", SPOILED)
def test_what_does_not_decompress_is_corrupt(how: str, codec: Codec) -> None:
    """The checksum is over these very bytes, so it does not show this."""
    assert code_of(spoiled(codec, how)) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", CODECS)
def test_records_that_span_pieces_are_checked(codec: Codec) -> None:
    """Megabytes of decompressed data are never in memory as a whole."""
    entries = [(NOW + number, None, b"%d" % number * 90_000, ()) for number in range(60)]
    good = encode_batch(entries, BatchOptions(codec=codec))
    summary = validate_records(parse_batch(good), 32 << 20)
    payload = encode_batch(entries)[HEADER_BYTES:]

    assert summary == (NOW, NOW + 59, 0)
    assert len(list(record_facts(parse_batch(good), 32 << 20))) == 60
    assert code_of(batch_around(payload[:-1], 60, codec), 32 << 20) is ErrorCode.INVALID_RECORD
    assert code_of(batch_around(payload + b"x", 60, codec), 32 << 20) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_bomb_ends_at_the_limit_and_takes_little_memory(codec: Codec) -> None:
    """A record of 64 MiB of zeros, in a few kilobytes (N-04)."""
    size = 64 << 20
    bomb = sized(b"\x00\x00\x00\x01" + encode_varint(size) + bytes(size) + b"\x00")
    batch = parse_batch(batch_around(bomb, 1, codec))
    del bomb
    tracemalloc = importlib.import_module("tracemalloc")
    tracemalloc.start()
    try:
        with pytest.raises(KafkaError) as raised:
            validate_records(batch, size // 2)
        assert validate_records(batch, 2 * size).first_keyless == 0
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert raised.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert peak_bytes < 24 << 20


def test_a_lying_size_of_snappy_is_refused_before_it_is_believed() -> None:
    """Its blocks say what they grow to, and buffers are made by that."""
    good = bytearray(compress(Codec.SNAPPY, record()))
    good[20:21] = b"\xff\xff\xff\x7f"
    good[16:20] = (len(good) - 20).to_bytes(4)
    made = bytearray(batch_around(record(), 1)[:HEADER_BYTES]) + good
    made[8:12] = (len(made) - 12).to_bytes(4)
    made[22] = Codec.SNAPPY

    assert code_of(bytes(made)) is ErrorCode.CORRUPT_MESSAGE


def test_the_sample_is_valid() -> None:
    """Records of every shape."""
    for codec in CODECS:
        assert code_of(sample_batch(codec)) is ErrorCode.NONE
