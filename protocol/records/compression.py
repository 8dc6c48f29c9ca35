"""The four codecs of record batches, with decompression that a peer cannot use as a bomb.

Output is made in pieces and counted as it comes, so memory follows what was really produced and
never what a header claims (hazard N-04: a megabyte of input may stand for ten gigabytes). The
libraries are imported at the first batch that needs them, which keeps the start short.
Compressors release the GIL; large inputs belong in a worker all the same (gzip: 70 ms per MiB).
"""

from __future__ import annotations

import importlib
import zlib
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING, Any

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.records import xerial, zstd_frames

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ottla.protocol.ports import Buffer


class Codec(IntEnum):
    """Bits 0-2 of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


CODECS = tuple(Codec)

Piece = bytes | bytearray
"""Of what was decompressed."""

# The most one batch may grow to unless the caller says less.
OUTPUT_BYTES_MAX = 256 * 1024 * 1024

_PIECE_BYTES_MIN = 64 * 1024
_PIECE_BYTES_MAX = 4 * 1024 * 1024
# What text compresses to: enough output for one piece to do in the usual case.
_USUAL_RATIO = 8
_GZIP_WINDOW = 16 + zlib.MAX_WBITS
# The largest window that Kafka's own writer uses (level 22); the library refuses larger ones.
# It reserves the window but only touches what it fills.
_ZSTD_WINDOW_BYTES_MAX = 1 << 27
# A decompressor keeps the memory of the largest window that it had: few are kept, and small ones.
_ZSTD_KEPT_BYTES_MAX = 1 << 23
_ZSTD_KEPT_MAX = 4


class _Output:
    """Says how much to ask a decompressor for, and stops it at the limit."""

    __slots__ = ("_left_bytes", "_piece_bytes")

    def __init__(self, limit_bytes: int, input_bytes: int) -> None:
        self._left_bytes = limit_bytes
        usual = max(_PIECE_BYTES_MIN, min(_PIECE_BYTES_MAX, input_bytes * _USUAL_RATIO))
        self._piece_bytes = usual

    def next_piece_bytes(self) -> int:
        """How much to ask for next: never 0, and at most one byte beyond the limit."""
        return min(self._piece_bytes, self._left_bytes + 1)

    def count(self, size_bytes: int) -> None:
        self._left_bytes -= size_bytes
        if self._left_bytes < 0:
            raise _too_large()


def _too_large() -> KafkaError:
    return KafkaError(
        ErrorCode.MESSAGE_TOO_LARGE, "the records of a batch decompress to more than is allowed"
    )


def _malformed(codec: Codec, error: Exception | str) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"malformed {codec.name.lower()} data: {error}")


@cache
def _library(name: str, codec: Codec) -> Any:
    """The module that does a codec's work, imported at its first use."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"{codec.name.lower()} needs the package that provides {name}",
        ) from error


def _compress_gzip(data: Buffer, level: int | None) -> bytes:
    compressor = zlib.compressobj(
        zlib.Z_DEFAULT_COMPRESSION if level is None else level, zlib.DEFLATED, _GZIP_WINDOW
    )
    return compressor.compress(data) + compressor.flush()


def _decompress_gzip(data: memoryview, output: _Output) -> Iterator[Piece]:
    """RFC 1952: several members one after the other are one stream."""
    rest: Buffer = data
    try:
        while True:
            member = zlib.decompressobj(_GZIP_WINDOW)
            while not member.eof:
                piece = member.decompress(rest, output.next_piece_bytes())
                rest = member.unconsumed_tail
                if not piece and not rest and not member.eof:
                    raise _malformed(Codec.GZIP, "it ends too early")
                output.count(len(piece))
                yield piece
            rest = member.unused_data
            if not rest:
                return
    except zlib.error as error:
        raise _malformed(Codec.GZIP, error) from error


def _compress_snappy(data: Buffer, level: int | None) -> bytes:
    compress_raw = _library("cramjam", Codec.SNAPPY).snappy.compress_raw
    view = memoryview(data)
    parts: list[bytes] = [xerial.HEADER]
    for start in range(0, len(view), xerial.BLOCK_INPUT_BYTES):
        block = bytes(compress_raw(view[start : start + xerial.BLOCK_INPUT_BYTES]))
        parts += (xerial.pack_block(block), block)
    return b"".join(parts)


def _decompress_snappy(data: memoryview, output: _Output) -> Iterator[Piece]:
    library = _library("cramjam", Codec.SNAPPY)
    blocks = xerial.split_blocks(data)
    sizes = [xerial.block_output_bytes(block) for block in blocks]
    output.count(sum(sizes))
    try:
        for start, stop in _runs(sizes):
            piece = bytearray(sum(sizes[start:stop]))
            view, position = memoryview(piece), 0
            for block, size in zip(blocks[start:stop], sizes[start:stop], strict=True):
                library.snappy.decompress_raw_into(block, view[position : position + size])
                position += size
            yield piece
    except library.DecompressionError as error:
        raise _malformed(Codec.SNAPPY, error) from error


def _runs(sizes: list[int]) -> Iterator[tuple[int, int]]:
    """Where to cut, so that parts add up to a piece, or are one that is larger."""
    start, total = 0, 0
    for stop, size in enumerate(sizes):
        if total and total + size > _PIECE_BYTES_MAX:
            yield start, stop
            start, total = stop, 0
        total += size
    yield start, len(sizes)


def _compress_lz4(data: Buffer, level: int | None) -> bytes:
    """Independent blocks: Java's reader refuses linked ones, which is the library's default."""
    library = _library("lz4.frame", Codec.LZ4)
    compressed: bytes = library.compress(
        data,
        compression_level=0 if level is None else level,
        block_linked=False,
        store_size=False,
        content_checksum=False,
    )
    return compressed


def _decompress_lz4(data: memoryview, output: _Output) -> Iterator[Piece]:
    library = _library("lz4.frame", Codec.LZ4)
    context = library.create_decompression_context()
    rest = data
    try:
        while True:
            piece, consumed, is_end = library.decompress_chunk(
                context, rest, max_length=output.next_piece_bytes()
            )
            output.count(len(piece))
            yield piece
            rest = rest[consumed:]
            if is_end and not rest:
                return
            if not piece and not consumed:
                raise _malformed(Codec.LZ4, "it ends too early")
    except (RuntimeError, ValueError) as error:
        raise _malformed(Codec.LZ4, error) from error


def _compress_zstd(data: Buffer, level: int | None) -> bytes:
    library = _library("zstandard", Codec.ZSTD)
    compressed: bytes = library.ZstdCompressor(level=3 if level is None else level).compress(data)
    return compressed


def _decompress_zstd(data: memoryview, output: _Output) -> Iterator[Piece]:
    """The library's own output limit is void where a frame declares its size: read in pieces."""
    library = _library("zstandard", Codec.ZSTD)
    if not zstd_frames.are_frames_whole(data):
        raise _malformed(Codec.ZSTD, "it is not a sequence of whole frames")
    decompressor = _zstd_decompressor()
    reader = decompressor.stream_reader(data, read_across_frames=True)
    try:
        while piece := reader.read(output.next_piece_bytes()):
            output.count(len(piece))
            yield piece
        window_bytes = library.get_frame_parameters(data).window_size
    except library.ZstdError as error:
        raise _malformed(Codec.ZSTD, error) from error
    idle = _idle_zstd()
    # Of several frames, a later one might have had a larger window.
    is_small = window_bytes <= _ZSTD_KEPT_BYTES_MAX and zstd_frames.is_one_frame(data)
    if is_small and len(idle) < _ZSTD_KEPT_MAX:
        idle.append(decompressor)


def _zstd_decompressor() -> Any:
    try:
        return _idle_zstd().pop()
    except IndexError:
        library = _library("zstandard", Codec.ZSTD)
        return library.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES_MAX)


@cache
def _idle_zstd() -> list[Any]:
    """Decompressors kept for reuse. Making one takes ten times as long as a small batch does."""
    return []


class _Coder(NamedTuple):
    compress: Callable[[Buffer, int | None], bytes]
    decompress: Callable[[memoryview, _Output], Iterator[Piece]]


_CODERS = {
    Codec.GZIP: _Coder(_compress_gzip, _decompress_gzip),
    Codec.SNAPPY: _Coder(_compress_snappy, _decompress_snappy),
    Codec.LZ4: _Coder(_compress_lz4, _decompress_lz4),
    Codec.ZSTD: _Coder(_compress_zstd, _decompress_zstd),
}


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """The data in a codec's form, as every Kafka client reads it. No level: the codec's usual.

    Raises KafkaError(UNSUPPORTED_COMPRESSION_TYPE) when the codec's library is missing."""
    if codec is Codec.NONE:
        return bytes(data)
    return _CODERS[codec].compress(data, level)


def decompress(codec: Codec, data: Buffer, limit_bytes: int = OUTPUT_BYTES_MAX) -> bytes:
    """What the data stands for, at most ``limit_bytes``.

    Raises KafkaError: CORRUPT_MESSAGE for what no compressor made or what is not all there,
    MESSAGE_TOO_LARGE beyond the limit, UNSUPPORTED_COMPRESSION_TYPE without the library."""
    if codec is Codec.NONE:
        if len(data) > limit_bytes:
            raise _too_large()
        return bytes(data)
    return b"".join(decompress_pieces(codec, data, limit_bytes))


def decompress_pieces(codec: Codec, data: Buffer, limit_bytes: int) -> Iterator[Piece]:
    """As ``decompress`` for a codec other than NONE, piece by piece: of at most 4 MiB, or of what
    one block of snappy holds. Pieces may be empty. Raises while iterating."""
    view = memoryview(data)
    return _CODERS[codec].decompress(view, _Output(limit_bytes, len(view)))
