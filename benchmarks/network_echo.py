"""What the network alone costs: CPU time of the server per request, with handlers that do nothing.

``python -m benchmarks.network_echo`` prints a table and writes results/network_echo.json. The
server is a process of its own on uvloop; its CPU time is compared, not the wall clock, because
the load generator shares the machine.
"""

from __future__ import annotations

import asyncio
import gc
import json
import platform
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import uvloop

from ottla.broker.engine.tasks import Tasks
from ottla.broker.network.server import NetworkServer
from ottla.broker.network.settings import ListenerSpec, NetworkSettings
from ottla.broker.network.transport import BufferedTransport
from ottla.broker.system.real_disk import RealDisk, RealOffload
from ottla.protocol.ports import Address, FileRegion
from ottla.wire.clock import RealClock
from ottla.wire.real import RealNet

if TYPE_CHECKING:
    from ottla.broker.engine.context import ClientPeer, ReplySlot

RESULTS = Path(__file__).parent / "results" / "network_echo.json"
MIB = 1024 * 1024
ANSWER = bytes(24)
ECHO, REGION, COST = b"e", b"r", b"c"


class Load(NamedTuple):
    """``depth`` requests of each connection are on their way at any time."""

    name: str
    listener: str
    request_bytes: int
    connections: int
    depth: int
    kind: bytes = ECHO
    answer_bytes: int = len(ANSWER)


LOADS = [
    Load("100 B, one at a time", "PLAINTEXT", 100, 16, 1),
    Load("100 B, 8 pipelined", "PLAINTEXT", 100, 64, 8),
    Load("100 B, 64 pipelined", "PLAINTEXT", 100, 16, 64),
    Load("16 KiB, 5 pipelined", "PLAINTEXT", 16 * 1024, 4, 5),
    Load("1 MiB, one at a time", "PLAINTEXT", MIB, 4, 1),
    Load("1 MiB, 2 pipelined", "PLAINTEXT", MIB, 4, 2),
    Load("64 KiB region, sendfile", "PLAINTEXT", 100, 4, 1, REGION, 64 * 1024),
    Load("64 KiB region, buffered", "BUFFERED", 100, 4, 1, REGION, 64 * 1024),
    Load("1 MiB region, sendfile", "PLAINTEXT", 100, 4, 1, REGION, MIB),
    Load("1 MiB region, buffered", "BUFFERED", 100, 4, 1, REGION, MIB),
]


async def serve(path: str) -> None:
    """The measured process: prints its ports, runs until its standard input ends."""
    file = RealDisk(RealOffload(1)).open(path)

    def dispatch(_peer: ClientPeer, frame: memoryview, reply: ReplySlot) -> None:
        kind = frame[0]
        if kind == ECHO[0]:
            reply.send((ANSWER,))
        elif kind == REGION[0]:
            reply.send((ANSWER, FileRegion(file, 0, int.from_bytes(frame[1:5], "big"))))
        else:
            reply.send((struct.pack(">d", time.process_time()),))

    server = NetworkServer(RealNet(), RealClock(), Tasks(), dispatch, NetworkSettings())
    loopback = Address("127.0.0.1", 0)
    specs = [
        ListenerSpec("PLAINTEXT", loopback),
        ListenerSpec("BUFFERED", loopback, transport=BufferedTransport),
    ]
    ports = {name: address.port for name, address in server.bind(specs).items()}
    server.start()
    gc.freeze()
    print(json.dumps(ports), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await server.stop(drain_ms=0)


def server_cpu_seconds(control: socket.socket) -> float:
    control.sendall(struct.pack(">i", 1) + COST)
    answer = control.recv(12, socket.MSG_WAITALL)
    seconds: float = struct.unpack(">d", answer[4:])[0]
    return seconds


def drive(load: Load, port: int, control: socket.socket, seconds: float) -> dict[str, float]:
    """Keep all connections at their depth for that long; the cost per request."""
    content = load.kind + load.answer_bytes.to_bytes(4, "big")
    request = struct.pack(">i", load.request_bytes) + content.ljust(load.request_bytes, b"\0")
    burst = request * load.depth
    answer_bytes = 4 + load.answer_bytes + (len(ANSWER) if load.kind == REGION else 0)
    awaited_bytes = answer_bytes * load.depth
    sink = bytearray(max(awaited_bytes, MIB))
    peers = deque(socket.create_connection(("127.0.0.1", port)) for _ in range(load.connections))
    for peer in peers:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer.sendall(burst)
    count = 0
    began = time.perf_counter()
    began_cpu = server_cpu_seconds(control)
    while time.perf_counter() - began < seconds:
        for peer in peers:
            missing = awaited_bytes
            while missing:
                missing -= peer.recv_into(sink, missing)
            peer.sendall(burst)
            count += load.depth
    cpu = server_cpu_seconds(control) - began_cpu
    elapsed = time.perf_counter() - began
    for peer in peers:
        peer.close()
    return {
        "cpu_us_per_request": 1e6 * cpu / count,
        "requests_per_second": count / elapsed,
        "server_cores": cpu / elapsed,
        "megabytes_per_second": count * (load.request_bytes + answer_bytes) / elapsed / 1e6,
    }


def measure(seconds: float, chosen: list[Load]) -> dict[str, dict[str, float]]:
    """Each load three times; the run with the median CPU time counts."""
    results = {}
    with tempfile.NamedTemporaryFile() as segment:
        segment.write(bytes(MIB))
        segment.flush()
        command = [sys.executable, "-m", "benchmarks.network_echo", "serve", segment.name]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as server:
            assert server.stdin is not None
            assert server.stdout is not None
            ports = json.loads(server.stdout.readline())
            with socket.create_connection(("127.0.0.1", ports["PLAINTEXT"])) as control:
                for load in chosen:
                    runs = [drive(load, ports[load.listener], control, seconds) for _ in range(3)]
                    runs.sort(key=lambda run: run["cpu_us_per_request"])
                    results[load.name] = runs[1]
                    line = ", ".join(f"{name} {value:.2f}" for name, value in runs[1].items())
                    print(f"{load.name:28} {line}", flush=True)
            server.stdin.close()
    return results


def main() -> None:
    """All loads, or those whose name contains the first argument."""
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    results = measure(0.7, [load for load in LOADS if wanted in load.name])
    if not wanted:
        commit = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
        ).stdout.strip()
        machine = f"{platform.machine()} {platform.system()} Python {platform.python_version()}"
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(
            json.dumps({"commit": commit, "machine": machine, "results": results}, indent=2) + "\n"
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        uvloop.run(serve(sys.argv[2]))
    else:
        main()
