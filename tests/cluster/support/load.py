"""Numbered records from librdkafka with idempotence, and what must be there of them afterwards."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, Producer, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

TOPIC = "killed"
PARTITIONS = 3
QUIET = logging.getLogger("quiet")
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False
# The client connects to a broker that was away once a second, and then asks for much.
PROGRESS_S = 120.0


class NumberedLoad(ABC):
    """Produces numbered records, some thousand a second, until told to stop.

    ``settings`` are librdkafka's, beside those that every load has."""

    def __init__(self, address: str, settings: dict[str, Any], topic: str = TOPIC) -> None:
        self.topic = topic
        self.sent = 0
        # Numbers of records that are to be sent once more.
        self.again: list[int] = []
        self._stop = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": address,
                "message.timeout.ms": 600_000,
                "error_cb": lambda _error: None,
                **settings,
            },
            # It reports every refused connection, and there are many here.
            logger=QUIET,
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    @property
    @abstractmethod
    def acked_count(self) -> int:
        """How many records were acknowledged."""

    @abstractmethod
    def on_delivery(self, error: Any, message: Any) -> None:
        """The outcome of one record."""

    def _run(self) -> None:
        while not self._stop.is_set():
            number = self.again[-1] if self.again else self.sent
            try:
                self._send(number)
            except BufferError:
                # It has not been connected for long enough to send what it has.
                self._producer.poll(0.01)
                continue
            if self.again:
                self.again.pop()
            else:
                self.sent += 1
            self._producer.poll(0)
            if number % 4 == 0:
                # Enough to have requests under way at any time.
                time.sleep(0.002)

    def _send(self, number: int) -> None:
        self._producer.produce(
            self.topic, str(number), partition=number % PARTITIONS, on_delivery=self.on_delivery
        )

    def wait_for_progress(self, count: int = 1) -> None:
        """Until so many records more are acknowledged: a kill between them is what the tests are
        about."""
        known, deadline = self.acked_count, time.monotonic() + PROGRESS_S
        while self.acked_count < known + count:
            assert time.monotonic() < deadline, f"stuck after {known} acknowledged records"
            time.sleep(0.005)

    def finish(self) -> None:
        """Stop producing and wait until the outcome of every record is known."""
        self._stop.set()
        self._thread.join()
        deadline = time.monotonic() + PROGRESS_S
        while self._producer.flush(60) or self.again:
            assert time.monotonic() < deadline, "the outcome of records is not known"
            for number in [self.again.pop() for _ in range(len(self.again))]:
                self._send(number)


class Load(NumberedLoad):
    """With idempotence; keeps which records were acknowledged.

    ``connecting`` are settings of librdkafka, for reading, too."""

    def __init__(
        self, address: str, topic: str = TOPIC, connecting: Mapping[str, Any] | None = None
    ) -> None:
        self.connecting = dict(connecting or {})
        self.acked: list[tuple[int, int, int]] = []
        self.acked_at: dict[int, list[float]] = {number: [] for number in range(PARTITIONS)}
        self.failed: list[Any] = []
        settings = {
            "enable.idempotence": True,
            "linger.ms": 2,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 100,
            **self.connecting,
        }
        super().__init__(address, settings, topic)

    @property
    def acked_count(self) -> int:
        return len(self.acked)

    def on_delivery(self, error: Any, message: Any) -> None:
        if error is None:
            self.acked.append((message.partition(), message.offset(), int(message.value())))
            self.acked_at[message.partition()].append(time.monotonic())
        else:
            self.failed.append(error)

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


def read_partition(
    address: str,
    partition: int,
    topic: str = TOPIC,
    connecting: Mapping[str, Any] | None = None,
) -> list[tuple[int, int]]:
    """Offset and number of every record of a partition."""
    settings = {"bootstrap.servers": address, "group.id": "unused", "enable.auto.commit": False}
    consumer = Consumer({**settings, **(connecting or {})})
    try:
        where = TopicPartition(topic, partition, 0)
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
        found = read_partition(address, partition, load.topic, load.connecting)
        acked = {offset: number for where, offset, number in load.acked if where == partition}
        assert [offset for offset, _number in found] == list(range(len(found))), "offsets have gaps"
        numbers = [number for _offset, number in found]
        assert numbers == list(range(partition, load.sent, PARTITIONS)), "lost, twice or reordered"
        assert acked == dict(found)
