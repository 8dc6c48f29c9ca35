"""The classic consumer: streams of topics, shared within a group in ZooKeeper."""

from __future__ import annotations

import contextlib
import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.client.admin import Admin
from ottla.client.classic.consumer_settings import (
    KAFKA,
    LARGEST,
    SMALLEST,
    ClassicConsumerConfig,
)
from ottla.client.classic.feeding import StreamFeed
from ottla.client.classic.offset_storages import DualOffsets, KafkaOffsets
from ottla.client.classic.owned import ClassicClient
from ottla.client.classic.reaching import bootstrap_from, new_consumer_id, open_zookeeper
from ottla.client.classic.registry.attempts import RebalanceSettings
from ottla.client.classic.registry.division import thread_id
from ottla.client.classic.registry.member import MemberIdentity, MemberParts, RegistryMember
from ottla.client.classic.registry.subscription import TopicCount, filtered, static
from ottla.client.classic.streams import KafkaStream, StreamDecoders, StreamQueue
from ottla.client.consumer import Consumer
from ottla.client.process.environment import real_environment
from ottla.client.process.tasks import ClientTasks
from ottla.coordinator.store.store import StoreError
from ottla.wire.errors import ClientClosed, ClientError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ottla.client.classic.reaching import OpenStore
    from ottla.client.classic.registry.layout import RegistrySlot
    from ottla.client.classic.registry.member import OffsetStorage
    from ottla.client.classic.registry.registry import GroupRegistry
    from ottla.client.classic.registry.topic_filter import TopicFilter
    from ottla.coordinator.store.store import MetadataSession, Store

logger = logging.getLogger("ottla.classic")

RESETS = {SMALLEST: "earliest", LARGEST: "latest"}


class ConsumerConnector(ClassicClient):
    """Reads topics together with the other consumers of its group, which ZooKeeper coordinates.

    Blocking calls for threads; one thread of the process runs the fetches of all connectors. The
    documents' names are aliases: ``createMessageStreams``, ``createMessageStreamsByFilter``,
    ``commitOffsets``.

    Args:
        properties: Settings by the documents' names, such as ``zookeeper.connect`` and ``group.id``
            (``zk.connect`` and ``groupid`` in 0.7); see docs/classic.md. TLS and logins by the
            names of today's clients, such as ``security.protocol``.
        open_store: What opens the metadata store; None (default) for ZooKeeper. For tests.

    Raises:
        ValueError: A setting is unknown, missing or invalid.

    Example:
        connector = ottla.classic.ConsumerConnector(
            {"zookeeper.connect": "127.0.0.1:2181", "group.id": "billing"}
        )
        streams = connector.create_message_streams({"orders": 2})
    """

    def __init__(
        self, properties: Mapping[str, object], open_store: OpenStore | None = None
    ) -> None:
        super().__init__()
        self.config = ClassicConsumerConfig.read(properties)
        self.consumer_id = self.config.consumer_id or new_consumer_id()
        self._open_store = open_store or partial(open_zookeeper, login=self.config.store_login)
        self._environment = real_environment()
        self._queues: dict[tuple[str | None, str], StreamQueue] = {}
        self._store: Store | None = None
        self._consumer: Consumer[bytes, bytes] | None = None
        self._admin: Admin | None = None
        self._feed: StreamFeed | None = None
        self._member: RegistryMember | None = None
        self._tasks = ClientTasks(lambda error: logger.error("commits failed", exc_info=error))
        self._has_streams = False
        self._is_shut = False

    def create_message_streams(
        self,
        topic_counts: Mapping[str, int],
        key_decoder: Callable[[bytes], Any] | None = None,
        value_decoder: Callable[[bytes], Any] | None = None,
    ) -> dict[str, list[KafkaStream[Any, Any]]]:
        """Join the group and create all streams at once, which makes one rebalance.

        Args:
            topic_counts: The number of streams of each topic.
            key_decoder: Turns bytes into keys; None (default) to return bytes.
            value_decoder: Turns bytes into messages; None (default) to return bytes.

        Returns:
            The streams of each topic; each is to be read by a thread of its own.

        Raises:
            ValueError: No topic is named, or a number is below 1.
            ClientClosed: The connector has streams already, or was shut down.
            RebalanceFailed: Another consumer does not give up a partition.
            StoreError: ZooKeeper cannot be reached.
        """
        wants = static(topic_counts)
        decoders = StreamDecoders(key_decoder, value_decoder)
        streams = {
            topic: [self._stream(topic, number, decoders) for number in range(count)]
            for topic, count in wants.streams.items()
        }
        self._begin(wants)
        return streams

    def create_message_streams_by_filter(
        self,
        topic_filter: TopicFilter,
        count: int = 1,
        key_decoder: Callable[[bytes], Any] | None = None,
        value_decoder: Callable[[bytes], Any] | None = None,
    ) -> list[KafkaStream[Any, Any]]:
        """Join the group and create streams of all topics that a filter allows, also later ones.

        Args:
            topic_filter: A ``Whitelist`` or a ``Blacklist``.
            count: The number of streams (default 1); each may have messages of several topics.
            key_decoder: Turns bytes into keys; None (default) to return bytes.
            value_decoder: Turns bytes into messages; None (default) to return bytes.

        Returns:
            The streams; each is to be read by a thread of its own.

        Raises:
            ValueError: ``count`` is below 1.
            ClientClosed: The connector has streams already, or was shut down.
            RebalanceFailed: Another consumer does not give up a partition.
            StoreError: ZooKeeper cannot be reached.
        """
        excludes = self.config.excludes_internal
        wants = filtered(topic_filter, count, excludes_internal=excludes)
        decoders = StreamDecoders(key_decoder, value_decoder)
        streams = [self._stream(None, number, decoders) for number in range(count)]
        self._begin(wants)
        return streams

    def commit_offsets(self) -> None:
        """Commit the offsets of everything that the streams have returned.

        Raises:
            ClientError: The offsets could not be committed.
            StoreError: ZooKeeper could not be asked.
        """
        if not self._is_shut and self._member is not None:
            self._run(self._commit())

    def close(self) -> None:
        """The same as ``shutdown``."""
        self.shutdown()

    def shutdown(self) -> None:
        """Commit if that is automatic, release the partitions, leave the group, end the streams.

        A second call does nothing."""
        if not self._is_shut:
            self._is_shut = True
            self._run(self._close())

    createMessageStreams = create_message_streams  # noqa: N815
    createMessageStreamsByFilter = create_message_streams_by_filter  # noqa: N815
    commitOffsets = commit_offsets  # noqa: N815

    @property
    def rebalances(self) -> int:
        """How many rebalances have succeeded."""
        return 0 if self._member is None else self._member.rebalances

    def _stream(
        self, topic: str | None, number: int, decoders: StreamDecoders
    ) -> KafkaStream[Any, Any]:
        name = thread_id(self.consumer_id, number)
        queue = StreamQueue(self._is_alive, self._has_room)
        if not self._has_streams:
            self._queues[topic, name] = queue
        client_id = self.config.client_id or self.config.group_id
        return KafkaStream(queue, self.config.consumer_timeout_ms, decoders, client_id)

    def _is_alive(self) -> bool:
        member = self._member
        return member is not None and member.is_alive

    def _has_room(self) -> None:
        """Called in the thread of a stream."""
        feed = self._feed
        if feed is not None and not self._is_shut:
            self._loop.post(feed.has_room)

    def _stream_of(self, slot: RegistrySlot, thread: str) -> StreamQueue:
        queue = self._queues.get((slot.topic, thread))
        return self._queues[None, thread] if queue is None else queue

    def _begin(self, wants: TopicCount) -> None:
        if self._is_shut:
            raise ClientClosed("the connector was shut down; create another one")
        if self._has_streams:
            raise ClientClosed("a connector creates its streams once, all of them in one call")
        self._has_streams = True
        try:
            self._run(self._start(wants))
        except BaseException:
            self.shutdown()
            raise

    async def _start(self, wants: TopicCount) -> None:
        config, clock = self.config, self._environment.clock
        self._store = await self._open_store(config.zookeeper_connect, config.connection_timeout_ms)
        first = await self._store.connect(config.session_timeout_ms)
        sessions = [first]
        try:
            bootstrap = config.bootstrap or await bootstrap_from(first, config.security)
            await self._reach(bootstrap)
        except BaseException:
            await first.close()
            raise
        assert self._consumer is not None
        self._feed = StreamFeed(
            self._consumer,
            self._stream_of,
            clock,
            offset_reset=config.offset_reset,
            chunks_max=config.queued_chunks_max,
            commits=config.auto_commit,
            is_dual=config.is_dual,
        )
        self._feed.start()

        async def open_session() -> MetadataSession:
            assert self._store is not None
            return (
                sessions.pop() if sessions else await self._store.connect(config.session_timeout_ms)
            )

        backoff_ms = config.rebalance_backoff_ms or config.sync_time_ms
        self._member = RegistryMember(
            MemberParts(open_session, self._feed, self._storage_of, clock),
            MemberIdentity(config.group_id, self.consumer_id, wants, config.registry_layout),
            RebalanceSettings(config.rebalance_retries_max, backoff_ms),
        )
        await self._member.start()
        if config.auto_commit:
            self._tasks.start(self._commit_regularly(), "classic commits")

    async def _reach(self, bootstrap: str) -> None:
        """Connect to the brokers."""
        config = self.config
        client_id = config.client_id or config.group_id
        consumer = Consumer[bytes, bytes](
            bootstrap,
            client_id=client_id,
            offset_reset=RESETS.get(config.offset_reset, "none"),  # type: ignore[arg-type]
            partition_bytes_max=config.fetch_bytes,
            fetch_bytes_min=config.fetch_bytes_min,
            fetch_wait_ms=config.fetch_wait_ms,
            request_timeout_ms=config.socket_timeout_ms,
            security=config.security,
        )
        await consumer.start()
        self._consumer = consumer
        if config.offsets_storage == KAFKA or config.is_dual:
            admin = Admin(bootstrap, client_id=client_id, security=config.security)
            await admin.start()
            self._admin = admin

    def _storage_of(self, registry: GroupRegistry) -> OffsetStorage:
        if self._admin is None:
            return registry
        in_kafka = KafkaOffsets(self._admin.groups, self.config.group_id)
        return DualOffsets(in_kafka, registry) if self.config.is_dual else in_kafka

    async def _commit(self) -> None:
        assert self._member is not None
        assert self._feed is not None
        feed, found = self._feed, {}

        def consumed() -> dict[RegistrySlot, int]:
            found.update(feed.consumed())
            return found

        await self._member.commit(consumed)
        feed.stored(found)

    async def _commit_regularly(self) -> None:
        while True:
            await self._environment.clock.sleep(self.config.auto_commit_interval_ms)
            try:
                await self._commit()
            except (ClientError, StoreError) as error:
                logger.warning("an automatic commit failed: %s", error)

    async def _close(self) -> None:
        await self._tasks.stop()
        try:
            async with contextlib.AsyncExitStack() as stack:
                # The last one is closed first.
                if self._admin is not None:
                    stack.callback(self._admin.close)
                for client in (self._consumer, self._feed, self._member):
                    if client is not None:
                        stack.push_async_callback(client.close)
        finally:
            for queue in self._queues.values():
                queue.end()


class ConnectorFactory:
    """The documents' entry: ``Consumer.create(properties)`` makes a ``ConsumerConnector``."""

    create = ConsumerConnector
