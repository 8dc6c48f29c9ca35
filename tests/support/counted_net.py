"""The real network, with a count of the bytes that leave through it, by the way they take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.wire.real import RealNet

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.protocol.ports import Address, Buffer, File, Listener, Socket, SocketOptions


class CountedNet:
    """``ports.Net`` of one broker: counts what it sends to those who connect to it. It may be that
    of a platform without sendfile."""

    def __init__(self, *, has_sendfile: bool = True) -> None:
        self.has_sendfile = has_sendfile
        # Handed to the kernel as regions of a file, and as bytes from the broker's memory.
        self.sendfile_bytes = 0
        self.memory_bytes = 0
        self._below = RealNet()

    def listen(self, address: Address, options: SocketOptions) -> CountedListener:
        return CountedListener(self, self._below.listen(address, options))

    async def connect(self, address: Address, options: SocketOptions) -> Socket:
        return await self._below.connect(address, options)


class CountedListener:
    """``ports.Listener`` that gives out counted sockets."""

    def __init__(self, net: CountedNet, below: Listener) -> None:
        self._net = net
        self._below = below
        self.address = below.address
        self.on_readable = below.on_readable
        self.close = below.close

    def accept(self) -> CountedSocket:
        return CountedSocket(self._net, self._below.accept())


class CountedSocket:
    """``ports.Socket`` that counts what is sent through it."""

    def __init__(self, net: CountedNet, below: Socket) -> None:
        self._net = net
        self._below = below
        self.local = below.local
        self.peer = below.peer
        self.recv_into: Callable[[memoryview], int] = below.recv_into
        self.has_hung_up = below.has_hung_up
        self.on_readable = below.on_readable
        self.on_writable = below.on_writable
        self.close = below.close

    def sendmsg(self, buffers: Sequence[Buffer], *, more: bool = False) -> int:
        sent = self._below.sendmsg(buffers, more=more)
        self._net.memory_bytes += sent
        return sent

    def sendfile(self, file: File, position: int, count: int) -> int:
        if not self._net.has_sendfile:
            raise NotImplementedError("as on Windows")
        sent = self._below.sendfile(file, position, count)
        self._net.sendfile_bytes += sent
        return sent
