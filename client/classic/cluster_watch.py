"""Routing of a producer with ``zk.connect``: watches the brokers and topics in ZooKeeper.

The pool has one entry for each live broker; the watches add and remove them. The list of a topic
follows its assignment and its leaders.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ottla.client.classic.broker_partitions import BrokerPartition, sorted_partitions
from ottla.client.classic.owned import StoreChanges
from ottla.client.classic.reaching import NoBrokers, none_listed, registered_brokers
from ottla.client.process.tasks import ClientTasks
from ottla.coordinator.store import paths
from ottla.coordinator.store.store import NoNode, SessionState
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ports import Address
from ottla.wire.errors import RequestRefused
from ottla.wire.pool import Pool

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ottla.client.process.environment import Environment
    from ottla.coordinator.store.store import MetadataSession, WatchEvent
    from ottla.wire.connection_config import ConnectionConfig

logger = logging.getLogger("ottla.classic")


class ClusterWatch:
    """A ``Routing`` that follows ZooKeeper, on one event loop."""

    def __init__(
        self,
        open_session: Callable[[], Awaitable[MetadataSession]],
        environment: Environment,
        config: ConnectionConfig,
    ) -> None:
        net, self._clock, random = environment
        self.pool = Pool(net, self._clock, random.child("pool"), config)
        self._security = config.security
        self._open_session = open_session
        self._session: MetadataSession | None = None
        self._changes = StoreChanges(self._load, self._clock, "the list of brokers in ZooKeeper")
        self._loading = asyncio.Lock()
        self._tasks = ClientTasks(lambda error: logger.error("watches failed", exc_info=error))
        self.brokers: list[int] = []
        self.topics: dict[str, list[BrokerPartition]] = {}

    async def start(self) -> None:
        """Read the brokers and topics, and follow them. Raises StoreError, NoBrokers."""
        await self._load()
        if not self.brokers:
            raise NoBrokers(none_listed(self._security, "broker.list"))
        self._tasks.start(self._changes.follow(), "classic watches")

    async def close(self) -> None:
        """Close the connections and the session."""
        await self._tasks.stop()
        self.pool.close()
        if self._session is not None:
            await self._session.close()

    async def partitions(self, topic: str) -> list[BrokerPartition]:
        """The topic's sorted list. Raises RequestRefused for a topic without leaders."""
        known = self.topics.get(topic)
        if not known:
            # The watch may not have fired yet.
            await self._load()
            known = self.topics.get(topic)
        if known is None:
            raise RequestRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic=topic)
        if not known:
            raise RequestRefused(ErrorCode.LEADER_NOT_AVAILABLE, topic=topic)
        return known

    def leader_moved(self, topic: str) -> None:
        """A broker does not lead a partition: read the leaders again."""
        self._changes.note()

    async def _load(self) -> None:
        async with self._loading:
            session = self._session
            if session is None or session.state is SessionState.LOST:
                session = self._session = await self._open_session()
                session.on_state(self._changes.on_state)
            await session.sync()
            brokers = await registered_brokers(session, self._changes.on_event, self._security)
            topics = {}
            for name in await _children(session, paths.TOPICS, self._changes.on_event):
                leaders = await self._leaders(session, name)
                if leaders is not None:
                    topics[name] = sorted_partitions(
                        {one: leader for one, leader in leaders.items() if leader in brokers}
                    )
            for node_id in set(self.brokers) - brokers.keys():
                self.pool.forget(node_id)
            for node_id, place in brokers.items():
                self.pool.set_address(node_id, Address(place.host, place.port))
            self.brokers, self.topics = sorted(brokers), topics

    async def _leaders(self, session: MetadataSession, name: str) -> dict[int, int] | None:
        """Return the leader of each partition, -1 without one; None if the topic was deleted."""
        try:
            data = (await session.get(paths.topic(name), self._changes.on_event)).data
        except NoNode:
            return None
        payload = paths.parse_topic(data)
        found: dict[int, int] = {}
        for number in () if payload is None else payload.partitions:
            path = paths.state(name, number)
            if await session.exists(path, self._changes.on_event) is None:
                found[number] = -1
                continue
            state = paths.parse_state((await session.get(path)).data)
            found[number] = -1 if state is None else state.leader
        return found


async def _children(
    session: MetadataSession, path: str, watch: Callable[[WatchEvent], object]
) -> list[str]:
    try:
        return await session.children(path, watch)
    except NoNode:
        return []
