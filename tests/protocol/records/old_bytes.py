"""A small writer of message sets of magic 0 and 1, independent of the product, for tests."""

from __future__ import annotations

import zlib
from typing import NamedTuple

from ottla.protocol.records.compression import Codec, compress

LOG_APPEND_TIME = 0x08


class Made(NamedTuple):
    """One message to be written. Magic 0 leaves the timestamp out."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def _field(content: bytes | None) -> bytes:
    return b"\xff\xff\xff\xff" if content is None else len(content).to_bytes(4) + content


def entry(magic: int, made: Made, attributes: int = 0) -> bytes:
    """One entry with a right size and a right checksum."""
    body = bytes([magic, attributes])
    if magic > 0:
        body += made.timestamp.to_bytes(8, signed=True)
    return enclose(made.offset, body + _field(made.key) + _field(made.value))


def enclose(offset: int, body: bytes) -> bytes:
    """Puts offset, size and checksum before the part that begins with the magic byte."""
    size = 4 + len(body)
    return offset.to_bytes(8, signed=True) + size.to_bytes(4) + zlib.crc32(body).to_bytes(4) + body


def message_set(magic: int, made: list[Made]) -> bytes:
    return b"".join(entry(magic, one) for one in made)


def wrapper(magic: int, made: list[Made], codec: Codec, attributes: int = 0) -> bytes:
    """A compressed set as a broker stores it: relative offsets inside from magic 1 on."""
    first, last = made[0].offset, made[-1].offset
    inner = [one._replace(offset=one.offset - first) for one in made] if magic else made
    timestamp = max(one.timestamp for one in made)
    return wrap(
        magic, Made(last, timestamp, None, message_set(magic, inner)), codec, attributes=attributes
    )


def wrap(magic: int, made: Made, codec: Codec, attributes: int = 0) -> bytes:
    """A wrapper around any bytes."""
    assert made.value is not None
    value = compress(codec, made.value)
    return entry(magic, made._replace(value=value), attributes | codec)
