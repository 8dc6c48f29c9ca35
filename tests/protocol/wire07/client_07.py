"""A client of Kafka 0.7, written from the documents alone: it shares no code with the product.

Offsets are positions: a consumer adds the sizes of the messages that it has read.
"""

from __future__ import annotations

import asyncio
import gzip
import struct
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from ottla.protocol.ports import Address

TIMEOUT_S = 90
LATEST, EARLIEST = -1, -2


def message_07(payload: bytes, magic: int = 0, attributes: int = 0) -> bytes:
    """Length, magic, in magic 1 attributes, CRC-32 of the payload, payload."""
    head = bytes([magic, attributes]) if magic else b"\0"
    body = head + struct.pack(">I", zlib.crc32(payload)) + payload
    return struct.pack(">i", len(body)) + body


def gzipped_07(*payloads: bytes) -> bytes:
    """A compressed message: its payload is a message set."""
    return message_07(gzip.compress(b"".join(map(message_07, payloads))), 1, 1)


def read_07(messages: bytes) -> tuple[list[bytes], int]:
    """The payloads, and how many bytes a consumer's offset advances by them."""
    payloads, position = [], 0
    while position + 4 <= len(messages):
        (length,) = struct.unpack_from(">i", messages, position)
        body = messages[position + 4 : position + 4 + length]
        if len(body) < length:
            break
        head = 1 if body[0] == 0 else 2
        (crc,) = struct.unpack_from(">I", body, head)
        assert zlib.crc32(body[head + 4 :]) == crc
        payloads.append(body[head + 4 :])
        position += 4 + length
    return payloads, position


def _topic(topic: str) -> bytes:
    return struct.pack(">h", len(topic)) + topic.encode()


def produce_part(topic: str, partition: int, messages: bytes) -> bytes:
    """What PRODUCE carries, and MULTIPRODUCE several times."""
    return _topic(topic) + struct.pack(">ii", partition, len(messages)) + messages


def fetch_part(topic: str, partition: int, offset: int, size: int = 1 << 20) -> bytes:
    """What FETCH carries, and MULTIFETCH several times."""
    return _topic(topic) + struct.pack(">iqi", partition, offset, size)


class Client07:
    """One connection, for ``async with``."""

    def __init__(self, address: Address | None) -> None:
        assert address is not None
        self._address = address
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def __aenter__(self) -> Client07:
        opening = asyncio.open_connection(self._address.host, self._address.port)
        self._reader, self._writer = await opening
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._writer is not None
        self._writer.close()

    def send(self, kind: int, body: bytes) -> None:
        """Send a request without waiting."""
        assert self._writer is not None
        self._writer.write(struct.pack(">ih", 2 + len(body), kind) + body)

    async def answer(self) -> bytes:
        """The next answer with its length. Raises EOFError when the broker has hung up."""
        assert self._reader is not None
        try:
            async with asyncio.timeout(TIMEOUT_S):
                length = await self._reader.readexactly(4)
                return length + await self._reader.readexactly(int.from_bytes(length))
        except (asyncio.IncompleteReadError, ConnectionResetError) as error:
            raise EOFError("the broker closed the connection") from error

    def produce(self, topic: str, messages: bytes, partition: int = 0) -> None:
        """PRODUCE has no answer."""
        self.send(0, produce_part(topic, partition, messages))

    async def fetch(
        self, topic: str, offset: int, size: int = 1 << 20, partition: int = 0
    ) -> tuple[int, bytes]:
        """The error and the message set."""
        self.send(1, fetch_part(topic, partition, offset, size))
        answer = await self.answer()
        return struct.unpack_from(">h", answer, 4)[0], answer[6:]

    async def multifetch(self, parts: Sequence[bytes]) -> list[tuple[int, bytes]]:
        """The error and the message set of each part, in order."""
        self.send(2, struct.pack(">h", len(parts)) + b"".join(parts))
        answer = await self.answer()
        assert struct.unpack_from(">h", answer, 4) == (0,)
        found, position = [], 6
        while position < len(answer):
            length, error = struct.unpack_from(">ih", answer, position)
            found.append((error, answer[position + 6 : position + 4 + length]))
            position += 4 + length
        return found

    async def offsets(
        self, topic: str, time: int, count: int = 1, partition: int = 0
    ) -> tuple[int, list[int]]:
        """The error and the positions, the largest first."""
        self.send(4, _topic(topic) + struct.pack(">iqi", partition, time, count))
        answer = await self.answer()
        error, number = struct.unpack_from(">hi", answer, 4)
        assert len(answer) == 10 + 8 * number
        return error, list(struct.unpack_from(f">{number}q", answer, 10))

    async def consume(
        self, topic: str, offset: int, size: int = 1 << 20, partition: int = 0
    ) -> tuple[list[bytes], int]:
        """All there is from an offset on, fetch by fetch, and the offset behind it."""
        payloads: list[bytes] = []
        while True:
            error, messages = await self.fetch(topic, offset, size, partition)
            assert error == 0
            read, advance = read_07(messages)
            if not read:
                assert not messages, "the first message does not fit"
                return payloads, offset
            payloads += read
            offset += advance
