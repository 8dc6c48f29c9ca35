"""What is finalized of the cluster's features, followed in the metadata store (KIP-584).

One znode says it, and its data version is the epoch that clients compare. Every broker reads it
and watches it; the watch only says when to read again. The controller makes it in a cluster that
has none, and changes it for administrators.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ottla.coordinator.metadata.features import (
    FeatureRefusal,
    Finalized,
    Levels,
    first_levels,
    judge_update,
)
from ottla.coordinator.store import paths, znode
from ottla.coordinator.store.announcements import StoreFollower
from ottla.coordinator.store.store import (
    BadVersion,
    ConnectionLoss,
    NodeExists,
    NoNode,
    StoreError,
)
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ottla.broker.engine.tasks import Tasks
    from ottla.broker.metadata.metadata import MetadataCache
    from ottla.coordinator.metadata.delta import MetadataDelta
    from ottla.coordinator.metadata.features import FeatureUpdate
    from ottla.coordinator.store.store import MetadataSession
    from ottla.protocol.ports import Clock

logger = logging.getLogger("ottla.features")

_ATTEMPTS_MAX = 20
_NO_NODE = -1


class FinalizedFeatures:
    """Owned by the server; a follower of the session (read ``lifecycle.py``)."""

    def __init__(self, node_id: int, metadata: MetadataCache, clock: Clock, tasks: Tasks) -> None:
        self._node_id = node_id
        self._metadata = metadata
        self._clock = clock
        self._session: MetadataSession | None = None
        self._follower = StoreFollower("features", tasks.spawn, self._read_or_make)
        self._known = asyncio.Event()
        self.finalized = Finalized()
        metadata.subscribe(self._on_metadata)

    async def begin(self, session: MetadataSession) -> None:
        """Read what is finalized, and follow it. Raises StoreError."""
        self._session = session
        self._follower.changed.set()
        await self._read(session)
        self._follower.start(session)

    async def end(self) -> None:
        """Stop following; what is known stays."""
        self._session = None
        await self._follower.end()

    async def wait_until_known(self, timeout_ms: float) -> bool:
        """Whether something is finalized before the time is up; clients that come earlier would
        speak older protocols than they need to."""
        timer = self._clock.call_at(self._clock.now_ms() + timeout_ms, self._known.set)
        try:
            await self._known.wait()
        finally:
            timer.cancel()
        return self.finalized.epoch >= 0

    async def update(
        self, updates: Sequence[FeatureUpdate], *, validate_only: bool
    ) -> list[FeatureRefusal | None]:
        """Bring features to other levels, all of them or none; each named once. Returns for each
        why it must not be, if so. Raises KafkaError."""
        try:
            for _attempt in range(_ATTEMPTS_MAX):
                session = self._session
                if session is None:
                    break
                refusals = await self._try_update(session, updates, validate_only=validate_only)
                if refusals is not None:
                    return refusals
        except ConnectionLoss as error:
            text = "not completed yet; the change may still take effect"
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, text) from error
        except StoreError as error:
            raise KafkaError(ErrorCode.FEATURE_UPDATE_FAILED, str(error)) from error
        text = "the metadata store is unavailable, or other clients keep changing the features"
        raise KafkaError(ErrorCode.FEATURE_UPDATE_FAILED, text)

    # ---- following ----

    def _on_metadata(self, delta: MetadataDelta) -> None:
        # A newly elected controller may have to create the znode; so has a controller whose
        # last broker that could not support it is gone.
        if delta.has_new_controller or delta.brokers or delta.gone_brokers:
            self._follower.changed.set()

    async def _read_or_make(self, session: MetadataSession) -> None:
        if await self._read(session) == _NO_NODE:
            await self._make(session)

    async def _read(self, session: MetadataSession) -> int:
        """Take in what stands there; its version."""
        if await session.exists(paths.FEATURE, self._follower.on_event) is None:
            return _NO_NODE
        try:
            found = await session.get(paths.FEATURE)
        except NoNode:
            self._follower.changed.set()
            return _NO_NODE
        levels = znode.parse_levels(found.data)
        if levels is None:
            logger.error("%s is unreadable and ignored", paths.FEATURE)
        else:
            self._learn(levels, found.stat.version)
        return found.stat.version

    def _learn(self, levels: Mapping[str, int], epoch: int) -> None:
        # A server of the store that lags behind tells what was.
        if epoch > self.finalized.epoch:
            self.finalized = Finalized(levels, epoch)
            text = ", ".join(f"{name} {level}" for name, level in sorted(levels.items()))
            logger.info("features of the cluster, epoch %d: %s", epoch, text or "none")
            self._known.set()

    async def _make(self, session: MetadataSession) -> None:
        if self._metadata.controller_id != self._node_id:
            return
        levels = first_levels((await self._brokers(session)).values())
        if not levels:
            logger.info("some broker is too old for features; none are finalized yet")
            return
        try:
            await session.create(paths.FEATURE, znode.build_levels(levels))
        except NodeExists:
            logger.debug("another controller has made %s", paths.FEATURE)

    # ---- changing ----

    async def _try_update(
        self, session: MetadataSession, updates: Sequence[FeatureUpdate], *, validate_only: bool
    ) -> list[FeatureRefusal | None] | None:
        """Return None if another broker changed the features meanwhile."""
        version, current = _NO_NODE, {}
        try:
            found = await session.get(paths.FEATURE)
        except NoNode:
            logger.info("%s does not exist yet", paths.FEATURE)
        else:
            # Unreadable features are replaced: refusing would leave no way to repair them.
            version, current = found.stat.version, znode.parse_levels(found.data) or {}
        brokers = await self._brokers(session)
        refusals = [
            judge_update(update, current.get(update.feature, 0), brokers) for update in updates
        ]
        if validate_only or any(refusals):
            return refusals
        wanted = {**current, **{update.feature: update.level for update in updates}}
        data = znode.build_levels(wanted)
        try:
            if version == _NO_NODE:
                await session.create(paths.FEATURE, data)
                version = 0
            elif data != found.data:
                version = (await session.set(paths.FEATURE, data, version)).version
        except (BadVersion, NodeExists, NoNode):
            return None
        self._learn(znode.parse_levels(data) or {}, version)
        return refusals

    async def _brokers(self, session: MetadataSession) -> dict[int, Mapping[str, Levels]]:
        """What each live broker supports."""
        supports: dict[int, Mapping[str, Levels]] = {}
        for name in await session.children(paths.BROKER_IDS):
            try:
                payload = paths.parse_broker((await session.get(f"{paths.BROKER_IDS}/{name}")).data)
            except NoNode:
                continue
            features = {} if payload is None else payload.features
            supports[int(name)] = {one: Levels(*levels) for one, levels in features.items()}
        return supports
