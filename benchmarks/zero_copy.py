"""The same fetch with and without a copy through the process, side by side.

``python -m benchmarks.zero_copy`` prints what one piece of a fetch costs either way: changes
between user and kernel mode (two per system call, counted), copies of the data (two by devices,
into the page cache and out of the socket, and one for each time that the bytes pass the border of
the process, counted; sendfile leaves the process out, and gives the socket no copy where the
network card gathers), and the CPU time of the sender, measured. An argument says how many pieces.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.network.transport import BufferedTransport, PlaintextTransport
from ottla.broker.system.real_disk import RealDisk, RealOffload
from ottla.protocol.ports import Address, FileRegion, SocketOptions
from ottla.wire.real import RealNet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.broker.network.transport import ConnectionTransport
    from ottla.protocol.ports import Buffer, File
    from ottla.wire.real import RealSocket

PIECE_BYTES = 64 * 1024
PIECES = 2_000
# From the disk into the page cache, and from there or from the socket into the network card.
COPIES_BY_DEVICES = 2


class Cost(NamedTuple):
    """Of one piece."""

    system_calls: float
    copies: int
    cpu_us: float

    @property
    def context_switches(self) -> float:
        return 2 * self.system_calls


class CountedFile:
    """A file that counts the reads into this process, and their bytes."""

    def __init__(self, file: File) -> None:
        self._file = file
        self.path = file.path
        self.size_bytes = file.size_bytes
        self.fileno = file.fileno
        self.append = file.append
        self.is_resident = file.is_resident
        self.truncate = file.truncate
        self.fsync = file.fsync
        self.call_count = 0
        self.copied_bytes = 0

    def pread(self, count: int, position: int) -> bytes:
        self.call_count += 1
        data = self._file.pread(count, position)
        self.copied_bytes += len(data)
        return data


class CountedSocket:
    """A socket that counts what is sent through it, and the bytes that come from this process."""

    def __init__(self, socket: RealSocket) -> None:
        self._socket = socket
        self.local = socket.local
        self.peer = socket.peer
        self.recv_into = socket.recv_into
        self.has_hung_up = socket.has_hung_up
        self.on_readable = socket.on_readable
        self.on_writable = socket.on_writable
        self.close = socket.close
        self.call_count = 0
        self.copied_bytes = 0

    def sendmsg(self, buffers: Sequence[Buffer], *, more: bool = False) -> int:
        self.call_count += 1
        sent = self._socket.sendmsg(buffers, more=more)
        self.copied_bytes += sent
        return sent

    def sendfile(self, file: File, position: int, count: int) -> int:
        self.call_count += 1
        return self._socket.sendfile(file, position, count)


class Sink:
    """A thread that reads a socket to its end and forgets everything but the count."""

    def __init__(self, socket: RealSocket) -> None:
        self.received_bytes = 0
        self._socket = socket
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        buffer = memoryview(bytearray(1024 * 1024))
        count = 1
        while count:
            try:
                count = self._socket.recv_into(buffer)
            except BlockingIOError:
                time.sleep(0.0001)
            else:
                self.received_bytes += count
        self._socket.close()

    def join(self) -> None:
        self._thread.join()


async def connected_socket() -> tuple[RealSocket, Sink]:
    """A socket, and who reads what is sent on it."""
    net = RealNet()
    # Room for a whole piece, so that every call sends one piece and all can be compared.
    options = SocketOptions(send_buffer_bytes=4 * PIECE_BYTES)
    listener = net.listen(Address("127.0.0.1", 0), options)
    sending = await net.connect(listener.address, options)
    accepted = asyncio.Event()
    listener.on_readable(accepted.set)
    await accepted.wait()
    receiving = listener.accept()
    listener.close()

    return sending, Sink(receiving)


async def fetch(transport: type[ConnectionTransport], pieces: int) -> Cost:
    """Send the piece that often, each after the one before has arrived, so that no send finds a
    full socket."""
    connected, sink = await connected_socket()
    socket = CountedSocket(connected)
    offload = RealOffload(1)
    with tempfile.NamedTemporaryFile(prefix="segment-") as segment:
        opened = RealDisk(offload).open(segment.name)
        opened.append([bytes(PIECE_BYTES)])
        file = CountedFile(opened)
        carrier = transport(socket)  # type: ignore[call-arg]
        seconds = send_pieces(carrier, file, sink, pieces)
    socket.close()
    sink.join()
    offload.close()
    calls = (socket.call_count + file.call_count) / pieces
    copied_bytes = socket.copied_bytes + file.copied_bytes
    copies = COPIES_BY_DEVICES + round(copied_bytes / (pieces * PIECE_BYTES))
    return Cost(calls, copies, 1e6 * seconds / pieces)


def send_pieces(carrier: ConnectionTransport, file: File, sink: Sink, pieces: int) -> float:
    """CPU seconds that sending has taken."""
    used = 0.0
    for number in range(1, pieces + 1):
        rest = FileRegion(file, 0, PIECE_BYTES)
        while rest.size_bytes:
            began = time.thread_time()
            sent = rest.write_to(carrier)
            used += time.thread_time() - began
            rest = FileRegion(file, rest.position + sent, rest.size_bytes - sent)
        while sink.received_bytes < number * PIECE_BYTES:
            time.sleep(0.0001)
    return used


def table(classical: Cost, zero_copy: Cost) -> str:
    """Both, side by side."""
    rows = [
        f"{f'one fetch of {PIECE_BYTES // 1024} KiB':28}{'read and send':>16}{'sendfile':>12}",
        f"{'copies of the data':28}{classical.copies:>16}{zero_copy.copies:>12}",
        f"{'context switches':28}{classical.context_switches:>16.2f}"
        f"{zero_copy.context_switches:>12.2f}",
        f"{'CPU us of the sender':28}{classical.cpu_us:>16.1f}{zero_copy.cpu_us:>12.1f}",
    ]
    return "\n".join(rows)


async def compare(pieces: int = PIECES) -> tuple[Cost, Cost]:
    return await fetch(BufferedTransport, pieces), await fetch(PlaintextTransport, pieces)


if __name__ == "__main__":
    print(table(*asyncio.run(compare(*map(int, sys.argv[1:])))))
