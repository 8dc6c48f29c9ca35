"""The four codecs: round trips, foreign variants, torn data and bombs."""

from __future__ import annotations

import gzip
import struct
import sys
import tracemalloc
import zlib

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records.compression import Codec, compress, decompress
from ottla.protocol.records.xerial import HEADER
from ottla.protocol.records.zstd_frames import are_frames_whole
from tests.protocol.records.samples import code_of, codecs, quick

REAL_CODECS = [codec for codec in Codec if codec is not Codec.NONE]
MIB = 1024 * 1024
TEXT = b"".join(b"line %d of a log that compresses well\n" % number for number in range(9_000))

LEGAL_OUTCOMES = {ErrorCode.NONE, ErrorCode.CORRUPT_MESSAGE, ErrorCode.MESSAGE_TOO_LARGE}


def _outcome(codec: Codec, data: bytes | bytearray) -> ErrorCode:
    try:
        assert len(decompress(codec, data, MIB)) <= MIB
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


@quick
@given(codec=codecs, data=st.binary(max_size=5_000), repeat=st.integers(1, 60))
def test_round_trip_of_any_bytes(codec: Codec, data: bytes, repeat: int) -> None:
    """What one client compressed, another must get back, byte for byte."""
    whole = data * repeat
    compressed = compress(codec, memoryview(bytearray(whole)))

    assert decompress(codec, memoryview(compressed), len(whole)) == whole


@pytest.mark.parametrize("codec", Codec)
def test_limit_is_exact(codec: Codec) -> None:
    """One byte more than allowed is refused; exactly as much as allowed is not."""
    compressed = compress(codec, TEXT)

    assert decompress(codec, compressed, len(TEXT)) == TEXT
    for limit in (len(TEXT) - 1, 1, 0):
        with pytest.raises(KafkaError) as raised:
            decompress(codec, compressed, limit)
        assert code_of(raised.value) is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_every_torn_stream_is_corrupt(codec: Codec) -> None:
    """A stream that ends early must not pass for a short one."""
    data = bytes(range(256)) * 3
    compressed = compress(codec, data)

    # A xerial header without blocks is a whole stream of nothing.
    for size in set(range(len(compressed))) - {len(HEADER) if codec is Codec.SNAPPY else -1}:
        with pytest.raises(KafkaError) as raised:
            decompress(codec, compressed[:size])
        assert code_of(raised.value) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_bytes_after_the_stream_are_corrupt(codec: Codec) -> None:
    """Nothing may hide behind the records where other readers do not look."""
    with pytest.raises(KafkaError) as raised:
        decompress(codec, compress(codec, TEXT) + b"\x01hidden")

    assert code_of(raised.value) is ErrorCode.CORRUPT_MESSAGE


@quick
@given(codec=st.sampled_from(REAL_CODECS), data=st.binary(max_size=200))
def test_noise_is_an_error_and_nothing_else(codec: Codec, data: bytes) -> None:
    """Only KafkaError may come out of bytes that a peer made up."""
    assert _outcome(codec, data) in LEGAL_OUTCOMES


@quick
@given(data=st.data(), codec=st.sampled_from(REAL_CODECS))
def test_damaged_streams_are_errors_or_bounded_output(data: st.DataObject, codec: Codec) -> None:
    """A mutation near a valid stream reaches deeper into the decoders than noise does."""
    compressed = bytearray(compress(codec, TEXT[:2_000]))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(compressed) - 1))
        compressed[place] = data.draw(st.integers(0, 255))
    assert _outcome(codec, compressed) in LEGAL_OUTCOMES


def _zstd_bomb() -> bytes:
    return zstandard.ZstdCompressor(level=19).compress(bytes(64 * MIB))


BOMBS = {
    "gzip": (Codec.GZIP, gzip.compress(bytes(64 * MIB))),
    "gzip in members": (Codec.GZIP, gzip.compress(bytes(4 * MIB)) * 16),
    "lz4": (Codec.LZ4, lz4.frame.compress(bytes(64 * MIB), block_size=7)),
    "lz4 with declared size": (Codec.LZ4, lz4.frame.compress(bytes(64 * MIB), store_size=True)),
    "zstd with declared size": (Codec.ZSTD, _zstd_bomb()),
    "zstd without": (
        Codec.ZSTD,
        zstandard.ZstdCompressor(write_content_size=False).compress(bytes(64 * MIB)),
    ),
    "zstd in frames": (Codec.ZSTD, zstandard.compress(bytes(4 * MIB)) * 16),
    "snappy": (Codec.SNAPPY, compress(Codec.SNAPPY, bytes(64 * MIB))),
    "snappy in one block": (Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(bytes(64 * MIB)))),
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_stop_at_the_limit_and_take_no_more_memory(name: str) -> None:
    """N-04: 64 MiB out of a few KiB, a limit of 1 MiB, and memory near the limit."""
    codec, bomb = BOMBS[name]
    tracemalloc.start()
    try:
        with pytest.raises(KafkaError) as raised:
            decompress(codec, bomb, MIB)
        _now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert code_of(raised.value) is ErrorCode.MESSAGE_TOO_LARGE
    assert peak < 6 * MIB


@pytest.mark.parametrize("framed", [False, True])
def test_snappy_block_that_claims_the_impossible_allocates_nothing(framed: bool) -> None:
    """CVE-2023-43642: five bytes that claim 2 GiB are refused by arithmetic, not by malloc."""
    block = b"\xff\xff\xff\xff\x07" + b"\x00" * 20
    data = HEADER + struct.pack(">i", len(block)) + block if framed else block

    tracemalloc.start()
    try:
        with pytest.raises(KafkaError) as raised:
            decompress(Codec.SNAPPY, data, sys.maxsize)
        _now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert code_of(raised.value) is ErrorCode.CORRUPT_MESSAGE
    assert peak < MIB


@pytest.mark.parametrize("length", [-1, 0, 2**31 - 1])
def test_xerial_lengths_are_checked(length: int) -> None:
    """CVE-2023-34455: a chunk length is compared with the bytes that are there."""
    data = HEADER + struct.pack(">i", length) + b"\x05\x10hello"

    with pytest.raises(KafkaError) as raised:
        decompress(Codec.SNAPPY, data)

    assert code_of(raised.value) is ErrorCode.CORRUPT_MESSAGE


def test_snappy_is_written_in_xerial_blocks() -> None:
    """Java's reader expects the container and allocates for blocks of 32 KiB."""
    compressed = compress(Codec.SNAPPY, bytes(70_000))

    assert compressed.startswith(bytes.fromhex("82534e41505059000000000100000001"))
    (first_length,) = struct.unpack_from(">i", compressed, 16)
    first_block = compressed[20 : 20 + first_length]
    assert len(bytes(cramjam.snappy.decompress_raw(first_block))) == 32 * 1024


def test_snappy_without_a_container_is_read() -> None:
    """librdkafka and franz-go send one bare block."""
    block = bytes(cramjam.snappy.compress_raw(TEXT))

    assert decompress(Codec.SNAPPY, block, len(TEXT)) == TEXT


def test_lz4_is_written_in_independent_blocks_of_64_kib() -> None:
    """Java refuses linked blocks, which are the library's default."""
    compressed = compress(Codec.LZ4, TEXT)

    assert compressed[:6] == bytes.fromhex("04224d18") + bytes((0x60, 0x40))


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("sized", [False, True])
def test_every_lz4_frame_is_read(linked: bool, checksum: bool, sized: bool) -> None:
    """Other clients choose other flags; also frames one after the other."""
    frame = lz4.frame.compress(
        TEXT, block_linked=linked, content_checksum=checksum, store_size=sized
    )

    assert decompress(Codec.LZ4, frame + frame) == TEXT + TEXT


def test_gzip_members_are_one_stream() -> None:
    """RFC 1952 allows concatenation, and some producers flush that way."""
    members = gzip.compress(TEXT[:100]) + gzip.compress(b"") + gzip.compress(TEXT[100:])

    assert decompress(Codec.GZIP, members) == TEXT


def test_gzip_checksum_is_verified() -> None:
    """The trailer is the only thing that tells a damaged stored block."""
    compressed = bytearray(gzip.compress(TEXT))
    compressed[-8] ^= 1

    with pytest.raises(KafkaError):
        decompress(Codec.GZIP, compressed)


def test_zlib_and_raw_deflate_are_not_gzip() -> None:
    """Java's reader accepts gzip only; accepting more would store what others cannot read."""
    with pytest.raises(KafkaError):
        decompress(Codec.GZIP, zlib.compress(TEXT))


@pytest.mark.parametrize(
    ("level", "sized", "checksum"),
    [(-5, False, False), (3, False, True), (3, True, True), (9, True, False), (22, False, False)],
)
def test_every_zstd_frame_is_read(level: int, sized: bool, checksum: bool) -> None:
    """Streaming producers leave the size out; level 22 wants a 128 MiB window."""
    compressor = zstandard.ZstdCompressor(
        level=level, write_content_size=sized, write_checksum=checksum
    )
    frame = compressor.compress(TEXT)
    streamed = compressor.compressobj()
    pieces = streamed.compress(TEXT) + streamed.flush()

    assert decompress(Codec.ZSTD, frame + pieces, 2 * len(TEXT)) == TEXT + TEXT


def test_zstd_window_beyond_what_anyone_writes_is_refused() -> None:
    """A 2 GiB window is memory that the peer asks us to set aside."""
    parameters = zstandard.ZstdCompressionParameters(window_log=30, compression_level=1)
    compressor = zstandard.ZstdCompressor(compression_params=parameters)
    streamed = compressor.compressobj()
    frame = streamed.compress(TEXT) + streamed.flush()

    with pytest.raises(KafkaError) as raised:
        decompress(Codec.ZSTD, frame)

    assert code_of(raised.value) is ErrorCode.CORRUPT_MESSAGE


@quick
@given(data=st.binary(max_size=400), repeat=st.integers(1, 2_000), checksum=st.booleans())
def test_zstd_frame_ends_are_found(data: bytes, repeat: int, checksum: bool) -> None:
    """The walk over block headers and the library agree on where frames end."""
    frame = zstandard.ZstdCompressor(write_checksum=checksum).compress(data * repeat)

    assert are_frames_whole(memoryview(frame))
    assert are_frames_whole(memoryview(frame + frame))
    assert not are_frames_whole(memoryview(frame[:-1]))
    assert not are_frames_whole(memoryview(frame + b"\0"))


def test_level_changes_the_effort() -> None:
    """``compression.gzip.level`` and its siblings (KIP-390) reach the codec."""
    for codec, low, high in ((Codec.GZIP, 1, 9), (Codec.LZ4, 0, 12), (Codec.ZSTD, -50, 3)):
        assert len(compress(codec, TEXT, high)) < len(compress(codec, TEXT, low))
