"""The answers of one connection: in the order of its requests, whenever they are given.

Small pieces are joined while they wait, so that many answers leave in one call; a file region is
announced to the kernel as following at once (``more``) and handed over without being read.
"""

from __future__ import annotations

import errno
from collections import deque
from typing import TYPE_CHECKING

from ottla.broker.network.request import END_CONNECTION
from ottla.protocol.ports import FileRegion

if TYPE_CHECKING:
    from ottla.broker.network.request import Request
    from ottla.protocol.frames import Framing
    from ottla.protocol.ports import Buffer, Transport

# Up to this size a copy is cheaper than one more entry of a vectored write.
JOINED_BYTES_MAX = 16 * 1024
BUFFERS_PER_WRITE_MAX = 64
# One fast reader of a large answer must not keep the others waiting (fairness).
BYTES_PER_TURN_MAX = 4 * 1024 * 1024


class Output:
    """``pipeline`` has the requests that are not answered, and those behind them; what was taken
    from it is a queue of bytes and file regions. The connection bounds both, by not reading."""

    __slots__ = ("_items", "_prefix", "_tail", "has_ended", "is_in_region", "pipeline")

    def __init__(self, framing: Framing) -> None:
        self.pipeline: deque[Request] = deque()
        # A request has asked for the end of the connection, and all before it are answered.
        self.has_ended = False
        # The first item is a region that the kernel has not taken whole.
        self.is_in_region = False
        self._prefix = framing.prefix
        self._items: deque[Buffer | FileRegion] = deque()
        self._tail = bytearray()

    def __bool__(self) -> bool:
        return bool(self._tail) or bool(self._items)

    def collect(self) -> int:
        """Queue the answers whose turn has come; return how many."""
        pipeline = self.pipeline
        make_prefix = self._prefix
        tail = self._tail
        count = 0
        while pipeline:
            request = pipeline[0]
            parts = request.parts
            if parts is None:
                break
            pipeline.popleft()
            if not parts:
                continue
            if parts is END_CONNECTION:
                # What was asked after it gets no answer, whenever that comes.
                pipeline.clear()
                self.has_ended = True
                break
            count += 1
            tail += make_prefix(request.size_bytes)
            for part in parts:
                if isinstance(part, FileRegion) or len(part) > JOINED_BYTES_MAX:
                    self._seal()
                    self._items.append(part)
                    tail = self._tail
                else:
                    tail += part
        return count

    def flush(self, transport: Transport) -> int:
        """Send what finds room; return the bytes sent. Empty afterwards, or the peer is slow.

        Raises OSError; a region that its file no longer has is one too: the length was already
        announced, so nothing that could follow would be understood (S-20)."""
        total = 0
        if not self._items:
            # Nearly always: small answers, and a peer that takes them at once.
            tail = self._tail
            if not tail:
                return 0
            try:
                total = transport.write((tail,))
            except BlockingIOError:
                return 0
            self._tail = bytearray()
            if total < len(tail):
                self._items.append(memoryview(tail)[total:])
            return total
        self._seal()
        is_blocked = False
        while self._items and total < BYTES_PER_TURN_MAX and not is_blocked:
            send = self.send_region if isinstance(self._items[0], FileRegion) else self._send_bytes
            sent, is_blocked = send(transport)
            total += sent
        return total

    def clear(self) -> None:
        """Drop everything, and with it the references to files."""
        self.pipeline.clear()
        self._items.clear()
        self.is_in_region = False
        self._tail = bytearray()

    def _seal(self) -> None:
        if self._tail:
            self._items.append(self._tail)
            self._tail = bytearray()

    def send_region(self, transport: Transport) -> tuple[int, bool]:
        """Bytes sent of the file region that is first, and whether the peer takes no more.

        What the kernel took in part is not offered again before it says that there is room: it
        would read the pages first, and find none. HOT. Raises OSError."""
        region = self._items[0]
        assert region.__class__ is FileRegion
        file, position, size_bytes = region
        try:
            sent = transport.transfer_from(file, position, size_bytes)
        except BlockingIOError:
            self.is_in_region = True
            return 0, True
        if sent == size_bytes:
            self._items.popleft()
            self.is_in_region = False
            return sent, False
        if sent == 0:
            raise OSError(errno.EIO, "a file region ended early", file.path)
        self._items[0] = FileRegion(file, position + sent, size_bytes - sent)
        self.is_in_region = True
        return sent, True

    def _send_bytes(self, transport: Transport) -> tuple[int, bool]:
        """As ``send_region``, for the buffers before the next region."""
        items = self._items
        first, more = items[0], len(items) > 1
        if not more or items[1].__class__ is FileRegion:
            # Nearly always: the head of an answer before its records, or the end behind them.
            assert not isinstance(first, FileRegion)
            try:
                sent = transport.write((first,), more=more)
            except BlockingIOError:
                return 0, True
            if sent == len(first):
                items.popleft()
                return sent, False
            items[0] = memoryview(first)[sent:]
            return sent, True
        buffers: list[Buffer] = []
        offered = 0
        more = False
        for item in self._items:
            if isinstance(item, FileRegion) or len(buffers) == BUFFERS_PER_WRITE_MAX:
                more = True
                break
            buffers.append(item)
            offered += len(item)
        try:
            sent = transport.write(buffers, more=more)
        except BlockingIOError:
            return 0, True
        rest = sent
        for buffer in buffers:
            if rest < len(buffer):
                self._items[0] = memoryview(buffer)[rest:]
                break
            rest -= len(buffer)
            self._items.popleft()
        return sent, sent < offered
