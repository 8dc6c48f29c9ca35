"""What this machine gives without a broker: the figure each measurement stands beside."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
import time
from pathlib import Path

_RECYCLE_BYTES = 96 << 20


def append_bytes_per_second(block_bytes: int, total_bytes: int) -> float:
    """One core writing blocks to a file in the page cache, pages recycled as the broker's are."""
    block = os.urandom(min(block_bytes, 1 << 20)) * (block_bytes // min(block_bytes, 1 << 20))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        _write(descriptor, block, _RECYCLE_BYTES)
        started = time.perf_counter()
        written = 0
        while written < total_bytes:
            os.ftruncate(descriptor, 0)
            written += _write(descriptor, block, _RECYCLE_BYTES)
        seconds = time.perf_counter() - started
        os.close(descriptor)
    return written / seconds


def _write(descriptor: int, block: bytes, up_to: int) -> int:
    written = 0
    while written < up_to:
        written += os.write(descriptor, block)
    return written


def sendfile_bytes_per_second(block_bytes: int, total_bytes: int, connections: int = 4) -> float:
    """Raw ``os.sendfile`` from the page cache over loopback to threads that only receive."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data"
        path.write_bytes(os.urandom(1 << 20) * (block_bytes * 8 >> 20))
        descriptor = os.open(path, os.O_RDONLY)
        pairs = [_loopback_pair() for _ in range(connections)]
        share = total_bytes // connections // block_bytes
        receivers = [
            threading.Thread(target=_drain, args=(right, share * block_bytes))
            for _left, right in pairs
        ]
        started = time.perf_counter()
        for thread in receivers:
            thread.start()
        for index in range(share):
            for left, _right in pairs:
                _send_block(left, descriptor, (index % 8) * block_bytes, block_bytes)
        for thread in receivers:
            thread.join()
        seconds = time.perf_counter() - started
        os.close(descriptor)
        for left, right in pairs:
            left.close()
            right.close()
    return share * block_bytes * connections / seconds


def _loopback_pair() -> tuple[socket.socket, socket.socket]:
    listener = socket.create_server(("127.0.0.1", 0))
    left = socket.create_connection(listener.getsockname())
    left.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 102_400)
    right, _ = listener.accept()
    listener.close()
    return left, right


def _send_block(sock: socket.socket, descriptor: int, position: int, count: int) -> None:
    while count:
        sent = os.sendfile(sock.fileno(), descriptor, position, count)
        position += sent
        count -= sent


def _drain(sock: socket.socket, count: int) -> None:
    buffer = memoryview(bytearray(1 << 20))
    while count:
        count -= sock.recv_into(buffer)
