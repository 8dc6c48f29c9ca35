"""A program between two hosts: a link with a rate and a delay, as over a satellite.

``python -m tests.support.relays.far_link ADDRESS TARGET BYTES_PER_S DELAY_MS`` listens at the one
address and connects to the other. Both directions have the rate, shared by all connections, and the
delay. It writes ``ready``, and then twice a second how many bytes have entered on the way to the
target. It holds no more than what is under way, so that a sender waits as it would for the link.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Self

from tests.support.broker_process import ROOT

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import Callable, Sequence

CHUNK_BYTES = 4_096
BUFFER_BYTES = 16_384
REPORT_S = 0.5


class FarWay:
    """One direction of the link."""

    def __init__(self, bytes_per_s: int, delay_s: float) -> None:
        self.carried_bytes = 0
        self._bytes_per_s = bytes_per_s
        self._delay_s = delay_s
        self._free_at = 0.0
        # What fits between the two ends, and a few chunks in the buffers of both.
        self._chunks_max = 8 + int(bytes_per_s * delay_s) // CHUNK_BYTES

    async def carry(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Carry the bytes of one connection until its end, and then close the other side."""
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(self._chunks_max)
        given = asyncio.create_task(self._give(under_way, writer))
        try:
            with contextlib.suppress(OSError):
                while chunk := await reader.read(CHUNK_BYTES):
                    await self._turn(len(chunk))
                    await under_way.put((time.monotonic() + self._delay_s, chunk))
            await under_way.put((time.monotonic() + self._delay_s, b""))
            await given
        finally:
            given.cancel()
            writer.close()

    async def _turn(self, count: int) -> None:
        """Wait until so many bytes have entered the link, behind those of other connections."""
        self._free_at = max(time.monotonic(), self._free_at) + count / self._bytes_per_s
        await _until(self._free_at)
        self.carried_bytes += count

    async def _give(self, under_way: asyncio.Queue[tuple[float, bytes]], out: StreamWriter) -> None:
        is_open = True
        while True:
            due, chunk = await under_way.get()
            if not chunk:
                return
            await _until(due)
            # What is under way to a host that has closed is lost.
            if is_open:
                try:
                    out.write(chunk)
                    await out.drain()
                except OSError:
                    is_open = False


async def _until(moment: float) -> None:
    left_s = moment - time.monotonic()
    if left_s > 0:
        await asyncio.sleep(left_s)


async def serve(address: str, target: str, bytes_per_s: int, delay_s: float) -> None:
    """Run the link until the process is stopped."""
    there, back = FarWay(bytes_per_s, delay_s), FarWay(bytes_per_s, delay_s)

    async def connect(reader: StreamReader, writer: StreamWriter) -> None:
        host, _, port = target.rpartition(":")
        answers, requests = await asyncio.open_connection(host, int(port), limit=CHUNK_BYTES)
        for one in (writer, requests):
            one.transport.set_write_buffer_limits(high=BUFFER_BYTES)
        await asyncio.gather(there.carry(reader, requests), back.carry(answers, writer))

    host, _, port = address.rpartition(":")
    listening = socket.create_server((host, int(port)))
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
    async with await asyncio.start_server(connect, sock=listening, limit=CHUNK_BYTES):
        print("ready", flush=True)
        while True:
            await asyncio.sleep(REPORT_S)
            print(there.carried_bytes, flush=True)


class FarLink:
    """The program on a host: ``with FarLink(launcher, address, target, bytes_per_s, delay_ms)``."""

    def __init__(
        self, launcher: Sequence[str], address: str, target: str, bytes_per_s: int, delay_ms: int
    ) -> None:
        """``launcher`` is put before the command."""
        self.carried_bytes = 0
        self._command = [
            *(*launcher, sys.executable, "-m", "tests.support.relays.far_link"),
            *(address, target, str(bytes_per_s), str(delay_ms)),
        ]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, text=True, cwd=ROOT, bufsize=1
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def wait_until_carried(self, count: int, is_alive: Callable[[], bool]) -> None:
        """Until so many bytes have entered on the way there; fails if the sender ends before."""
        while self.carried_bytes < count:
            assert is_alive(), f"the sender has ended after {self.carried_bytes} bytes"
            time.sleep(REPORT_S / 2)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.carried_bytes = int(line)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]) / 1000))
