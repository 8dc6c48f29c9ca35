"""A load generator in its own process: pipelines one prebuilt frame over some connections.

Reads its parameters as one JSON line from standard input and writes one JSON line of results.
Python is fast enough here because it only moves whole buffers: one ``send`` of many frames.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time
from dataclasses import dataclass, field
from typing import Any

READ_BYTES = 1 << 20
# The rest of a large reply is thrown away by the kernel: copying it would make this side the limit.
DISCARD_FROM_BYTES = 64 << 10
DISCARD = getattr(socket, "MSG_TRUNC", 0) if sys.platform == "linux" else 0


@dataclass
class Flow:
    """One connection: frames out, replies counted by their length prefix."""

    sock: socket.socket
    in_flight: int = 0
    sent_count: int = 0
    reply_count: int = 0
    reply_bytes: int = 0
    outgoing: memoryview = field(default_factory=lambda: memoryview(b""))
    left_bytes: int = 0
    _prefix: bytes = b""

    def on_bytes(self, data: memoryview) -> None:
        """Count the replies that end in these bytes."""
        self.reply_bytes += len(data)
        position = 0
        while position < len(data):
            if self.left_bytes == 0:
                need = 4 - len(self._prefix)
                self._prefix += bytes(data[position : position + need])
                position += need
                if len(self._prefix) < 4:
                    return
                self.left_bytes = int.from_bytes(self._prefix)
                self._prefix = b""
            taken = min(self.left_bytes, len(data) - position)
            self.left_bytes -= taken
            position += taken
            if self.left_bytes == 0:
                self.reply_count += 1
                self.in_flight -= 1

    def fill(self, burst: memoryview, frame_bytes: int, pipeline: int, quota: int) -> None:
        """Have as many frames on their way as the pipeline takes; ``burst`` holds that many."""
        more = min(pipeline - self.in_flight, quota - self.sent_count)
        if more > 0 and not self.outgoing:
            self.outgoing = burst[: more * frame_bytes]
            self.in_flight += more
            self.sent_count += more

    def push(self) -> bool:
        """Send what finds room; whether there is more."""
        while self.outgoing:
            try:
                sent = self.sock.send(self.outgoing)
            except BlockingIOError:
                return True
            self.outgoing = self.outgoing[sent:]
        return False


def connect(orders: dict[str, Any]) -> socket.socket:
    sock = socket.create_connection((orders["host"], orders["port"]))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def wait_until_ready(orders: dict[str, Any]) -> dict[str, float]:
    """Ask for metadata until a broker is named in the answer; seconds since ``started``."""
    frame = bytes.fromhex(orders["frame"])
    while time.monotonic() - orders["started"] < orders["timeout"]:
        try:
            with connect(orders) as sock:
                sock.settimeout(orders["timeout"])
                sock.sendall(frame)
                answer = sock.recv(1 << 16)
        except ConnectionError:
            answer = b""
        # Behind length, correlation id, tags and throttle time comes the number of brokers, plus 1.
        if len(answer) > 13 and answer[13] > 1:
            return {"seconds": time.monotonic() - orders["started"]}
        time.sleep(0.005)
    raise SystemExit("the broker does not become ready")


def run(orders: dict[str, Any]) -> dict[str, float]:
    """Send ``requests`` frames over ``connections`` with ``pipeline`` of them in flight each."""
    frame = bytes.fromhex(orders["frame"])
    pipeline, quota = orders["pipeline"], orders["requests"] // orders["connections"]
    if pipeline == 1 and orders["connections"] == 1:
        return round_trips(connect(orders), frame, quota)
    burst = memoryview(frame * pipeline)
    flows: dict[int, Flow] = {}
    poller = select.epoll()
    for _ in range(orders["connections"]):
        sock = connect(orders)
        sock.setblocking(False)
        flows[sock.fileno()] = Flow(sock)
        poller.register(sock.fileno(), select.EPOLLIN)
    buffer = memoryview(bytearray(READ_BYTES))
    waiting: set[int] = set()
    open_flows = set(flows)
    started, cpu = time.perf_counter(), time.process_time()
    ready = [(descriptor, 0) for descriptor in flows]
    while open_flows:
        for descriptor, events in ready:
            flow = flows[descriptor]
            if events & select.EPOLLIN:
                _read(flow, buffer)
            if flow.in_flight <= pipeline // 2:
                flow.fill(burst, len(frame), pipeline, quota)
            if flow.push() is not (descriptor in waiting):
                waiting ^= {descriptor}
                more = select.EPOLLOUT if descriptor in waiting else 0
                poller.modify(descriptor, select.EPOLLIN | more)
            if flow.reply_count == quota:
                poller.unregister(descriptor)
                open_flows.discard(descriptor)
        ready = poller.poll() if open_flows else []
    return {
        "requests": quota * len(flows),
        "seconds": time.perf_counter() - started,
        "cpu_seconds": time.process_time() - cpu,
        "reply_bytes": sum(flow.reply_bytes for flow in flows.values()),
        "sent_bytes": quota * len(flows) * len(frame),
        "p50_us": 0.0,
        "p99_us": 0.0,
    }


def _read(flow: Flow, buffer: memoryview) -> None:
    discards = DISCARD and flow.left_bytes >= DISCARD_FROM_BYTES
    try:
        if discards:
            received = flow.sock.recv_into(buffer, min(len(buffer), flow.left_bytes), DISCARD)
        else:
            received = flow.sock.recv_into(buffer)
    except BlockingIOError:
        return
    if received == 0:
        raise SystemExit("the broker closed the connection")
    flow.on_bytes(buffer[:received])


def round_trips(sock: socket.socket, frame: bytes, count: int) -> dict[str, float]:
    """One request at a time on one connection, each timed."""
    buffer = memoryview(bytearray(READ_BYTES))
    flow = Flow(sock)
    times = []
    started, cpu = time.perf_counter(), time.process_time()
    for number in range(count):
        began = time.perf_counter()
        sock.sendall(frame)
        while flow.reply_count == number:
            _read(flow, buffer)
        times.append(time.perf_counter() - began)
    seconds = time.perf_counter() - started
    times.sort()
    return {
        "requests": count,
        "seconds": seconds,
        "cpu_seconds": time.process_time() - cpu,
        "reply_bytes": flow.reply_bytes,
        "sent_bytes": count * len(frame),
        "p50_us": 1e6 * times[count // 2],
        "p99_us": 1e6 * times[count * 99 // 100],
    }


if __name__ == "__main__":
    read = json.loads(sys.stdin.readline())
    seen = wait_until_ready(read) if "started" in read else run(read)
    sys.stdout.write(json.dumps(seen) + "\n")
