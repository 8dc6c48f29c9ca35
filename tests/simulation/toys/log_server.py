"""A toy log server over the Net and Disk seams, to try the world on before trusting it.

One file; each request is a line, appended, synced and answered with its number. ``careless``
answers before the fsync, which is the bug that a power cut must bring to light.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.protocol.ports import Address, Ports, SocketOptions

if TYPE_CHECKING:
    from ottla.protocol.ports import File, Socket

PORT = 7000
OPTIONS = SocketOptions()


class ToyServer:
    """Answers ``<number>\\n`` to each line once it is durable."""

    def __init__(self, ports: Ports, *, careless: bool) -> None:
        self._ports = ports
        self._careless = careless
        self._tasks: list[asyncio.Task[None]] = []
        self._lines = 0

    async def start(self) -> None:
        disk = self._ports.disk
        self._file: File = disk.open("/toy.log", create=True)
        await disk.fsync_directory("/")
        content = self._file.pread(self._file.size_bytes, 0)
        whole = content[: content.rfind(b"\n") + 1]
        self._file.truncate(len(whole))
        self._lines = whole.count(b"\n")
        self._listener = self._ports.net.listen(Address("", PORT), OPTIONS)
        self._listener.on_readable(self._accept)

    async def stop(self) -> None:
        self._listener.close()

    def on_failure(self, callback: object) -> None:
        """Ignored: the toy aborts on a failure."""

    def _accept(self) -> None:
        socket = self._listener.accept()
        self._tasks.append(asyncio.ensure_future(self._serve(socket)))

    async def _serve(self, socket: Socket) -> None:
        try:
            while line := await read_line(socket):
                self._file.append([line])
                self._lines += 1
                number = self._lines
                if not self._careless:
                    await self._file.fsync()
                socket.sendmsg([b"%d\n" % number])
        except OSError:
            pass
        socket.close()


async def read_line(socket: Socket) -> bytes:
    """A line with its end; nothing at the end of the stream."""
    line = b""
    buffer = bytearray(1)
    while not line.endswith(b"\n"):
        ready = asyncio.get_running_loop().create_future()
        socket.on_readable(lambda ready=ready: ready.done() or ready.set_result(None))  # type: ignore[misc]
        await ready
        socket.on_readable(None)
        if socket.recv_into(memoryview(buffer)) == 0:
            return b""
        line += buffer
    return line


class ToyClient:
    """Sends numbered lines, one at a time; keeps what was acknowledged."""

    def __init__(self) -> None:
        self.acknowledged: list[bytes] = []

    async def program(self, ports: Ports) -> None:
        number = 0
        while True:
            socket = None
            try:
                socket = await ports.net.connect(Address("server", PORT), OPTIONS)
                while True:
                    number += 1
                    line = b"line %d\n" % number
                    socket.sendmsg([line])
                    # After a power cut the server's silence would otherwise last for ever.
                    async with asyncio.timeout(0.3):
                        if not await read_line(socket):
                            break
                    self.acknowledged.append(line)
            except OSError:
                pass
            finally:
                if socket is not None:
                    socket.close()
            await ports.clock.sleep(50.0)
