"""Where one message ends and the next begins on a byte stream.

A listener chooses its framing, and the network asks it alone; nothing else knows how frames are
delimited. Kafka's is four bytes of length, big-endian, in front of each request and response.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Protocol

from ottla.protocol.errors import RemoteProtocolError

if TYPE_CHECKING:
    from ottla.protocol.ports import Buffer

_LENGTH = Struct(">i")
_length_at = _LENGTH.unpack_from

FRAME_BYTES_MAX = 104_857_600  # Kafka's default of socket.request.max.bytes


class Framing(Protocol):
    """How requests are cut out of a stream, and what goes in front of an answer."""

    @property
    def prefix_bytes(self) -> int:
        """Bytes of a whole frame that come before its content."""

    def measure(self, buffer: Buffer, start: int, end: int) -> int:
        """The length, prefix included, of the frame that begins at ``start``; it may reach beyond
        ``end``, where the received bytes stop. 0 means that more bytes are needed to tell.

        Raises RemoteProtocolError when no frame can begin like this."""

    def prefix(self, content_bytes: int) -> bytes:
        """What is sent in front of an answer of that length."""


class KafkaFraming:
    """A signed 32-bit length, then the content.

    The length is a claim of the connecting peer: text sent to the wrong port ("GET ") claims more
    than a gigabyte, a TLS hello hundreds of megabytes (N-01). Nothing is ever allocated for a
    claim, and one above the limit ends the connection."""

    __slots__ = ("_frame_bytes_max",)

    prefix_bytes = 4

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._frame_bytes_max = frame_bytes_max

    def measure(self, buffer: Buffer, start: int, end: int) -> int:
        if end - start < 4:
            return 0
        length: int = _length_at(buffer, start)[0]
        if 0 <= length <= self._frame_bytes_max:
            return length + 4
        raise RemoteProtocolError(
            f"a frame of {length} bytes was announced, the limit is {self._frame_bytes_max}"
        )

    def prefix(self, content_bytes: int) -> bytes:
        return _LENGTH.pack(content_bytes)
