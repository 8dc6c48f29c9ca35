"""The limit: a client that moves the same bytes between socket and memory, and nothing else.

What it sends was encoded before, and what it gets is not looked into beyond the frame's length.
"""

from __future__ import annotations

import socket

from benchmarks.client_loads.orders import Orders, Watch
from benchmarks.frames import FETCH, FETCH_VERSION, batch_of, fetch_frame, produce_frame
from ottla.protocol.compile import decode
from ottla.protocol.headers import decode_response_header
from ottla.protocol.messages.fetch import FetchResponse
from ottla.protocol.records.batch import iterate_whole_batches, parse_batch

FRAME_BYTES = 1_000_000
IN_FLIGHT = 5


def _connected(orders: Orders) -> socket.socket:
    sock = socket.create_connection(orders.place)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def _receive(sock: socket.socket, buffer: memoryview) -> int:
    """Receive one frame into the buffer; return its size."""
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
    """Fetches of a megabyte, one of them under way while another is read: through the whole topic,
    as consumers go, since the same megabyte again and again would come out of a cache. Where each
    fetch begins is found out before."""
    buffer = memoryview(bytearray(FRAME_BYTES * 2))
    with _connected(orders) as sock:
        frames, records = _way_through(sock, orders, buffer)
        watch = Watch()
        sock.sendall(frames[0])
        for frame in frames[1:]:
            sock.sendall(frame)
            _receive(sock, buffer)
        _receive(sock, buffer)
        return watch.stop(records)


def _way_through(
    sock: socket.socket, orders: Orders, buffer: memoryview
) -> tuple[list[bytes], int]:
    """The fetches that bring that many records, and how many they bring."""
    frames: list[bytes] = []
    offset = 0
    while offset < orders.count:
        frames.append(fetch_frame(orders.topic, 0, offset, FRAME_BYTES))
        sock.sendall(frames[-1])
        size_bytes = _receive(sock, buffer)
        _, position = decode_response_header(buffer[:size_bytes], FETCH, FETCH_VERSION)
        answer = decode(FetchResponse, FETCH_VERSION, buffer[position:size_bytes])
        records = answer.responses[0].partitions[0].records
        if not isinstance(records, memoryview) or not records:
            raise SystemExit(f"the topic ends at {offset}")
        *_, last = iterate_whole_batches(records)
        offset = last.next_offset
    return frames, offset
