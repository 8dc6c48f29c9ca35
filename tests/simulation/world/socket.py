"""Simulated sockets: non-blocking calls, level-triggered readiness, and the ways a peer can go."""

from __future__ import annotations

import contextvars
import errno
from collections import deque
from typing import TYPE_CHECKING

from tests.simulation.world.stream import Mark, Stream

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.protocol.ports import Address, Buffer, File
    from tests.simulation.world.loop import SimLoop
    from tests.simulation.world.network import Host, SimNet


class Readiness:
    """Calls back once per turn of the loop for as long as the condition holds, as epoll does."""

    __slots__ = ("_callback", "_condition", "_context", "_loop", "_scheduled")

    def __init__(self, loop: SimLoop, condition: Callable[[], bool]) -> None:
        self._loop = loop
        self._condition = condition
        self._callback: Callable[[], object] | None = None
        self._context = loop.outside
        self._scheduled = False

    def set(self, callback: Callable[[], object] | None) -> None:
        """Register, replace or stop; the callback runs in its registrar's process."""
        self._callback = callback
        if callback is not None:
            self._context = contextvars.copy_context()
            self.wake()

    def wake(self) -> None:
        """Something has changed: look whether the callback is due."""
        if self._callback is not None and not self._scheduled and self._condition():
            self._scheduled = True
            self._loop.call_soon(self._fire, context=self._context)

    def _fire(self) -> None:
        self._scheduled = False
        if self._callback is None or not self._condition():
            return
        try:
            self._callback()
        finally:
            self.wake()


class SimSocket:
    """``ports.Socket``: one end of a connection."""

    def __init__(
        self, net: SimNet, ends: tuple[Address, Address], outgoing: Stream, incoming: Stream
    ) -> None:
        self._net = net
        self._local, self._peer = ends
        self._outgoing, self._incoming = outgoing, incoming
        self._received: deque[memoryview] = deque()
        self._ended = False
        self._failure: int | None = None
        self._closed = False
        self._vanished = False
        self._readable = Readiness(net.loop, self._is_readable)
        self._writable = Readiness(net.loop, self._is_writable)

    @property
    def local(self) -> Address:
        return self._local

    @property
    def peer(self) -> Address:
        return self._peer

    def recv_into(self, buffer: memoryview) -> int:
        self._check()
        if self._failure is not None:
            self._fail()
        received = self._received
        if not received:
            if self._ended:
                return 0
            raise BlockingIOError(errno.EAGAIN, "nothing to read")
        taken, room = 0, len(buffer)
        while received and taken < room:
            chunk = received.popleft()
            count = len(chunk)
            if count > room - taken:
                count = room - taken
                received.appendleft(chunk[count:])
                chunk = chunk[:count]
            buffer[taken : taken + count] = chunk
            taken += count
        self._incoming.freed(taken)
        return taken

    def sendmsg(self, buffers: Sequence[Buffer], *, more: bool = False) -> int:
        room = self._room()
        parts = []
        for buffer in buffers:
            chunk = bytes(memoryview(buffer).cast("B")[:room])
            parts.append(chunk)
            room -= len(chunk)
            if room == 0:
                break
        content = b"".join(parts)
        if content:
            self._outgoing.send(content)
        return len(content)

    def sendfile(self, file: File, position: int, count: int) -> int:
        if not self._net.links.profile.sendfile:
            raise NotImplementedError("this seed has no sendfile")
        content = file.pread(min(count, self._room()), position)
        if content:
            self._outgoing.send(content)
        return len(content)

    def has_hung_up(self) -> bool:
        return self._ended or self._failure is not None or self._closed

    def on_readable(self, callback: Callable[[], object] | None) -> None:
        self._readable.set(callback)

    def on_writable(self, callback: Callable[[], object] | None) -> None:
        self._writable.set(callback)

    def close(self) -> None:
        """Unread bytes make it a reset instead of an orderly end, as on Linux."""
        if self._closed or self._vanished:
            return
        self._closed = True
        self._forget()
        if self._failure is None:
            self._outgoing.mark(Mark.RESET if self._received else Mark.END)
        self._received.clear()

    def deliver(self, content: bytes | Mark) -> None:
        """A parcel of the incoming stream has arrived."""
        if self._closed or self._vanished:
            if content is not Mark.RESET and not self._outgoing.dead:
                self._outgoing.mark(Mark.RESET)
                self._outgoing.dead = True
            return
        if content is Mark.END:
            self._ended = True
        elif content is Mark.RESET:
            self._break(errno.ECONNRESET)
            return
        elif isinstance(content, bytes):
            self._received.append(memoryview(content))
        self._readable.wake()

    def wake_writable(self) -> None:
        """There may be room to send."""
        self._writable.wake()

    def break_both(self) -> None:
        """Something between the two has reset the connection."""
        self._outgoing.mark(Mark.RESET)
        self._break(errno.ECONNRESET)

    def vanish(self) -> None:
        """The machine has lost its power; the peer is not told before it asks."""
        self._vanished = True
        self._readable.set(None)
        self._writable.set(None)
        self._received.clear()
        self._outgoing.lose()
        # A machine that has booted again answers what still comes with a reset.
        self._outgoing.dead = False

    def stream_to_hold(self, outgoing: bool) -> Stream:
        """One of its two directions."""
        return self._outgoing if outgoing else self._incoming

    def _is_readable(self) -> bool:
        return bool(self._received) or self._ended or self._failure is not None

    def _is_writable(self) -> bool:
        return self._outgoing.room_bytes > 0 or self._failure is not None

    def _check(self) -> None:
        if self._closed or self._vanished:
            raise OSError(errno.EBADF, "the socket is closed")

    def _room(self) -> int:
        self._check()
        if self._failure is not None:
            self._fail()
        room = self._outgoing.room_bytes
        if room <= 0:
            raise BlockingIOError(errno.EAGAIN, "the send buffer is full")
        return room

    def _fail(self) -> None:
        """The first call after a reset says so; later ones find a broken pipe."""
        assert self._failure is not None
        code, self._failure = self._failure, errno.EPIPE
        if code == errno.EPIPE:
            raise BrokenPipeError(code, "the connection is broken")
        raise ConnectionResetError(code, "the peer has reset the connection")

    def _break(self, code: int) -> None:
        self._failure = code
        self._received.clear()
        self._readable.wake()
        self._writable.wake()

    def _forget(self) -> None:
        self._readable.set(None)
        self._writable.set(None)
        self._net.host(self._local.host).sockets.pop(self, None)


class SimListener:
    """``ports.Listener`` with a bounded backlog."""

    def __init__(self, net: SimNet, host: Host, address: Address, backlog: int) -> None:
        self._net = net
        self._host = host
        self._address = address
        self._backlog = backlog
        self._waiting: deque[SimSocket] = deque()
        self._closed = False
        self._readable = Readiness(net.loop, lambda: bool(self._waiting))

    @property
    def address(self) -> Address:
        return self._address

    @property
    def is_full(self) -> bool:
        return len(self._waiting) >= self._backlog

    def add(self, socket: SimSocket) -> None:
        """A handshake is complete; bytes may arrive before anyone accepts."""
        self._waiting.append(socket)
        self._host.sockets[socket] = None
        self._readable.wake()

    def accept(self) -> SimSocket:
        if self._closed:
            raise OSError(errno.EBADF, "the listener is closed")
        if not self._waiting:
            raise BlockingIOError(errno.EAGAIN, "nobody waits")
        return self._waiting.popleft()

    def on_readable(self, callback: Callable[[], object] | None) -> None:
        self._readable.set(callback)

    def close(self) -> None:
        """Close the listener; connections that were not accepted are reset."""
        if self._closed:
            return
        self.vanish()
        self._host.listeners.pop(self._address.port, None)
        while self._waiting:
            socket = self._waiting.popleft()
            socket.break_both()
            socket.close()

    def vanish(self) -> None:
        self._closed = True
        self._readable.set(None)
