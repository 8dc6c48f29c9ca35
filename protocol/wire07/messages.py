"""Messages of Kafka 0.7 to and from bytes. Pure.

An entry is: int32 length of what follows, int8 magic, in magic 1 int8 attributes, CRC-32 of the
payload, payload. Bits 0 and 1 of the attributes are the codec (0 none, 1 gzip, 2 snappy); the
payload of a compressed message is a set of messages. A set is entries back to back, on the wire as
in the files of 0.7. An entry has neither offset nor key: its place in the stream of bytes is its
offset.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.records.compression import OUTPUT_BYTES_MAX, Codec, compress, decompress

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ottla.protocol.ports import Buffer

_LENGTH = struct.Struct(">i")
LENGTH_BYTES = _LENGTH.size
_HEADS = (struct.Struct(">ibI"), struct.Struct(">ibBI"))
# The length of an entry of magic 0 without a payload.
_LENGTH_MIN = _HEADS[0].size - LENGTH_BYTES
# Of an entry of magic 1 beside its payload: length, magic, attributes, checksum.
OVERHEAD_BYTES = _HEADS[1].size
_CODECS = {0: Codec.NONE, 1: Codec.GZIP, 2: Codec.SNAPPY}


class Message07(NamedTuple):
    """One message; ``attributes`` is 0 in magic 0, which has none."""

    magic: int
    attributes: int
    crc: int
    payload: memoryview

    @property
    def codec(self) -> Codec:
        """Raises KafkaError(CORRUPT_MESSAGE) for a codec or a bit that 0.7 does not know."""
        codec = _CODECS.get(self.attributes)
        if codec is None:
            raise _corrupt(f"0.7 has no meaning for the attributes {self.attributes:#04x}")
        return codec


def encode_message(payload: Buffer, codec: Codec | None = None) -> bytes:
    """One entry: of magic 0, or with a codec, which may be NONE, of magic 1.

    The payload of a compressed message is its set, already compressed."""
    crc = zlib.crc32(payload)
    if codec is None:
        return _HEADS[0].pack(_LENGTH_MIN + len(payload), 0, crc) + payload
    head = _HEADS[1]
    return head.pack(head.size - LENGTH_BYTES + len(payload), 1, codec, crc) + payload


def encode_compressed(payloads: Iterable[Buffer], codec: Codec) -> bytes:
    """Payloads as one compressed message. Raises KafkaError(UNSUPPORTED_COMPRESSION_TYPE)."""
    return encode_message(compress(codec, b"".join(map(encode_message, payloads))), codec)


def decode_set(buffer: Buffer) -> Iterator[Message07]:
    """The messages of a set; one that is cut off at the end is left out without an error (NET-31).

    Raises KafkaError(CORRUPT_MESSAGE) while iterating, also for a wrong checksum."""
    view = memoryview(buffer)
    while len(view) >= LENGTH_BYTES:
        (length,) = _LENGTH.unpack_from(view)
        if length < _LENGTH_MIN:
            raise _corrupt(f"a message gives its size as {length} bytes")
        if length > len(view) - LENGTH_BYTES:
            return
        yield _message(view[: LENGTH_BYTES + length])
        view = view[LENGTH_BYTES + length :]


def _message(entry: memoryview) -> Message07:
    magic = entry[LENGTH_BYTES]
    if magic >= len(_HEADS):
        raise _corrupt(f"0.7 has no magic {magic}")
    head = _HEADS[magic]
    if len(entry) < head.size:
        raise _corrupt(f"a message of magic 1 gives its size as {len(entry) - LENGTH_BYTES} bytes")
    *attributes, crc = head.unpack_from(entry)[2:]
    payload = entry[head.size :]
    if zlib.crc32(payload) != crc:
        raise _corrupt("the checksum of a message is wrong")
    return Message07(magic, attributes[0] if attributes else 0, crc, payload)


class Payloads07(NamedTuple):
    """What a set carries: the payloads in order, and the codec of its first compressed message."""

    payloads: list[memoryview]
    codec: Codec


def decode_payloads(
    buffer: Buffer, output_limit_bytes: int = OUTPUT_BYTES_MAX, count_max: int = 2**31
) -> Payloads07:
    """All payloads of a set, also those in compressed messages.

    Raises KafkaError: CORRUPT_MESSAGE, and what ``decompress`` raises, such as MESSAGE_TOO_LARGE
    above ``output_limit_bytes`` in all, and MESSAGE_TOO_LARGE above ``count_max`` payloads."""
    payloads: list[memoryview] = []
    found = Codec.NONE
    left_bytes = output_limit_bytes
    for message in decode_set(buffer):
        codec = message.codec
        if len(payloads) >= count_max:
            raise _too_many(count_max)
        if codec is Codec.NONE:
            payloads.append(message.payload)
            continue
        found = found or codec
        content = decompress(codec, message.payload, left_bytes)
        left_bytes -= len(content)
        for inner in decode_set(content):
            if inner.codec is not Codec.NONE:
                raise _corrupt("a compressed message is inside a compressed message")
            if len(payloads) >= count_max:
                raise _too_many(count_max)
            payloads.append(inner.payload)
    return Payloads07(payloads, found)


def _too_many(count_max: int) -> KafkaError:
    return KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"a set has more than {count_max} messages")


def _corrupt(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, reason)
