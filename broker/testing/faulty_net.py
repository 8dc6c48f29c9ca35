"""A network whose connections can be stalled, cut off and killed, around any network.

A stall is what a partition looks like from inside: no connection is refused, no data arrives, and
pending data is delivered once it heals. Each broker has its own network; the connections between
brokers are stalled by the one that opened them, those of clients by the broker that accepted them.
"""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ottla.protocol.ports import Address, Buffer, File, Listener, Net, Socket, SocketOptions

NOTHING_NOW = "the network is cut"


class FaultyNet:
    """``ports.Net`` of one broker, with its active faults."""

    def __init__(self, below: Net) -> None:
        self._below = below
        self._is_paused = False
        self._is_dead = False
        self._cut: frozenset[Address] = frozenset()
        self._has_clients_cut = False
        self._sockets: set[FaultySocket] = set()
        self._listeners: list[FaultyListener] = []
        self._waiting: list[asyncio.Future[None]] = []
        # The clients' listener; connections to any other listener are from brokers.
        self.clients_address: Address | None = None

    def listen(self, address: Address, options: SocketOptions) -> FaultyListener:
        listener = FaultyListener(self, self._below.listen(address, options))
        self._listeners.append(listener)
        return listener

    async def connect(self, address: Address, options: SocketOptions) -> FaultySocket:
        while self.is_blocked(address, None) and not self._is_dead:
            await self._change()
        if self._is_dead:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "the broker is dead")
        return self.adopt(await self._below.connect(address, options), address, None)

    def adopt(self, socket: Socket, target: Address | None, door: Address | None) -> FaultySocket:
        """Wrap a connection to that target, or accepted at the listener ``door``."""
        faulty = FaultySocket(self, socket, target, door)
        self._sockets.add(faulty)
        if self._is_dead:
            faulty.kill()
        return faulty

    def is_blocked(self, target: Address | None, door: Address | None) -> bool:
        """Whether such a connection is blocked now."""
        if self._is_paused:
            return True
        if target is not None:
            return target in self._cut
        return self._has_clients_cut and door == self.clients_address

    def cut(self, targets: Iterable[Address], *, clients: bool) -> None:
        """Block connections to those addresses and, with ``clients``, those of clients.

        Replaces the previous cut."""
        self._cut = frozenset(targets)
        self._has_clients_cut = clients
        self._on_change()

    def pause(self, *, paused: bool) -> None:
        """Block or unblock all connections."""
        self._is_paused = paused
        self._on_change()

    def kill(self) -> None:
        """Close everything at once, as the end of a process does, and inform the broker."""
        self._is_dead = True
        for listener in self._listeners:
            listener.close()
        for socket in list(self._sockets):
            socket.kill()
        self._on_change()

    def forget(self, socket: FaultySocket) -> None:
        """The connection was closed."""
        self._sockets.discard(socket)

    async def _change(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        await waiter

    def _on_change(self) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)
        for listener in self._listeners:
            listener.apply()
        for socket in list(self._sockets):
            socket.apply()


class FaultySocket:
    """``ports.Socket``: readable and writable only while the network is not blocked."""

    __slots__ = (
        "_below",
        "_door",
        "_is_blocked",
        "_is_closed",
        "_is_killed",
        "_net",
        "_reader",
        "_target",
        "_writer",
        "local",
        "peer",
    )

    def __init__(
        self, net: FaultyNet, below: Socket, target: Address | None, door: Address | None
    ) -> None:
        self._net = net
        self._below = below
        self._target = target
        self._door = door
        self.local = below.local
        self.peer = below.peer
        self._reader: Callable[[], object] | None = None
        self._writer: Callable[[], object] | None = None
        self._is_blocked = net.is_blocked(target, door)
        self._is_killed = False
        self._is_closed = False

    def recv_into(self, buffer: memoryview) -> int:
        if self._is_blocked:
            raise BlockingIOError(errno.EAGAIN, NOTHING_NOW)
        return 0 if self._is_killed else self._below.recv_into(buffer)

    def sendmsg(self, buffers: Sequence[Buffer], *, more: bool = False) -> int:
        self._check_sending()
        return self._below.sendmsg(buffers, more=more)

    def sendfile(self, file: File, position: int, count: int) -> int:
        self._check_sending()
        return self._below.sendfile(file, position, count)

    def has_hung_up(self) -> bool:
        return self._is_killed or (not self._is_blocked and self._below.has_hung_up())

    def on_readable(self, callback: Callable[[], object] | None) -> None:
        self._reader = callback
        if not self._is_killed and not self._is_blocked:
            self._below.on_readable(callback)
        elif self._is_killed and callback is not None:
            asyncio.get_running_loop().call_soon(self._tell, callback)

    def on_writable(self, callback: Callable[[], object] | None) -> None:
        self._writer = callback
        if not self._is_killed and not self._is_blocked:
            self._below.on_writable(callback)
        elif self._is_killed and callback is not None:
            asyncio.get_running_loop().call_soon(self._tell, callback)

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._reader = self._writer = None
            self._net.forget(self)
            if not self._is_killed:
                self._below.close()

    def apply(self) -> None:
        """Apply a change of the network."""
        if self._is_killed or self._is_closed:
            return
        is_blocked = self._net.is_blocked(self._target, self._door)
        if is_blocked != self._is_blocked:
            self._is_blocked = is_blocked
            self._below.on_readable(None if is_blocked else self._reader)
            self._below.on_writable(None if is_blocked else self._writer)

    def kill(self) -> None:
        """The other side notices at once; this side at its next read."""
        self._is_killed = True
        self._is_blocked = False
        self._below.close()
        loop = asyncio.get_running_loop()
        for callback in (self._reader, self._writer):
            if callback is not None:
                loop.call_soon(self._tell, callback)

    def _tell(self, callback: Callable[[], object]) -> None:
        if not self._is_closed and callback in (self._reader, self._writer):
            callback()

    def _check_sending(self) -> None:
        if self._is_blocked:
            raise BlockingIOError(errno.EAGAIN, NOTHING_NOW)
        if self._is_killed:
            raise ConnectionResetError(errno.ECONNRESET, "the broker is dead")


class FaultyListener:
    """``ports.Listener``: connections that arrive while it is blocked wait in the kernel's
    queue."""

    __slots__ = ("_below", "_is_closed", "_net", "_reader", "address")

    def __init__(self, net: FaultyNet, below: Listener) -> None:
        self._net = net
        self._below = below
        self.address = below.address
        self._reader: Callable[[], object] | None = None
        self._is_closed = False

    def accept(self) -> FaultySocket:
        if self._net.is_blocked(None, self.address):
            raise BlockingIOError(errno.EAGAIN, NOTHING_NOW)
        return self._net.adopt(self._below.accept(), None, self.address)

    def on_readable(self, callback: Callable[[], object] | None) -> None:
        self._reader = callback
        self.apply()

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._below.close()

    def apply(self) -> None:
        """Apply a change of the network."""
        if not self._is_closed:
            is_blocked = self._net.is_blocked(None, self.address)
            self._below.on_readable(None if is_blocked else self._reader)
