"""A load generator in its own process: pipelines one prebuilt frame over some connections.

Reads its orders as one JSON line from standard input, writes one JSON line with what it saw.
Python is fast enough here because it only moves whole buffers: one ``sendall`` of many frames.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time
from dataclasses import dataclass, field


@dataclass
class Flow:
    """One connection: frames out, replies counted by their length prefix."""

    sock: socket.socket
    in_flight: int = 0
    sent_count: int = 0
    reply_count: int = 0
    reply_bytes: int = 0
    outgoing: memoryview = field(default_factory=lambda: memoryview(b""))
    _left: int = 0
    _prefix: bytes = b""

    def on_bytes(self, data: memoryview) -> None:
        """Count the replies that end in these bytes."""
        self.reply_bytes += len(data)
        position = 0
        while position < len(data):
            if self._left == 0:
                need = 4 - len(self._prefix)
                self._prefix += bytes(data[position : position + need])
                position += need
                if len(self._prefix) < 4:
                    return
                self._left = int.from_bytes(self._prefix)
                self._prefix = b""
            taken = min(self._left, len(data) - position)
            self._left -= taken
            position += taken
            if self._left == 0:
                self.reply_count += 1
                self.in_flight -= 1


def run(orders: dict[str, object]) -> dict[str, float]:
    """Send ``requests`` frames over ``connections`` with ``pipeline`` of them in flight each."""
    host, port = str(orders["host"]), int(str(orders["port"]))
    frame = bytes.fromhex(str(orders["frame"]))
    total = int(str(orders["requests"]))
    pipeline = int(str(orders["pipeline"]))
    count = int(str(orders["connections"]))
    flows = {}
    poller = select.epoll()
    for _ in range(count):
        sock = socket.create_connection((host, port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setblocking(False)
        flows[sock.fileno()] = Flow(sock)
        poller.register(sock.fileno(), select.EPOLLIN)
    buffer = memoryview(bytearray(1 << 20))
    quota = total // count
    started, cpu = time.perf_counter(), time.process_time()
    for flow in flows.values():
        _fill(flow, frame, pipeline, quota)
        _push(flow, poller)
    open_flows = len(flows)
    while open_flows:
        for descriptor, events in poller.poll():
            flow = flows[descriptor]
            if events & select.EPOLLIN:
                try:
                    received = flow.sock.recv_into(buffer)
                except BlockingIOError:
                    received = -1
                if received == 0:
                    raise SystemExit("the broker closed the connection")
                if received > 0:
                    flow.on_bytes(buffer[:received])
            if flow.in_flight <= pipeline // 2:
                _fill(flow, frame, pipeline, quota)
            _push(flow, poller)
            if flow.reply_count == quota:
                poller.unregister(descriptor)
                flow.sock.close()
                flow.reply_count += 1
                open_flows -= 1
    seconds = time.perf_counter() - started
    return {
        "requests": quota * count,
        "seconds": seconds,
        "cpu_seconds": time.process_time() - cpu,
        "reply_bytes": sum(flow.reply_bytes for flow in flows.values()),
        "sent_bytes": quota * count * len(frame),
    }


def _fill(flow: Flow, frame: bytes, pipeline: int, quota: int) -> None:
    if flow.outgoing:
        return
    more = min(pipeline - flow.in_flight, quota - flow.sent_count)
    if more > 0:
        flow.outgoing = memoryview(frame * more)
        flow.in_flight += more
        flow.sent_count += more


def _push(flow: Flow, poller: select.epoll) -> None:
    while flow.outgoing:
        try:
            sent = flow.sock.send(flow.outgoing)
        except BlockingIOError:
            poller.modify(flow.sock.fileno(), select.EPOLLIN | select.EPOLLOUT)
            return
        flow.outgoing = flow.outgoing[sent:]
    poller.modify(flow.sock.fileno(), select.EPOLLIN)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(json.loads(sys.stdin.readline()))) + "\n")
