"""The least a server of one thread can do, for the same load generator: the limits of a machine.

``python -m benchmarks.bare KIND SIZE`` prints its port and serves until standard input ends:
``answer`` reads frames and answers each with SIZE bytes, ``append`` writes each to a file first,
``sendfile`` answers each with SIZE bytes of a file, ``small`` is ``answer`` with buffers for
thousands of connections. No protocol, no checksum, no broker.
"""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.support.broker_process import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

BUFFER_BYTES, SMALL_BUFFER_BYTES = 2 << 20, 4096
RECYCLE_BYTES = 64 << 20
SEND_BUFFER_BYTES = 102_400


@dataclass
class BareServer:
    """A running one, as the harness sees it."""

    port: int
    process_id: int

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


@contextmanager
def bare_server(kind: str, size_bytes: int) -> Iterator[BareServer]:
    """Serve in a separate process."""
    command = [sys.executable, "-m", "benchmarks.bare", kind, str(size_bytes)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield BareServer(int(process.stdout.readline()), process.pid)
        process.stdin.close()


@dataclass
class Peer:
    """One connection: a buffer with the bytes of an unfinished frame, and file bytes to send."""

    sock: socket.socket
    buffer: memoryview
    end: int = 0
    left_bytes: int = 0


class Server:
    """One epoll loop."""

    def __init__(self, kind: str, size_bytes: int, descriptor: int) -> None:
        self.kind = kind
        self.descriptor = descriptor
        self.size_bytes = size_bytes
        self.buffer_bytes = SMALL_BUFFER_BYTES if kind == "small" else BUFFER_BYTES
        self.written_bytes = 0
        # A sendfile answer begins with its length and as much header as a broker's would.
        head_bytes = 64 if kind == "sendfile" else size_bytes
        body_bytes = size_bytes if kind == "sendfile" else 0
        self.answer = (head_bytes + body_bytes).to_bytes(4) + bytes(head_bytes)
        self.peers: dict[int, Peer] = {}
        self.poller = select.epoll()

    def run(self, listener: socket.socket) -> None:
        """Serve until standard input ends."""
        self.poller.register(listener.fileno(), select.EPOLLIN)
        self.poller.register(sys.stdin.fileno(), select.EPOLLIN)
        while True:
            for descriptor, events in self.poller.poll():
                if descriptor == sys.stdin.fileno():
                    return
                if descriptor == listener.fileno():
                    sock, _ = listener.accept()
                    sock.setblocking(False)
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
                    self.peers[sock.fileno()] = Peer(sock, memoryview(bytearray(self.buffer_bytes)))
                    self.poller.register(sock.fileno(), select.EPOLLIN)
                elif events & select.EPOLLOUT:
                    self.send_file(self.peers[descriptor])
                else:
                    self.receive(self.peers[descriptor])

    def receive(self, peer: Peer) -> None:
        """One read, and an answer for each frame that is whole."""
        try:
            count = peer.sock.recv_into(peer.buffer[peer.end :])
        except BlockingIOError:
            return
        if not count:
            self.poller.unregister(peer.sock.fileno())
            self.peers.pop(peer.sock.fileno()).sock.close()
            return
        start, end = 0, peer.end + count
        answers = 0
        while end - start >= 4:
            frame_end = start + 4 + int.from_bytes(peer.buffer[start : start + 4])
            if frame_end > end:
                break
            if self.kind == "append":
                self.append(peer.buffer[start:frame_end])
            answers += 1
            start = frame_end
        peer.buffer[: end - start] = peer.buffer[start:end]
        peer.end = end - start
        if answers and self.kind == "sendfile":
            peer.sock.send(self.answer, socket.MSG_MORE)
            peer.left_bytes = self.size_bytes
            self.send_file(peer)
        elif answers:
            peer.sock.send(self.answer * answers)

    def append(self, frame: memoryview) -> None:
        self.written_bytes += os.write(self.descriptor, frame)
        if self.written_bytes > RECYCLE_BYTES:
            os.ftruncate(self.descriptor, 0)
            self.written_bytes = 0

    def send_file(self, peer: Peer) -> None:
        """Send until the peer takes no more."""
        while peer.left_bytes:
            position = self.size_bytes - peer.left_bytes
            try:
                sent = os.sendfile(peer.sock.fileno(), self.descriptor, position, peer.left_bytes)
            except BlockingIOError:
                self.poller.modify(peer.sock.fileno(), select.EPOLLOUT)
                return
            peer.left_bytes -= sent
        self.poller.modify(peer.sock.fileno(), select.EPOLLIN)


def listening() -> socket.socket:
    """With as much room for waiting connections as the kernel gives."""
    return socket.create_server(("127.0.0.1", 0), backlog=socket.SOMAXCONN)


def main(kind: str, size_bytes: int) -> None:
    with tempfile.TemporaryFile() as file, listening() as listener:
        if kind == "sendfile":
            file.write(os.urandom(size_bytes))
            file.flush()
        sys.stdout.write(f"{listener.getsockname()[1]}\n")
        sys.stdout.flush()
        os.set_blocking(sys.stdin.fileno(), False)
        Server(kind, size_bytes, file.fileno()).run(listener)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
