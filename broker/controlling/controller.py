"""This broker as a candidate for controller: elections, leadership and resignation.

The broker that creates /controller raises /controller_epoch in the same multi request (C-03) and
guards every later write with the resulting version; the others wait until /controller is removed.
"""

from __future__ import annotations

import asyncio
import logging
from enum import IntEnum
from typing import TYPE_CHECKING

from ottla.broker.controlling.controllership import Controllership
from ottla.coordinator.controller.events import ControllerEpoch
from ottla.coordinator.store import paths
from ottla.coordinator.store.store import (
    ConnectionLoss,
    Create,
    Delete,
    GroupFailed,
    NoNode,
    Operation,
    Replace,
    SessionState,
    StoreError,
)
from ottla.protocol.errors import Fenced

if TYPE_CHECKING:
    from ottla.broker.controlling.controllership import ControllerParts
    from ottla.broker.metadata.metadata import MetadataCache
    from ottla.coordinator.metadata.delta import MetadataDelta
    from ottla.coordinator.store.store import MetadataSession, WatchEvent

logger = logging.getLogger("ottla.controller")

_RETRY_MS = 200


class BrokerState(IntEnum):
    """The state that a running broker reports; the numbers are those of Kafka's metric."""

    RUNNING_AS_BROKER = 3
    RUNNING_AS_CONTROLLER = 4


class ControllerCandidate:
    """Owned by the server; follows the store session (see ``lifecycle.py``)."""

    def __init__(self, node_id: int, metadata: MetadataCache, parts: ControllerParts) -> None:
        self._node_id = node_id
        self._metadata = metadata
        self._parts = parts
        self._campaign: asyncio.Task[None] | None = None
        self._current: Controllership | None = None
        metadata.subscribe(self._on_delta)

    @property
    def controllership(self) -> Controllership | None:
        """The present controllership; None if this broker is not the controller."""
        return self._current

    def is_controller(self) -> bool:
        """Whether this broker is the controller at present."""
        return self._current is not None

    @property
    def broker_state(self) -> BrokerState:
        """The state that this broker reports."""
        is_complete = self._current is not None and self._current.is_complete
        return BrokerState.RUNNING_AS_CONTROLLER if is_complete else BrokerState.RUNNING_AS_BROKER

    async def begin(self, session: MetadataSession) -> None:
        """Run for election in this session."""
        assert self._campaign is None, "one session at a time"
        self._campaign = self._parts.tasks.spawn("controller", self._run(session))

    async def end(self) -> None:
        """Resign or withdraw; waiting callers are answered NOT_CONTROLLER (C-20)."""
        campaign, self._campaign = self._campaign, None
        if campaign is not None:
            campaign.cancel()
            await asyncio.gather(campaign, return_exceptions=True)

    async def _run(self, session: MetadataSession) -> None:
        while session.state is SessionState.CONNECTED:
            try:
                current = await self._elect(session)
                if current is not None:
                    await self._lead(current)
            except (StoreError, Fenced) as error:
                logger.warning("no longer the controller: %s", error)
                await self._parts.clock.sleep(_RETRY_MS)

    async def _lead(self, current: Controllership) -> None:
        self._current = current
        logger.info("broker %d is the controller, epoch %d", *current.identity)
        try:
            await current.run()
        finally:
            self._current = None

    async def _elect(self, session: MetadataSession) -> Controllership | None:
        """Win, or wait until another election is possible."""
        changed = asyncio.Event()

        def on_change(_event: WatchEvent) -> None:
            changed.set()

        # Read first: another controller's election after this makes the group below fail.
        found = await session.get(paths.CONTROLLER_EPOCH)
        doubted: frozenset[int] = frozenset()
        standing = await session.exists(paths.CONTROLLER, on_change)
        if standing is not None and standing.ephemeral_owner != session.session_id:
            holder = await self._holder(session)
            if holder != self._node_id:
                if not await self._is_dead(holder, changed):
                    return None
                logger.warning("broker %s was the controller and seems to be dead", holder)
                doubted = frozenset() if holder is None else frozenset({holder})
        epoch = (paths.parse_number(found.data) or 0) + 1
        data = paths.build_controller(self._node_id, self._parts.clock.wall_ms())
        operations: list[Operation] = [
            Create(paths.CONTROLLER, data, ephemeral=True),
            Replace(paths.CONTROLLER_EPOCH, paths.build_number(epoch), found.stat.version),
        ]
        if standing is not None:
            # Of a controllership that has ended: this broker's, in this or an earlier process, or a
            # dead broker's. Its epoch must not be used again (C-01).
            operations.insert(0, Delete(paths.CONTROLLER, standing.version))
        try:
            await session.multi(operations)
        except GroupFailed:
            return None
        except ConnectionLoss:
            # Without a pause, a store that fails at once would be asked in an endless loop.
            await self._parts.clock.sleep(_RETRY_MS)
            if not await self._has_won(session, epoch):
                return None
        version = found.stat.version + 1
        identity = ControllerEpoch(self._node_id, epoch)
        cluster_id = self._metadata.cluster_id
        return Controllership(session, cluster_id, identity, version, self._parts, doubted)

    async def _holder(self, session: MetadataSession) -> int | None:
        """Return the id of the current controller. This broker's own id in another session is an
        earlier process of it: no other process can be registered under the id now."""
        try:
            return paths.parse_controller((await session.get(paths.CONTROLLER)).data)
        except NoNode:
            return None

    async def _is_dead(self, holder: int | None, changed: asyncio.Event) -> bool:
        """Wait until /controller changes or its holder dies, whichever is noticed first."""
        peer_watch = self._parts.peer_watch
        if peer_watch is None or holder is None:
            await changed.wait()
            return False
        return await peer_watch.is_dead_before(changed, holder)

    async def _has_won(self, session: MetadataSession, epoch: int) -> bool:
        """After a lost answer: whether /controller is ours and the epoch is the one we wrote
        (C-03)."""
        standing = await session.exists(paths.CONTROLLER)
        stored = paths.parse_number((await session.get(paths.CONTROLLER_EPOCH)).data)
        return (
            standing is not None
            and standing.ephemeral_owner == session.session_id
            and stored == epoch
        )

    def _on_delta(self, delta: MetadataDelta) -> None:
        if self._current is not None and delta.configs:
            self._current.configs_changed(delta)
