"""Two connected sockets without a kernel, which take and give as few bytes as a test wants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.ports import Address

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.protocol.ports import Buffer, File


class Pipe:
    """One direction. ``room``: how many bytes it holds at most."""

    def __init__(self, room: int) -> None:
        self.content = bytearray()
        self.room = room
        self.has_ended = False
        self.takes: list[int] = []
        self.announced: list[bool] = []


class MemorySocket:
    """``cut`` says how many bytes the next call moves at most."""

    def __init__(self, inbox: Pipe, outbox: Pipe, cut: Callable[[], int]) -> None:
        self.inbox = inbox
        self.outbox = outbox
        self.cut = cut
        self.reader: Callable[[], object] | None = None
        self.writer: Callable[[], object] | None = None
        self.is_closed = False

    @property
    def local(self) -> Address:
        return Address("127.0.0.1", 1)

    @property
    def peer(self) -> Address:
        return Address("127.0.0.1", 2)

    def recv_into(self, buffer: memoryview) -> int:
        content = self.inbox.content
        if not content:
            if self.inbox.has_ended:
                return 0
            raise BlockingIOError
        part = bytes(content[: min(self.cut(), len(buffer))])
        del content[: len(part)]
        buffer[: len(part)] = part
        return len(part)

    def sendmsg(self, buffers: Sequence[Buffer], *, more: bool = False) -> int:
        offered = b"".join(buffers)
        part = offered[: min(self.cut(), self.outbox.room - len(self.outbox.content))]
        if not part:
            raise BlockingIOError
        self.outbox.content += part
        self.outbox.takes.append(len(part))
        self.outbox.announced.append(more)
        return len(part)

    def sendfile(self, file: File, position: int, count: int) -> int:
        raise NotImplementedError

    def has_hung_up(self) -> bool:
        return self.inbox.has_ended

    def on_readable(self, callback: Callable[[], object] | None) -> None:
        self.reader = callback

    def on_writable(self, callback: Callable[[], object] | None) -> None:
        self.writer = callback

    def close(self) -> None:
        self.is_closed = True
        self.outbox.has_ended = True


def connected(
    cut: Callable[[], int] = lambda: 2**30, room: int = 2**30
) -> tuple[MemorySocket, MemorySocket]:
    """Both ends."""
    there, back = Pipe(room), Pipe(room)
    return MemorySocket(back, there, cut), MemorySocket(there, back, cut)
