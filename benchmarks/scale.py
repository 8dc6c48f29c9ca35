"""What grows with the number of things: connections, topics, partitions.

Each row says beside its figures what the aim is. CPU time and counts matter more than the wall
clock on a machine that others use as well.
"""

from __future__ import annotations

import select
import socket
import time
from typing import TYPE_CHECKING

from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.bare import bare_server
from benchmarks.frames import metadata_frame
from benchmarks.harness import cpu_seconds, drive, started_broker
from benchmarks.limits import bare
from tests.cluster.support.load import QUIET

if TYPE_CHECKING:
    from benchmarks.harness import Subject

Figures = dict[str, float]
CONNECTIONS = 5_000
BURST_LIMIT_S = 120.0
TOPICS, MANY_TOPICS = 2_000, 9_500


def connection_burst() -> Figures:
    """5,000 clients that connect at once and send a request each (aim: 2 s until all have it)."""
    figures: Figures = {"connections": float(CONNECTIONS), "aim_s": 2.0}
    with bare_server("small", 50) as bare:
        figures["bare_s"] = Burst(bare, CONNECTIONS).seconds
    with started_broker() as broker:
        before = cpu_seconds(broker.process_id)
        seen = Burst(broker, CONNECTIONS)
        assert not seen.unanswered, f"{seen.unanswered} connections have no answer"
        used = cpu_seconds(broker.process_id) - before
    return figures | {
        "answered_s": seen.seconds,
        "resets": float(seen.resets),
        "broker_us_per_connection": 1e6 * used / CONNECTIONS,
    }


class Burst:
    """So many connections at once; ends when each has had an answer, or at the limit.

    Args:
        subject: The broker.
        count: Number of connections.
        limit_s: Longest time, in seconds. ``unanswered`` says how many have no answer then.
    """

    def __init__(self, subject: Subject, count: int, limit_s: float = BURST_LIMIT_S) -> None:
        self.resets = 0
        self.unanswered = count
        self._port = subject.port
        self._frame = metadata_frame()
        self._poller = select.epoll()
        self._peers: dict[int, socket.socket] = {}
        begun = time.perf_counter()
        try:
            for _ in range(count):
                self._connect()
            while self.unanswered and time.perf_counter() - begun < limit_s:
                events = self._poller.poll(1.0)
                self.unanswered -= sum(self._step(*event) for event in events)
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


def full_metadata() -> Figures:
    """A client that asks for all of 2,000 topics (aim: 2 ms at p50), beside a bare answer."""
    with started_broker() as broker:
        create_topics(broker.address, TOPICS, at_once=500)
        load = drive(
            broker, metadata_frame(all_topics=True), requests=300, pipeline=1, connections=1
        )
    size_bytes = load.reply_bytes // load.requests
    limit = bare(
        "answer",
        metadata_frame(all_topics=True),
        size_bytes=size_bytes,
        requests=300,
        pipeline=1,
        connections=1,
    )
    return {
        "topics": float(TOPICS),
        "aim_p50_ms": 2.0,
        "p50_ms": load.p50_us / 1000,
        "p99_ms": load.p99_us / 1000,
        "broker_ms_per_request": load.broker_us_per_request / 1000,
        "answer_kib": size_bytes / 1024,
        "bare_p50_ms": limit.p50_us / 1000,
    }


def create_topics(
    bootstrap: str, count: int, *, at_once: int, prefix: str = "topic"
) -> list[float]:
    """Create so many topics in requests of so many; the seconds that each request took."""
    admin = AdminClient({"bootstrap.servers": bootstrap}, logger=QUIET)
    took = []
    for first in range(0, count, at_once):
        begun = time.perf_counter()
        wanted = [
            NewTopic(f"{prefix}-{number:06}", 1, 1)
            for number in range(first, min(count, first + at_once))
        ]
        for created in admin.create_topics(wanted, operation_timeout=120).values():
            created.result(180)
        took.append(time.perf_counter() - begun)
    return took


def topic_creation() -> Figures:
    """960 topics in one request (aim 0.6 s), and what one more topic costs with 0 and with 9,500
    there (aim: the same)."""
    with started_broker() as broker:
        before = cpu_seconds(broker.process_id)
        (at_once_s,) = create_topics(broker.address, 960, at_once=960)
        at_once_cpu = cpu_seconds(broker.process_id) - before
    figures = {"aim_s": 0.6, "topics_960_s": at_once_s, "topics_960_cpu_s": at_once_cpu}
    with started_broker() as broker:
        first_ms = _cpu_ms_per_topic(broker, "early")
        create_topics(broker.address, MANY_TOPICS, at_once=500)
        time.sleep(5)
        last_ms = _cpu_ms_per_topic(broker, "late")
    return figures | {
        "cpu_ms_with_0_topics": first_ms,
        "cpu_ms_with_9500_topics": last_ms,
        "ratio": last_ms / first_ms,
    }


def _cpu_ms_per_topic(broker: Subject, prefix: str) -> float:
    """CPU of the broker for each of 100 topics that are created one after the other."""
    create_topics(broker.address, 10, at_once=1, prefix=f"{prefix}-warm")
    before = cpu_seconds(broker.process_id)
    create_topics(broker.address, 100, at_once=1, prefix=prefix)
    return 10 * (cpu_seconds(broker.process_id) - before)


SCALE_MEASUREMENTS = {
    "connection_burst": connection_burst,
    "full_metadata": full_metadata,
    "topic_creation": topic_creation,
}
