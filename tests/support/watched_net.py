"""The real network, with a note of every request that a client sends, and its address."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ottla.client.process.environment import Environment
from ottla.protocol.apis import ApiKey
from ottla.wire.clock import RealClock
from ottla.wire.real import RealNet, RealRandom

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.protocol.ports import Address, Buffer, File, Listener, Socket, SocketOptions


class Sent(NamedTuple):
    """One request."""

    api_key: ApiKey
    address: str


class WatchedNet:
    """A Net; ``sent`` grows with every request that has left whole."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self._net = RealNet()

    def environment(self) -> Environment:
        """A client's world with this network."""
        return Environment(self, RealClock(), RealRandom())

    def addresses(self, api_key: ApiKey) -> list[str]:
        """The addresses that such requests went to, in order."""
        return [sent.address for sent in self.sent if sent.api_key is api_key]

    def listen(self, address: Address, options: SocketOptions) -> Listener:
        return self._net.listen(address, options)

    async def connect(self, address: Address, options: SocketOptions) -> Socket:
        return WatchedSocket(await self._net.connect(address, options), str(address), self.sent)


class WatchedSocket:
    """A Socket."""

    def __init__(self, socket: Socket, address: str, sent: list[Sent]) -> None:
        self._socket = socket
        self._address = address
        self._sent = sent
        self._bytes = bytearray()

    @property
    def local(self) -> Address:
        return self._socket.local

    @property
    def peer(self) -> Address:
        return self._socket.peer

    def recv_into(self, buffer: memoryview) -> int:
        return self._socket.recv_into(buffer)

    def sendmsg(self, buffers: Sequence[Buffer], *, more: bool = False) -> int:
        count = self._socket.sendmsg(buffers, more=more)
        self._bytes += b"".join(buffers)[:count]
        while len(self._bytes) >= 4:
            end = 4 + int.from_bytes(self._bytes[:4], "big")
            if len(self._bytes) < end:
                break
            self._sent.append(Sent(ApiKey(int.from_bytes(self._bytes[4:6], "big")), self._address))
            del self._bytes[:end]
        return count

    def sendfile(self, file: File, position: int, count: int) -> int:
        raise NotImplementedError

    def has_hung_up(self) -> bool:
        return self._socket.has_hung_up()

    def on_readable(self, callback: Callable[[], object] | None) -> None:
        self._socket.on_readable(callback)

    def on_writable(self, callback: Callable[[], object] | None) -> None:
        self._socket.on_writable(callback)

    def close(self) -> None:
        self._socket.close()
