"""Counts what the interpreter does for one small produce and one small fetch: the same everywhere.

``python -m tests.broker.network.work`` prints calls of functions and executed bytecodes for each
request, as JSON. Time says less: it depends on the machine and on what else runs there. A broker in
this process gets requests from a socket without a kernel; the work of that socket and of the disk
in memory does not count.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

from benchmarks.frames import batch_of, fetch_frame, produce_frame
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.ports import Address, SocketOptions
from ottla.wire.real import RealNet
from tests.broker.support.requests import create
from tests.support.in_process import running_broker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

    from ottla.broker.partitions.partitions import Partitions
    from ottla.protocol.ports import Buffer, File, Listener, Socket
    from tests.support.in_process import RunningBroker

TOPIC = "small"
# So that what happens once in 64 requests counts with its share.
EVENTS = 128
PIPELINED = 16
NOT_COUNTED = ("memory_disk.py", "work.py")


class StubSocket:
    """Gives the same bytes at each read, and takes all that is sent."""

    local = Address("127.0.0.1", 1)
    peer = Address("127.0.0.1", 2)

    def __init__(self) -> None:
        self.input = b""
        self.read: Callable[[], object] | None = None
        self.sent_bytes = 0

    def recv_into(self, buffer: memoryview) -> int:
        buffer[: len(self.input)] = self.input
        return len(self.input)

    def sendmsg(self, buffers: Sequence[Buffer], *, more: bool = False) -> int:
        count = sum(map(len, buffers))
        self.sent_bytes += count
        return count

    def sendfile(self, file: File, position: int, count: int) -> int:
        self.sent_bytes += count
        return count

    def has_hung_up(self) -> bool:
        return False

    def on_readable(self, callback: Callable[[], object] | None) -> None:
        self.read = callback

    def on_writable(self, callback: Callable[[], object] | None) -> None:
        assert callback is None, "all that is sent is taken"

    def close(self) -> None:
        """There is nothing behind it."""


class StubListener:
    """A real listener that accepts the stub first."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self.address = listener.address
        self.on_readable = listener.on_readable
        self.close = listener.close
        self.waiting: list[StubSocket] = []

    def accept(self) -> Socket:
        return self.waiting.pop() if self.waiting else self._listener.accept()


class StubNet(RealNet):
    """The network, with the only listener of the broker within reach."""

    __slots__ = ("listener",)

    listener: StubListener

    def listen(self, address: Address, options: SocketOptions) -> StubListener:  # type: ignore[override]
        self.listener = StubListener(super().listen(address, options))
        return self.listener


def counted(run: Callable[[], object]) -> Counter[str]:
    """Calls and bytecodes of the product's code while it runs."""
    found: Counter[str] = Counter()

    def counts(frame: FrameType) -> bool:
        return not frame.f_code.co_filename.endswith(NOT_COUNTED)

    def profile(frame: FrameType, event: str, _argument: Any) -> None:
        if event in ("call", "c_call") and counts(frame):
            found["calls"] += 1

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        frame.f_trace_opcodes = counts(frame)
        frame.f_trace_lines = False
        found["bytecodes"] += event == "opcode"
        return trace

    sys.setprofile(profile)
    run()
    sys.setprofile(None)
    sys.settrace(trace)
    run()
    sys.settrace(None)
    return found


def per_request(socket: StubSocket, frame: bytes, depth: int) -> dict[str, float]:
    """What each request costs of those that come in one read together."""
    assert socket.read is not None
    read, before = socket.read, socket.sent_bytes
    socket.input = frame * depth

    def run() -> None:
        for _ in range(EVENTS):
            read()

    run()
    assert socket.sent_bytes > before, "nothing was answered"
    return {what: count / EVENTS / depth for what, count in counted(run).items()}


async def measure(running: RunningBroker, net: StubNet) -> dict[str, dict[str, float]]:
    """The work by kind of request."""
    socket = StubSocket()
    async with running.connect() as client:
        await create(client, TOPIC, 1)
        net.listener.waiting.append(socket)
        async with running.connect() as another:
            # Answered when both it and the stub are connected.
            await another.call(0, ApiVersionsRequest())
            return measured(socket, running.broker.partitions)


def measured(socket: StubSocket, partitions: Partitions) -> dict[str, dict[str, float]]:
    """As ``measure``, once the stub is connected."""
    produce = produce_frame(TOPIC, 0, batch_of(1, 100))
    found = {
        "produce": per_request(socket, produce, 1),
        "produce of 16": per_request(socket, produce, PIPELINED),
    }
    partition = partitions.find(TOPIC, 0)
    assert partition is not None
    last = partition.log.log_end_offset - 1
    found["fetch"] = per_request(socket, fetch_frame(TOPIC, 0, last, 1 << 20), 1)
    return found


async def main() -> None:
    """Measure in a broker of its own."""
    net = StubNet()
    async with running_broker(net=net) as running:
        found = await measure(running, net)
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    asyncio.run(main())
