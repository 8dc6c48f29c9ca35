"""What grows with the number of things: connections, topics, partitions.

Each row says beside its figures what the aim is. CPU time and counts matter more than the wall
clock on a machine that others use as well.
"""

from __future__ import annotations

import select
import socket
import time
from typing import TYPE_CHECKING

from benchmarks.bare import bare_server
from benchmarks.frames import metadata_frame
from benchmarks.harness import cpu_seconds, started_broker

if TYPE_CHECKING:
    from benchmarks.harness import Subject

Figures = dict[str, float]
CONNECTIONS = 5_000
BURST_LIMIT_S = 120.0


def connection_burst() -> Figures:
    """5,000 clients that connect at once and send a request each (aim: 2 s until all have it)."""
    figures: Figures = {"connections": float(CONNECTIONS), "aim_s": 2.0}
    with bare_server("small", 50) as bare:
        figures["bare_s"] = Burst(bare, CONNECTIONS).seconds
    with started_broker() as broker:
        before = cpu_seconds(broker.process_id)
        seen = Burst(broker, CONNECTIONS)
        used = cpu_seconds(broker.process_id) - before
    return figures | {
        "answered_s": seen.seconds,
        "resets": float(seen.resets),
        "broker_us_per_connection": 1e6 * used / CONNECTIONS,
    }


class Burst:
    """So many connections at once; ends when each has had an answer."""

    def __init__(self, subject: Subject, count: int) -> None:
        self.resets = 0
        self._port = subject.port
        self._frame = metadata_frame()
        self._poller = select.epoll()
        self._peers: dict[int, socket.socket] = {}
        begun = time.perf_counter()
        try:
            for _ in range(count):
                self._connect()
            while count:
                if time.perf_counter() - begun > BURST_LIMIT_S:
                    raise AssertionError(f"{count} connections have no answer")
                count -= sum(self._step(*event) for event in self._poller.poll(1.0))
            self.seconds = time.perf_counter() - begun
        finally:
            for peer in self._peers.values():
                peer.close()
            self._poller.close()

    def _connect(self) -> None:
        peer = socket.socket()
        peer.setblocking(False)
        peer.connect_ex(("127.0.0.1", self._port))
        self._peers[peer.fileno()] = peer
        self._poller.register(peer.fileno(), select.EPOLLOUT)

    def _step(self, descriptor: int, events: int) -> bool:
        """Whether the connection has its answer now. One that was reset comes again, as a client
        does."""
        peer = self._peers[descriptor]
        try:
            if events & select.EPOLLOUT:
                peer.sendall(self._frame)
                self._poller.modify(descriptor, select.EPOLLIN)
                return False
            if peer.recv(65_536):
                self._poller.unregister(descriptor)
                return True
        except OSError:
            pass
        self.resets += 1
        self._poller.unregister(descriptor)
        self._peers.pop(descriptor).close()
        self._connect()
        return False


SCALE_MEASUREMENTS = {"connection_burst": connection_burst}
