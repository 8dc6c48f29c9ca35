"""The limit: a client that moves the same bytes between socket and memory, and nothing else.

What it sends was encoded before, and what it gets is not looked into beyond the frame's length.
"""

from __future__ import annotations

import socket

from benchmarks.client_loads.orders import Orders, Watch
from benchmarks.frames import batch_of, fetch_frame, produce_frame
from ottla.protocol.records.batch import parse_batch

FRAME_BYTES = 1_000_000
IN_FLIGHT = 5


def _connected(orders: Orders) -> socket.socket:
    sock = socket.create_connection(orders.place)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def _receive(sock: socket.socket, buffer: memoryview) -> int:
    """One frame into the buffer; its size."""
    filled = 0
    while filled < 4:
        filled += _some(sock, buffer[filled:4])
    size_bytes = int.from_bytes(buffer[:4])
    filled = 0
    while filled < size_bytes:
        filled += _some(sock, buffer[filled:size_bytes])
    return size_bytes


def _some(sock: socket.socket, window: memoryview) -> int:
    count = sock.recv_into(window)
    if not count:
        raise SystemExit("the broker closed the connection")
    return count


def produce(orders: Orders) -> Watch:
    """Requests of a megabyte, five of them under way."""
    batch = batch_of(FRAME_BYTES, orders.record_bytes)
    records = parse_batch(batch).record_count
    frame = produce_frame(orders.topic, 0, batch, acks=-1)
    buffer = memoryview(bytearray(1 << 16))
    requests = max(1, orders.count // records)
    with _connected(orders) as sock:
        watch = Watch()
        for number in range(requests):
            sock.sendall(frame)
            if number >= IN_FLIGHT:
                _receive(sock, buffer)
        for _ in range(min(requests, IN_FLIGHT)):
            _receive(sock, buffer)
        return watch.stop(requests * records)


def consume(orders: Orders) -> Watch:
    """Fetches of a megabyte, one of them under way while another is read."""
    buffer = memoryview(bytearray(FRAME_BYTES * 2))
    frame = fetch_frame(orders.topic, 0, 0, FRAME_BYTES)
    with _connected(orders) as sock:
        sock.sendall(frame)
        size_bytes = _receive(sock, buffer)
        records = size_bytes // (orders.record_bytes + 10)
        requests = max(1, orders.count // records)
        watch = Watch()
        sock.sendall(frame)
        for _ in range(requests):
            sock.sendall(frame)
            _receive(sock, buffer)
        watch.stop(requests * records)
        _receive(sock, buffer)
        return watch
