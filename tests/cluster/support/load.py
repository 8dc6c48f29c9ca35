"""Numbered records from librdkafka with idempotence, and what must be there of them afterwards."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

TOPIC = "killed"
PARTITIONS = 3
QUIET = logging.getLogger("quiet")
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False
# The client connects to a broker that was away once a second, and then asks for much.
PROGRESS_S = 120.0


class Load:
    """Produces numbered records until told to stop, and keeps which were acknowledged."""

    def __init__(self, address: str) -> None:
        self.acked: list[tuple[int, int, int]] = []
        self.acked_at: dict[int, list[float]] = {number: [] for number in range(PARTITIONS)}
        self.failed: list[Any] = []
        self.sent = 0
        self._stop = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": address,
                "enable.idempotence": True,
                "linger.ms": 2,
                "message.timeout.ms": 600_000,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "error_cb": lambda _error: None,
            },
            # It reports every refused connection, and there are many here.
            logger=QUIET,
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            number = self.sent
            try:
                self._producer.produce(
                    TOPIC, str(number), partition=number % PARTITIONS, on_delivery=self._on_delivery
                )
            except BufferError:
                # It has not been connected for long enough to send what it has.
                self._producer.poll(0.01)
                continue
            self.sent += 1
            self._producer.poll(0)
            if number % 4 == 0:
                # Enough to have requests under way at any time.
                time.sleep(0.002)

    def _on_delivery(self, error: Any, message: Any) -> None:
        if error is None:
            self.acked.append((message.partition(), message.offset(), int(message.value())))
            self.acked_at[message.partition()].append(time.monotonic())
        else:
            self.failed.append(error)

    def wait_for_progress(self) -> None:
        """Until records are acknowledged again: a kill between them is what the tests are about."""
        known, deadline = len(self.acked), time.monotonic() + PROGRESS_S
        while len(self.acked) == known:
            assert time.monotonic() < deadline, f"stuck after {known} acknowledged records"
            time.sleep(0.005)

    def wait_for_all(self) -> None:
        """Until something that is sent from now on was acknowledged for every partition."""
        begun = time.monotonic()
        for times in self.acked_at.values():
            # What is acknowledged in half a second from now was mostly sent after it.
            while not times or times[-1] < begun + 0.5:
                assert time.monotonic() < begun + PROGRESS_S, "a partition is stuck"
                time.sleep(0.01)

    def longest_gap(self, begun: float, ended: float) -> float:
        """The longest time in which nothing was acknowledged for one of the partitions."""
        return max(
            later - earlier
            for times in self.acked_at.values()
            for earlier, later in itertools.pairwise(times)
            if later > begun and earlier < ended
        )

    def finish(self) -> None:
        """Stop producing and wait until every record is acknowledged."""
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(60) == 0


def read_partition(address: str, partition: int) -> list[tuple[int, int]]:
    """Offset and number of every record of a partition."""
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": "unused", "enable.auto.commit": False}
    )
    try:
        where = TopicPartition(TOPIC, partition, 0)
        _low, high = consumer.get_watermark_offsets(where, timeout=60)
        consumer.assign([where])
        found: list[tuple[int, int]] = []
        while len(found) < high:
            # No more than there are: it waits for all that it is asked for.
            messages = consumer.consume(min(10_000, high - len(found)), timeout=60)
            assert messages, f"{len(found)} of {high} records came"
            found += [(m.offset(), int(m.value())) for m in messages if m.error() is None]
        return found
    finally:
        consumer.close()


def check(load: Load, address: str) -> None:
    """Compare what was acknowledged with what is there."""
    assert load.failed == []
    assert len(load.acked) == load.sent
    for partition in range(PARTITIONS):
        found = read_partition(address, partition)
        acked = {offset: number for where, offset, number in load.acked if where == partition}
        assert [offset for offset, _number in found] == list(range(len(found))), "offsets have gaps"
        numbers = [number for _offset, number in found]
        assert numbers == list(range(partition, load.sent, PARTITIONS)), "lost, twice or reordered"
        assert acked == dict(found)
