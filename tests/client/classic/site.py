"""Brokers on a real ZooKeeper, and threads that read streams, for tests of the classic clients."""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import ottla.sync
from ottla.classic import ConsumerConnector
from tests.zookeeper.in_process import ensemble

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable
    from pathlib import Path

    from ottla.classic import KafkaStream, MessageAndMetadata
    from tests.zookeeper.in_process import Ensemble

Result = TypeVar("Result")

# Consumers that come and go quickly, and commit only when a test says so.
SETTINGS: dict[str, object] = {
    "rebalance.backoff.ms": 100,
    "rebalance.max.retries": 100,
    "auto.offset.reset": "smallest",
}


class StreamReader:
    """A thread that reads a stream to its end."""

    def __init__(self, stream: KafkaStream[Any, Any]) -> None:
        self.messages: list[MessageAndMetadata[Any, Any]] = []
        self.failure: Exception | None = None
        self._stream = stream
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        try:
            for message in self._stream:
                self.messages.append(message)
        except Exception as error:
            self.failure = error

    @property
    def values(self) -> list[bytes]:
        """The messages alone."""
        return [bytes(one.message) for one in self.messages if one.message is not None]

    @property
    def has_ended(self) -> bool:
        return not self._thread.is_alive()


class ClassicSite:
    """Calls of blocking clients run in threads here: the brokers need the event loop."""

    def __init__(self, brokers: Ensemble) -> None:
        self.brokers = brokers
        self.connectors: list[ConsumerConnector] = []

    @property
    def bootstrap(self) -> str:
        """The address of the first broker."""
        address = next(iter(self.brokers.brokers.values())).address
        return f"{address.host}:{address.port}"

    async def topic(self, name: str, partitions: dict[int, list[int]]) -> None:
        """Create a topic as Kafka's older tools do, and wait for its leaders."""
        assignment = {str(number): replicas for number, replicas in partitions.items()}
        self.brokers.write(f"/brokers/topics/{name}", {"version": 1, "partitions": assignment})

        def is_led() -> bool:
            broker = next(iter(self.brokers.brokers.values()))
            return all(broker.metadata.leader_of(name, one)[0] >= 0 for one in partitions)

        await self.until(is_led)

    async def until(self, holds: Callable[[], bool], limit_s: float = 60.0) -> None:
        """Wait until it holds. Raises TimeoutError."""
        async with asyncio.timeout(limit_s):
            while not holds():
                await asyncio.sleep(0.02)

    async def send(self, topic: str, values: Iterable[bytes], partition: int | None = None) -> None:
        """Produce with today's producer."""

        def work() -> None:
            with ottla.sync.Producer(self.bootstrap) as producer:
                for value in values:
                    producer.send(topic, value, partition=partition)

        await asyncio.to_thread(work)

    def connector(self, group: str = "g", **settings: object) -> ConsumerConnector:
        """A consumer of the group; settings by names with ``_`` for the dots."""
        named = {name.replace("_", "."): value for name, value in settings.items()}
        properties = {"zookeeper.connect": self.brokers.place, "group.id": group}
        made = ConsumerConnector({**SETTINGS, **properties, **named})
        self.connectors.append(made)
        return made

    async def close(self) -> None:
        for one in self.connectors:
            await asyncio.to_thread(one.shutdown)


@asynccontextmanager
async def classic_site(folder: Path, *node_ids: int, **settings: str) -> AsyncIterator[ClassicSite]:
    """Brokers with these ids, 1 unless told otherwise."""
    async with ensemble(folder) as brokers:
        internal = {"offsets_topic_replication_factor": "1"}
        await brokers.start(*(node_ids or (1,)), **{**internal, **settings})
        made = ClassicSite(brokers)
        try:
            yield made
        finally:
            await made.close()
