"""How the bytes of one connection come and go: with or without a copy through this process.

The two send the same bytes for the same answer. ``PlaintextTransport`` lets the kernel move file
regions with sendfile; ``BufferedTransport`` reads and sends them, which is also what an encrypted
transport must do, and what serves where sendfile does not exist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ottla.protocol.ports import Transport

if TYPE_CHECKING:
    from ottla.protocol.ports import File, Socket

# What is read at once: about what a send buffer takes, so that little is read in vain.
COPY_BYTES = 128 * 1024


class ConnectionTransport(Transport, Protocol):
    """Both directions of one connection, on the readiness of its socket."""

    def recv_into(self, buffer: memoryview) -> int:
        """Read what is there; 0 means the peer has finished. Raises BlockingIOError, OSError."""


class BufferedTransport:
    """File regions are read into memory and sent from there."""

    __slots__ = ("_file", "_position", "_rest", "recv_into", "write")

    def __init__(self, socket: Socket) -> None:
        # Calls that only pass on would cost as much as what they pass on.
        self.recv_into = socket.recv_into
        self.write = socket.sendmsg
        # What was read but found no room, and where it belongs: not read again for the next try.
        self._file: File | None = None
        self._position = 0
        self._rest = memoryview(b"")

    def transfer_from(self, file: File, position: int, count: int) -> int:
        rest = self._rest
        if not rest or self._file is not file or self._position != position:
            rest = memoryview(file.pread(min(count, COPY_BYTES), position))
            if not rest:
                return 0
            self._file, self._position, self._rest = file, position, rest
        sent = self.write([rest[:count]], more=count > len(rest))
        self._position += sent
        self._rest = rest[sent:]
        if not self._rest:
            self._file = None  # keeps no deleted segment open
        return sent


class PlaintextTransport:
    """File regions go from the page cache to the socket inside the kernel."""

    __slots__ = ("_buffered", "_socket", "recv_into", "write")

    def __init__(self, socket: Socket) -> None:
        self._socket = socket
        self._buffered: BufferedTransport | None = None
        self.recv_into = socket.recv_into
        self.write = socket.sendmsg

    def transfer_from(self, file: File, position: int, count: int) -> int:
        if self._buffered is None:
            try:
                return self._socket.sendfile(file, position, count)
            except NotImplementedError:
                # Of the platform or the file system: it will be no better for the next region.
                self._buffered = BufferedTransport(self._socket)
        return self._buffered.transfer_from(file, position, count)
