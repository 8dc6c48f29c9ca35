"""The answers of one connection that have not left yet, in order.

Small pieces are joined while they wait, so that many answers leave in one call; a file region is
announced to the kernel as following at once (``more``) and handed over without being read.
"""

from __future__ import annotations

import errno
from collections import deque
from typing import TYPE_CHECKING

from ottla.protocol.ports import FileRegion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.protocol.ports import Buffer, Transport

# Up to this size a copy is cheaper than one more entry of a vectored write.
JOINED_BYTES_MAX = 16 * 1024
BUFFERS_PER_WRITE_MAX = 64
# One fast reader of a large answer must not keep the others waiting (fairness).
BYTES_PER_TURN_MAX = 4 * 1024 * 1024


class Output:
    """A queue of bytes and file regions. The connection bounds it, by not reading more requests."""

    __slots__ = ("_items", "_tail")

    def __init__(self) -> None:
        self._items: deque[Buffer | FileRegion] = deque()
        self._tail = bytearray()

    def __bool__(self) -> bool:
        return bool(self._tail) or bool(self._items)

    def add(self, prefix: bytes, parts: Sequence[Buffer | FileRegion]) -> None:
        """Queue one answer."""
        self._tail += prefix
        for part in parts:
            if part.__class__ is FileRegion:
                self._seal()
                if part.size_bytes:
                    self._items.append(part)
            elif len(part) <= JOINED_BYTES_MAX:
                self._tail += part  # type: ignore[arg-type]
            else:
                self._seal()
                self._items.append(part)

    def flush(self, transport: Transport) -> int:
        """Send what finds room; return the bytes sent. Empty afterwards, or the peer is slow.

        Raises OSError; a region that its file no longer has is one too: the length was already
        announced, so nothing that could follow would be understood (S-20)."""
        if not self._items:
            return self._flush_tail(transport)
        self._seal()
        total = 0
        while self._items and total < BYTES_PER_TURN_MAX:
            try:
                sent, is_blocked = self._send_first(transport)
            except BlockingIOError:
                break
            total += sent
            if is_blocked:
                break
        return total

    def clear(self) -> None:
        """Drop everything, and with it the references to files."""
        self._items.clear()
        self._tail = bytearray()

    def _seal(self) -> None:
        if self._tail:
            self._items.append(self._tail)
            self._tail = bytearray()

    def _flush_tail(self, transport: Transport) -> int:
        tail = self._tail
        if not tail:
            return 0
        try:
            sent = transport.write((tail,))
        except BlockingIOError:
            return 0
        self._tail = bytearray()
        if sent < len(tail):
            self._items.append(memoryview(tail)[sent:])
        return sent

    def _send_first(self, transport: Transport) -> tuple[int, bool]:
        """One call into the kernel: the bytes sent, and whether it took less than offered."""
        first = self._items[0]
        if isinstance(first, FileRegion):
            sent = first.write_to(transport)
            if sent == 0:
                raise OSError(errno.EIO, "a file region ended early", first.file.path)
            if sent == first.size_bytes:
                self._items.popleft()
                return sent, False
            self._items[0] = FileRegion(first.file, first.position + sent, first.size_bytes - sent)
            return sent, True
        return self._write_buffers(transport)

    def _write_buffers(self, transport: Transport) -> tuple[int, bool]:
        buffers: list[Buffer] = []
        offered = 0
        more = False
        for item in self._items:
            if isinstance(item, FileRegion) or len(buffers) == BUFFERS_PER_WRITE_MAX:
                more = True
                break
            buffers.append(item)
            offered += len(item)
        sent = transport.write(buffers, more=more)
        rest = sent
        for buffer in buffers:
            if rest < len(buffer):
                self._items[0] = memoryview(buffer)[rest:]
                break
            rest -= len(buffer)
            self._items.popleft()
        return sent, sent < offered
