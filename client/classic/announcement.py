"""Announces a cluster to programs of Kafka 0.7, in the znodes that 0.7 brokers write.

``/brokers/ids/ID`` holds ``host:port`` and ``/brokers/topics/TOPIC/ID`` the number of partitions
that the broker has, as ephemeral znodes. Today's brokers keep values of another form at the same
paths, so the announcement stands under a path of its own, which programs of 0.7 get as the chroot
of ``zk.connect``. A partition belongs to the broker of its first replica there.
"""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from ottla.client.classic.owned import ClassicClient, StoreChanges
from ottla.client.classic.reaching import open_zookeeper, registered_brokers
from ottla.client.classic.reading_settings import read_settings
from ottla.client.classic.registry.registry import make_parents
from ottla.client.classic.store_login import STORE_KEYS, take_login
from ottla.client.process.environment import real_environment
from ottla.client.process.tasks import ClientTasks
from ottla.coordinator.store import paths
from ottla.coordinator.store.store import NodeExists, NoNode, SessionState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.client.classic.reaching import OpenStore
    from ottla.coordinator.store.paths import EndpointPayload
    from ottla.coordinator.store.store import MetadataSession, Store

logger = logging.getLogger("ottla.classic")

SESSION_MS = 6_000


def announced(
    brokers: Mapping[int, EndpointPayload],
    topics: Mapping[str, Mapping[int, tuple[int, ...]]],
    port: int | None = None,
) -> dict[str, bytes]:
    """The znodes below the path; ``port`` replaces the brokers' own."""
    found = {
        paths.broker(node_id): f"{one.host}:{port or one.port}".encode()
        for node_id, one in brokers.items()
    }
    for name, replicas in topics.items():
        counts = Counter(one[0] for one in replicas.values() if one)
        for node_id, count in counts.items():
            if node_id in brokers:
                found[f"{paths.topic(name)}/{node_id}"] = b"%d" % count
    return found


class Announcement(ClassicClient):
    """Keeps the znodes of 0.7 in step with the brokers and topics, until it is closed.

    Args:
        zookeeper: ``host:port,host:port/chroot`` of the brokers.
        path: Where the znodes are announced, below the brokers' chroot (default ``/kafka07``).
        port: The port of listeners for 0.7; None (default) for that of the PLAINTEXT listener.
        open_store: What opens the metadata store; None (default) for ZooKeeper. For tests.
        security: Encryption and login of the session with ZooKeeper, such as
            ``ottla.zookeeper.digest``; None (default) for neither.

    Raises:
        ValueError: A setting of ``security`` is unknown or invalid.
        StoreError: ZooKeeper cannot be reached.

    Example:
        with ottla.classic.Announcement("127.0.0.1:2181"):
            run_programs_of_07("127.0.0.1:2181/kafka07")
    """

    def __init__(
        self,
        zookeeper: str,
        path: str = "/kafka07",
        port: int | None = None,
        open_store: OpenStore | None = None,
        security: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__()
        self._path = "/" + path.strip("/")
        self._port = port
        login = take_login(read_settings(security or {}, STORE_KEYS))
        self._open_store = open_store or partial(open_zookeeper, login=login)
        clock = real_environment().clock
        self._changes = StoreChanges(self._announce, clock, "what is announced")
        self._tasks = ClientTasks(lambda error: logger.error("not announced", exc_info=error))
        self._store: Store | None = None
        self._session: MetadataSession | None = None
        self._made: dict[str, bytes] = {}
        self._run(self._start(zookeeper))

    def close(self) -> None:
        """End the session, and with it the znodes. A second call does nothing."""
        self._run(self._close())

    async def _start(self, zookeeper: str) -> None:
        self._store = await self._open_store(zookeeper, None)
        await self._announce()
        self._tasks.start(self._changes.follow(), "classic announcement")

    async def _close(self) -> None:
        await self._tasks.stop()
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _announce(self) -> None:
        assert self._store is not None
        session = self._session
        if session is None or session.state is SessionState.LOST:
            session = self._session = await self._store.connect(SESSION_MS)
            session.on_state(self._changes.on_state)
            self._made = {}
        wanted = await self._wanted(session)
        for path in self._made.keys() - wanted.keys():
            with contextlib.suppress(NoNode):
                await session.delete(self._path + path)
        for path, data in wanted.items():
            if self._made.get(path) != data:
                await self._put(session, self._path + path, data)
        self._made = wanted

    async def _wanted(self, session: MetadataSession) -> dict[str, bytes]:
        brokers = await registered_brokers(session, self._changes.on_event)
        topics = {}
        for name in await session.children(paths.TOPICS, self._changes.on_event):
            with contextlib.suppress(NoNode):
                data = (await session.get(paths.topic(name), self._changes.on_event)).data
                payload = paths.parse_topic(data)
                topics[name] = {} if payload is None else payload.partitions
        return announced(brokers, topics, self._port)

    async def _put(self, session: MetadataSession, path: str, data: bytes) -> None:
        await make_parents(session, path)
        try:
            await session.create(path, data, ephemeral=True)
        except NodeExists:
            # It belongs to this announcement, or to another one that is about to end: take it over.
            await session.delete(path)
            await session.create(path, data, ephemeral=True)
