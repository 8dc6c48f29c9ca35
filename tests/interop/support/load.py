"""Records for the members of a group to read, written while they come and go."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from confluent_kafka import Producer

if TYPE_CHECKING:
    from tests.interop.support.members import Partition

PARTITIONS = 8


class Load(threading.Thread):
    """Writes records to all partitions in turn, paced, and knows where each partition ends."""

    def __init__(self, address: str, topic: str, count: int, per_second: int) -> None:
        super().__init__(daemon=True)
        self.ends: dict[Partition, int] = {(topic, number): 0 for number in range(PARTITIONS)}
        self.errors: list[str] = []
        self._producer = Producer({"bootstrap.servers": address, "linger.ms": 5})
        self._topic, self._count, self._per_second = topic, count, per_second
        self.start()

    def run(self) -> None:
        started = time.monotonic()
        for number in range(self._count):
            where = (self._topic, number % PARTITIONS)
            self._producer.produce(*where[:1], value=b"%d" % number, partition=where[1])
            self.ends[where] += 1
            if number % 500 == 499:
                self._producer.poll(0)
                ahead = started + number / self._per_second - time.monotonic()
                time.sleep(max(0.0, ahead))
        left = self._producer.flush(30)
        if left:
            self.errors.append(f"{left} records were not delivered")

    def finish(self) -> dict[Partition, int]:
        """Wait for the last record; where each partition ends."""
        self.join(120)
        assert not self.errors
        assert not self.is_alive()
        return self.ends
