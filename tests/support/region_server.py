"""A program that serves regions of a file, for a test that watches its system calls.

Arguments: the file, and 'sendfile' or 'buffered'. Prints its port, then answers every request,
``position:count`` as text, with that region, until its standard input ends.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from ottla.broker.engine.tasks import Tasks
from ottla.broker.network.server import NetworkServer
from ottla.broker.network.settings import ListenerSpec, NetworkSettings
from ottla.broker.network.transport import BufferedTransport, PlaintextTransport
from ottla.broker.system.real_disk import RealDisk, RealOffload
from ottla.protocol.ports import Address, FileRegion
from ottla.wire.clock import RealClock
from ottla.wire.real import RealNet

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.engine.context import ClientPeer, ReplySlot
    from ottla.broker.network.transport import ConnectionTransport
    from ottla.protocol.ports import Socket

TRANSPORTS: dict[str, Callable[[Socket], ConnectionTransport]] = {
    "sendfile": PlaintextTransport,
    "buffered": BufferedTransport,
}


async def serve(path: str, transport: str) -> None:
    file = RealDisk(RealOffload(1)).open(path)

    def dispatch(_peer: ClientPeer, frame: memoryview, reply: ReplySlot) -> None:
        position, count = map(int, bytes(frame).split(b":"))
        reply.send([b"header", FileRegion(file, position, count), b"trailer"])

    server = NetworkServer(RealNet(), RealClock(), Tasks(), dispatch, NetworkSettings())
    spec = ListenerSpec("PLAINTEXT", Address("127.0.0.1", 0), transport=TRANSPORTS[transport])
    port = server.bind([spec])["PLAINTEXT"].port
    server.start()
    print(port, file.fileno(), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await server.stop(drain_ms=0)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], sys.argv[2]))
