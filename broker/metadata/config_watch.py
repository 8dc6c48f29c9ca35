"""Settings kept in the store, followed into this broker's metadata.

The settings of topics, brokers and groups, and the quotas and credentials of users, clients and IP
addresses, stand in the store; a change is announced by a sequential znode. Each broker reads the
announcements in order and reads again whatever they name.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ottla.broker.engine.concurrently import pipelined
from ottla.broker.engine.tasks import stopped
from ottla.coordinator.metadata.changes import Change, ConfigChanged, ConfigGone
from ottla.coordinator.metadata.image import Entity
from ottla.coordinator.store import entities as names_of
from ottla.coordinator.store import paths
from ottla.coordinator.store.store import NoNode, StoreError
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable

    from ottla.broker.engine.tasks import Tasks
    from ottla.broker.metadata.metadata import MetadataCache
    from ottla.coordinator.store.store import MetadataSession, WatchEvent
    from ottla.protocol.ports import Clock

logger = logging.getLogger("ottla.configs")

FOLLOWED_TYPES = ("topics", "brokers", "groups", names_of.USERS, names_of.CLIENTS, names_of.IPS)
# Announcements are kept that long, for brokers that are slow to read them.
ANNOUNCEMENT_RETENTION_MS = 15 * 60 * 1000


class ConfigWatch:
    """Owned by the server; follows one session after another."""

    def __init__(self, metadata: MetadataCache, clock: Clock, tasks: Tasks) -> None:
        self._metadata = metadata
        self._clock = clock
        self._tasks = tasks
        self._session: MetadataSession | None = None
        self._follower: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._last_read = ""
        # Reading and taking in are one step: of two overlapping reads the older must not win.
        self._lock = asyncio.Lock()
        self._read_once = asyncio.Event()

    async def begin(self, session: MetadataSession) -> None:
        """Read everything in the new session, and follow it. Raises StoreError."""
        self._session = session
        # An event from here on is of a watch that is used up: it must not be forgotten.
        self._changed.clear()
        # First the watch, then the reading: a change in between is read twice, not never (C-13).
        names = await session.children(paths.CONFIG_CHANGES, self._on_event)
        self._last_read = names[-1] if names else ""
        entities = [
            entity
            for entity_type in FOLLOWED_TYPES
            for entity in await _listed(session, entity_type)
        ]
        known = set(entities)
        gone = [one for one in self._metadata.image.configs if one not in known]
        await self._refresh(session, [*entities, *gone])
        self._read_once.set()
        self._follower = self._tasks.spawn("settings", self._follow(session))

    async def until_read(self) -> None:
        """Return once all settings have been read for the first time."""
        await self._read_once.wait()

    async def end(self) -> None:
        """Stop following; what is known stays."""
        self._session = None
        await stopped(self._follower)
        self._follower = None

    async def refresh_topics(self, names: Iterable[str]) -> None:
        """Read the settings of these topics again. Raises KafkaError."""
        entities = [Entity("topics", name) for name in names]
        if entities:
            await self.refresh(entities)

    async def refresh(self, entities: Iterable[Entity]) -> None:
        """Read these again and take in what is set now. Raises KafkaError."""
        session = self._session
        if session is None:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "no session with the metadata store")
        try:
            # The notice came from another broker, which may have seen a later state of the
            # store than this session's server has by now (C-24).
            await session.sync()
            await self._refresh(session, entities)
        except StoreError as error:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"the metadata store: {error}") from error

    async def _refresh(self, session: MetadataSession, entities: Iterable[Entity]) -> None:
        async with self._lock:
            changes = await pipelined(lambda entity: _read(session, entity), tuple(entities))
            self._metadata.take(change for change in changes if change is not None)

    def _on_event(self, _event: WatchEvent) -> None:
        self._changed.set()

    async def _follow(self, session: MetadataSession) -> None:
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                await self._read_announcements(session)
        except StoreError as error:
            # The session is over or in doubt; the next one reads everything anew.
            logger.info("this broker no longer follows changes of settings: %s", error)

    async def _read_announcements(self, session: MetadataSession) -> None:
        names = await session.children(paths.CONFIG_CHANGES, self._on_event)
        entities: dict[Entity, None] = {}
        for name in names:
            path = f"{paths.CONFIG_CHANGES}/{name}"
            await _unless_gone(self._read_one(session, path, name, entities))
        if names:
            self._last_read = max(self._last_read, names[-1])
        await self._refresh(session, entities)

    async def _read_one(
        self, session: MetadataSession, path: str, name: str, entities: dict[Entity, None]
    ) -> None:
        found = await session.get(path)
        if name > self._last_read:
            changed = paths.parse_config_change(found.data)
            if changed is not None and changed[0] in FOLLOWED_TYPES:
                entities[Entity(*changed)] = None
        elif found.stat.created_ms < self._clock.wall_ms() - ANNOUNCEMENT_RETENTION_MS:
            await session.delete(path)


async def _listed(session: MetadataSession, entity_type: str) -> list[Entity]:
    """The entities of one type that have settings. Raises StoreError."""
    root = f"{paths.CONFIG}/{entity_type}"
    encoded = await session.children(root)
    found = [Entity(entity_type, names_of.decode(entity_type, name)) for name in encoded]
    if entity_type != names_of.USERS:
        return found

    async def clients_of(user: str) -> list[str]:
        try:
            return await session.children(f"{root}/{user}/{names_of.CLIENTS}")
        except NoNode:
            return []

    for user, clients in zip(encoded, await pipelined(clients_of, encoded), strict=True):
        found += [Entity(entity_type, names_of.of_user_client(user, client)) for client in clients]
    return found


async def _read(session: MetadataSession, entity: Entity) -> Change | None:
    """What is set for the entity now, None if that is unreadable. Raises StoreError."""
    try:
        found = await session.get(paths.config(*entity))
    except NoNode:
        return ConfigGone(entity)
    # A user of whom Kafka has set only the quotas of single client ids has an empty znode.
    values = paths.parse_config(found.data) if found.data else {}
    if values is None:
        logger.error("the settings of %s %s are unreadable and ignored", *entity)
        return None
    return ConfigChanged(entity, values)


async def _unless_gone(step: Awaitable[None]) -> None:
    """Another broker may have swept the announcement away meanwhile."""
    try:
        await step
    except NoNode:
        return
