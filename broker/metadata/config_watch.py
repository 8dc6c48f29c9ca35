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
from ottla.coordinator.configs.broker_configs_table import BROKER_CONFIGS
from ottla.coordinator.metadata.changes import Change, ConfigChanged, ConfigGone
from ottla.coordinator.metadata.image import Entity
from ottla.coordinator.store import entities as names_of
from ottla.coordinator.store import paths
from ottla.coordinator.store.announcements import AnnouncementFollower
from ottla.coordinator.store.store import NoNode, StoreError
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ottla.broker.engine.tasks import Tasks
    from ottla.broker.metadata.metadata import MetadataCache
    from ottla.coordinator.store.announcements import ChangeAnnouncement
    from ottla.coordinator.store.store import MetadataSession

logger = logging.getLogger("ottla.configs")

BROKERS = "brokers"
FOLLOWED_TYPES = (
    "topics",
    BROKERS,
    "groups",
    "client-metrics",
    names_of.USERS,
    names_of.CLIENTS,
    names_of.IPS,
)


class ConfigWatch:
    """Owned by the server; follows one session after another."""

    def __init__(self, metadata: MetadataCache, tasks: Tasks) -> None:
        self._metadata = metadata
        self._session: MetadataSession | None = None
        self._follower = AnnouncementFollower(
            "settings", tasks.spawn, (paths.CONFIG_CHANGES,), self._take
        )
        # Reading and taking in are one step: of two overlapping reads the older must not win.
        self._lock = asyncio.Lock()
        self._read_once = asyncio.Event()

    async def begin(self, session: MetadataSession) -> None:
        """Read everything in the new session, and follow it. Raises StoreError."""
        self._session = session
        await self._follower.watch(session)
        entities = [
            entity
            for entity_type in FOLLOWED_TYPES
            for entity in await _listed(session, entity_type)
        ]
        known = set(entities)
        gone = [one for one in self._metadata.image.configs if one not in known]
        await self._refresh(session, [*entities, *gone])
        self._read_once.set()
        self._follower.start(session)

    async def until_read(self) -> None:
        """Return once all settings have been read for the first time."""
        await self._read_once.wait()

    async def end(self) -> None:
        """Stop following; what is known stays."""
        self._session = None
        await self._follower.end()

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

    async def _take(
        self, session: MetadataSession, announced: Sequence[ChangeAnnouncement]
    ) -> None:
        """Read the settings again that have changed."""
        changes = (paths.parse_config_change(one.data) for one in announced)
        entities = (Entity(*one) for one in changes if one and one[0] in FOLLOWED_TYPES)
        await self._refresh(session, dict.fromkeys(entities))


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
    if entity.entity_type == BROKERS:
        _warn_of_start_settings(values)
    return ConfigChanged(entity, values)


def _warn_of_start_settings(values: Mapping[str, str]) -> None:
    """Warn that a stored value is not in force: the operator has to edit a file."""
    for name in values:
        definition = BROKER_CONFIGS.get(name)
        if definition is not None and definition.is_read_at_start:
            logger.warning(
                "%s is set in the metadata store, where it has no effect: set it in the "
                "configuration file of the broker and start the broker again",
                name,
            )
