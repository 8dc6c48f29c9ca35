"""The classic producer: synchronous or with a queue, over brokers from ZooKeeper or from a list."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from ottla.client.classic.broker_partitions import BrokerPartition, by_broker, choose
from ottla.client.classic.cluster_watch import ClusterWatch
from ottla.client.classic.listed_brokers import ListedBrokers
from ottla.client.classic.owned import ClassicClient
from ottla.client.classic.plug_ins import (
    DefaultPartitioner,
    QueueItem,
    TopicEvents,
    key_bytes,
    payload_of,
)
from ottla.client.classic.produce_calls import ProduceTerms, produce
from ottla.client.classic.producer_settings import ASYNC, ClassicProducerConfig
from ottla.client.classic.reaching import open_zookeeper
from ottla.client.classic.send_thread import QueueLimits, SendThread
from ottla.client.process.environment import real_environment
from ottla.protocol.errors import ErrorCode
from ottla.wire.connection_config import ConnectionConfig
from ottla.wire.errors import ClientClosed, ClientError, RequestRefused, TransportError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ottla.client.classic.reaching import OpenStore
    from ottla.coordinator.store.store import MetadataSession
    from ottla.protocol.records.record import Entry
    from ottla.wire.pool import Pool

logger = logging.getLogger("ottla.classic")


class Routing(Protocol):
    """The brokers, and the partitions that they lead."""

    @property
    def pool(self) -> Pool:
        """A connection for each broker."""

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def partitions(self, topic: str) -> list[BrokerPartition]:
        """Return the list that a partitioner chooses from. Raises ClientError."""

    def leader_moved(self, topic: str) -> None:
        """A broker has refused a partition that it does not lead."""


class ClassicProducer(ClassicClient):
    """Sends events to topics; ``ottla.classic.Producer``.

    With ``producer.type=sync`` a call of ``send`` returns when the brokers have answered. With
    ``async`` it queues the events and returns; a thread sends them in batches. May be used by
    several threads.

    Args:
        properties: Settings by the documents' names, such as ``zk.connect`` or ``broker.list``,
            ``producer.type``, ``serializer.class`` and ``partitioner.class``; see docs/classic.md.
            TLS and logins by the names of today's clients, such as ``security.protocol``.
        open_store: What opens the metadata store; None (default) for ZooKeeper. For tests.

    Raises:
        ValueError: A setting is unknown, missing or invalid.
        StoreError: ZooKeeper cannot be reached.
        NoBrokers: ZooKeeper lists no broker.

    Example:
        with ottla.classic.Producer({"broker.list": "127.0.0.1:9092"}) as producer:
            producer.send(ottla.classic.ProducerData("orders", "key", [b"value"]))
    """

    def __init__(
        self, properties: Mapping[str, object], open_store: OpenStore | None = None
    ) -> None:
        super().__init__()
        config = self.config = ClassicProducerConfig.read(properties)
        self._open_store = open_store or partial(open_zookeeper, login=config.store_login)
        self._environment = real_environment()
        self._encoder = config.encoder()
        self._partitioner = self._make_partitioner()
        self._handler = config.event_handler()
        self._handler.init(properties)
        self._callbacks = config.callback_handler()
        self._callbacks.init(properties)
        self._terms = ProduceTerms(config.acks, config.timeout_ms, config.codec)
        self._is_closed = False
        self._routing: Routing = self._run(self._start())
        self._thread: SendThread | None = None
        if config.kind == ASYNC:
            limits = QueueLimits(
                config.queue_time_ms,
                config.batch_size,
                config.queue_size,
                config.enqueue_timeout_ms,
            )
            self._thread = SendThread(limits, self._callbacks, self._handle)

    def send(self, data: TopicEvents | Sequence[TopicEvents]) -> None:
        """Send events, or queue them if the producer is asynchronous.

        Args:
            data: One ``ProducerData`` or several of them.

        Raises:
            RequestRefused: A broker refused events, or there is no such topic.
            TransportError: A broker did not answer.
            QueueFull: The queue is full; only of an asynchronous producer.
            ClientClosed: The producer is closed.
        """
        if self._is_closed:
            raise ClientClosed("the producer is closed; create another one")
        several = [data] if isinstance(data, TopicEvents) else data
        items = [QueueItem(each, one.topic, one.key) for one in several for each in one.data]
        if self._thread is None:
            self._handle(items)
            return
        for item in items:
            self._thread.put(item)

    def close(self) -> None:
        """Send what is queued, and close the connections. A second call does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._thread is not None:
            self._thread.close()
            self._callbacks.close()
        self._handler.close()
        self._run(self._routing.close())

    @property
    def pool(self) -> list[int]:
        """The brokers that have a place in the connection pool."""
        return sorted(getattr(self._routing, "brokers", ()))

    def partitions_of(self, topic: str) -> list[BrokerPartition]:
        """The list of (broker id, partition), sorted, that a partitioner chooses from.

        Args:
            topic: The topic's name.

        Returns:
            The partitions that have a leader.

        Raises:
            RequestRefused: There is no such topic.
        """
        return self._run(self._routing.partitions(topic))

    def _make_partitioner(self) -> Any:
        if self.config.partitioner is DefaultPartitioner:
            return DefaultPartitioner(self._environment.random.child("partitioner"))
        return self.config.partitioner()

    async def _start(self) -> Routing:
        config = self.config
        connections = ConnectionConfig(
            client_id=config.client_id,
            request_timeout_ms=config.timeout_ms,
            connect_timeout_ms=config.connect_timeout_ms,
            security=config.security,
        )
        routing: Routing
        if config.zookeeper_connect is None:
            routing = ListedBrokers(config.brokers, self._environment, connections)
        else:
            store = await self._open_store(config.zookeeper_connect, config.connection_timeout_ms)

            async def open_session() -> MetadataSession:
                return await store.connect(config.session_timeout_ms)

            routing = ClusterWatch(open_session, self._environment, connections)
        try:
            await routing.start()
        except BaseException:
            await routing.close()
            raise
        return routing

    def _handle(self, items: list[QueueItem]) -> None:
        self._handler.handle(items, self._send_encoded, self._encoder)

    def _send_encoded(self, items: Sequence[QueueItem]) -> None:
        """Send encoded events, and wait for the answers."""
        self._run(self._dispatch(items))

    async def _dispatch(self, items: Sequence[QueueItem]) -> None:
        now_ms = self._environment.clock.wall_ms()
        left: list[tuple[BrokerPartition, str, Entry]] = []
        lists: dict[str, list[BrokerPartition]] = {}
        for item in items:
            if item.topic not in lists:
                lists[item.topic] = await self._routing.partitions(item.topic)
            place = choose(self._partitioner, item.key, lists[item.topic])
            entry = (now_ms, key_bytes(item.key), payload_of(item.data), ())
            left.append((place, item.topic, entry))
        failures = 0
        while True:
            left, failure = await self._sent(left)
            if failure is None:
                return
            failures += 1
            if failures > self.config.retries or not left:
                raise failure
            await self._environment.clock.sleep(self.config.backoff_ms)
            left = await self._led_again(left)

    async def _sent(
        self, routed: Sequence[tuple[BrokerPartition, str, Entry]]
    ) -> tuple[list[tuple[BrokerPartition, str, Entry]], ClientError | None]:
        """Send to all brokers concurrently; return the events to retry, and the first failure."""
        groups = by_broker(routed)
        results = await asyncio.gather(*(self._sent_to(*one) for one in groups.items()))
        again: list[tuple[BrokerPartition, str, Entry]] = []
        first: ClientError | None = None
        for broker, refused in zip(groups, results, strict=True):
            for (topic, number), error in refused.items():
                first = first or error
                if not _may_repeat(error):
                    return [], error
                self._routing.leader_moved(topic)
                place = BrokerPartition(broker, number)
                again += [(place, topic, entry) for entry in groups[broker][topic][number]]
        return again, first

    async def _sent_to(
        self, broker: int, topics: Mapping[str, Mapping[int, list[Entry]]]
    ) -> Mapping[tuple[str, int], ClientError]:
        """Send to one broker; return the refused partitions."""
        try:
            connection = await self._routing.pool.connection(broker)
            refused = await produce(connection, topics, self._terms)
            return {(where.topic, where.partition): one for where, one in refused.items()}
        except TransportError as error:
            failure: ClientError = error
        except KeyError:
            failure = RequestRefused(
                ErrorCode.LEADER_NOT_AVAILABLE, f"broker {broker} has left the cluster"
            )
        return {(topic, number): failure for topic in topics for number in topics[topic]}

    async def _led_again(
        self, left: Sequence[tuple[BrokerPartition, str, Entry]]
    ) -> list[tuple[BrokerPartition, str, Entry]]:
        """Return the same partitions with their present leaders."""
        found = []
        for place, topic, entry in left:
            now = await self._routing.partitions(topic)
            led = {one.partition: one for one in now}
            found.append((led.get(place.partition, place), topic, entry))
        return found


def _may_repeat(error: ClientError) -> bool:
    """Whether a retry may succeed and cannot store an event twice."""
    if isinstance(error, TransportError):
        return error.retriable and not error.was_sent
    return isinstance(error, RequestRefused) and error.retriable
