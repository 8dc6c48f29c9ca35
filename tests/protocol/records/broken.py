"""Batches whose records are broken in one way each, under right headers and checksums."""

from __future__ import annotations

from ottla.protocol.records.batch import HEADER, HEADER_BYTES, MAGIC, refresh_crc
from ottla.protocol.records.compression import Codec, compress
from ottla.protocol.records.varint import encode_varint

NOW = 1_700_000_000_000


def sized(content: bytes) -> bytes:
    """The content behind its length."""
    return encode_varint(len(content)) + content


def record(number: int = 0, tail: bytes = b"\x00", *, delta: bytes = b"\x00") -> bytes:
    """A record with key k and value v; ``tail`` is its number of headers and they."""
    return sized(b"\x00" + delta + encode_varint(number) + sized(b"k") + sized(b"v") + tail)


_START = b"\x00\x00\x00"

# By what is wrong: the number of records that the header says, and the records.
BROKEN: dict[str, tuple[int, bytes]] = {
    "fewer records than counted": (2, record()),
    "far fewer records than counted": (1_000, record()),
    "more records than counted": (1, record(0) + record(1)),
    "no records at all": (1, b""),
    "a record cut short": (1, record()[:-2]),
    "a length beyond the batch": (1, encode_varint(100) + record()[1:]),
    "a length that is too short": (1, encode_varint(3) + record()[1:]),
    "a length of 0": (1, encode_varint(0)),
    "a negative length": (1, encode_varint(-1)),
    "a key that overruns its record": (1, sized(_START + encode_varint(500) + b"abcde")),
    "a value that overruns its record": (1, sized(_START + b"\x01" + encode_varint(9) + b"v\x00")),
    "a key of -2 bytes": (1, sized(_START + encode_varint(-2) + b"\x01\x00")),
    "a value of -2 bytes": (1, sized(_START + b"\x01" + encode_varint(-2) + b"\x00")),
    "-1 headers": (1, record(0, encode_varint(-1))),
    "more headers than bytes": (1, record(0, encode_varint(5_000))),
    "a header without a key": (1, record(0, b"\x02" + encode_varint(-1) + b"\x01")),
    "a header value that overruns": (1, record(0, b"\x02" + sized(b"h") + encode_varint(40))),
    "bytes behind the fields": (1, record(0, b"\x00abc")),
    "bytes behind the records": (1, record() + b"abc"),
    "an offset delta of 5": (1, record(5)),
    "the same offset twice": (2, record(0) + record(0)),
    "offsets the wrong way round": (2, record(1) + record(0)),
    "a length that never ends": (1, b"\xff" * 12),
    "a length of six bytes": (1, b"\x90\x80\x80\x80\x80\x00" + record()[1:]),
    "a key size of six bytes": (1, sized(_START + b"\x82\x80\x80\x80\x80\x00" + b"k\x01\x00")),
    "a timestamp delta of eleven bytes": (1, record(delta=b"\x80" * 10 + b"\x00")),
    "a timestamp beyond 64 bits": (1, record(delta=encode_varint(2**63 - 1))),
}


def batch_around(
    payload: bytes, count: int = 1, codec: Codec = Codec.NONE, *, attributes: int = 0
) -> bytes:
    """A batch with the right checksum around these records, as ``codec`` makes them."""
    body = compress(codec, payload)
    made = bytearray(HEADER_BYTES) + body
    HEADER.pack_into(
        made,
        0,
        0,
        len(made) - 12,
        -1,
        MAGIC,
        0,
        codec | attributes,
        count - 1,
        NOW,
        NOW,
        -1,
        -1,
        -1,
        count,
    )
    refresh_crc(made, 0)
    return bytes(made)


def spoiled(codec: Codec, how: str) -> bytes:
    """A batch whose checksum is right and whose compressed data is not."""
    whole = compress(codec, b"".join(record(number) for number in range(50)))
    bodies = {
        "garbage": b"\xff\xfenot compressed",
        "nothing": b"",
        "cut short": whole[:-9],
        "garbage behind it": whole + b"\xffgarbage",
        "records as they are": record() * 50,
    }
    made = bytearray(batch_around(b"", 50)[:HEADER_BYTES] + bodies[how])
    made[8:12] = (len(made) - 12).to_bytes(4)
    made[22] = codec
    refresh_crc(made, 0)
    return bytes(made)


SPOILED = ("garbage", "nothing", "cut short", "garbage behind it", "records as they are")
