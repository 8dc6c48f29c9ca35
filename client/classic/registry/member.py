"""One member of a group in ZooKeeper: registration, watches, rebalances and the end.

It runs on one event loop. Watches and the session's state only report that a change happened; one
task then rebalances, as often as needed.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

from ottla.client.classic.registry.attempts import DEFAULTS, RebalanceAttempts, RebalanceSettings
from ottla.client.classic.registry.division import division
from ottla.client.classic.registry.layout import RegistryLayout, RegistrySlot
from ottla.client.classic.registry.registry import GroupRegistry
from ottla.client.process.tasks import ClientTasks
from ottla.coordinator.store.store import ConnectionLoss, SessionState, StoreError
from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.clock import TimeLimit
from ottla.wire.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from ottla.client.classic.registry.subscription import TopicCount
    from ottla.coordinator.store.store import MetadataSession, WatchEvent
    from ottla.protocol.ports import Clock

logger = logging.getLogger("ottla.classic")


class RebalanceFailed(ClientError):
    """A partition's previous owner did not release it within ``rebalance.max.retries`` attempts."""


class Share(NamedTuple):
    """A partition that this member owns now: its stream, and the committed offset if any."""

    thread: str
    offset: int | None


class PartitionFeed(Protocol):
    """Passes records of the owned partitions to the application."""

    def hold(self) -> Mapping[RegistrySlot, int]:
        """Stop passing records; return the next offset of each partition that was fed."""

    async def begin(self, shares: Mapping[RegistrySlot, Share]) -> None:
        """Pass records of these partitions only."""


class OffsetStorage(Protocol):
    """The storage of the group's committed offsets."""

    async def fetch(self, slots: Iterable[RegistrySlot]) -> dict[RegistrySlot, int]: ...

    async def commit(self, offsets: Mapping[RegistrySlot, int]) -> None: ...


class MemberIdentity(NamedTuple):
    """The member's names and its subscription."""

    group: str
    consumer_id: str
    wants: TopicCount
    layout: RegistryLayout = RegistryLayout.V08


class MemberParts(NamedTuple):
    """The dependencies of a member. ``open_session`` is called again after a session was lost."""

    open_session: Callable[[], Awaitable[MetadataSession]]
    feed: PartitionFeed
    storage_of: Callable[[GroupRegistry], OffsetStorage]
    clock: Clock


class RegistryMember:
    """Started once, closed once. ``rebalances`` counts those that succeeded."""

    def __init__(
        self,
        parts: MemberParts,
        identity: MemberIdentity,
        settings: RebalanceSettings = DEFAULTS,
    ) -> None:
        self._parts = parts
        self._feed = parts.feed
        self._clock = parts.clock
        self._identity = identity
        self._settings = settings
        self._tasks = ClientTasks(self._crashed)
        self._changed = asyncio.Event()
        self._registry: GroupRegistry | None = None
        self._storage: OffsetStorage | None = None
        # Serialises steps of a rebalance and commits.
        self._turn = asyncio.Lock()
        # Consumed offsets of partitions that are held and still owned.
        self._uncommitted: dict[RegistrySlot, int] = {}
        self.rebalances = 0

    @property
    def is_alive(self) -> bool:
        """Whether the session cannot have ended yet. May be read from any thread."""
        registry = self._registry
        if registry is None or registry.session.state is SessionState.LOST:
            return False
        return self._clock.now_ms() < self._deadline_ms(registry.session)

    @staticmethod
    def _deadline_ms(session: MetadataSession) -> float:
        return session.last_answer_ms + session.timeout_ms

    async def start(self) -> None:
        """Register, and rebalance at once (step 5).

        Raises RebalanceFailed, and StoreError if the store cannot be reached; then the member has
        left again."""
        try:
            await self._join()
            await self._balance()
        except BaseException:
            await self.close()
            raise
        self._tasks.start(self._serve(), "rebalances")

    async def commit(self, consumed: Callable[[], Mapping[RegistrySlot, int]]) -> None:
        """Commit the offsets from ``consumed``. Raises StoreError, ClientError."""
        async with self._turn:
            storage, offsets = self._storage, consumed()
            if storage is not None and offsets and self.is_alive:
                await storage.commit(offsets)

    async def close(self) -> None:
        """Hold the streams, commit, release all partitions, and leave the group."""
        await self._tasks.stop()
        registry, self._registry = self._registry, None
        if registry is None:
            self._feed.hold()
            return
        try:
            await self._let_go(registry)
        except StoreError as error:
            logger.warning(
                "group %s: left without releasing its partitions: %s", self._identity.group, error
            )
        finally:
            await registry.session.close()

    async def _join(self) -> GroupRegistry:
        """Open a session and create the member's znode there."""
        session = await self._parts.open_session()
        registry = GroupRegistry(
            session, self._identity.group, self._identity.consumer_id, self._identity.layout
        )
        session.on_state(lambda state: self._on_state(session, state))
        try:
            await registry.register(self._identity.wants, self._clock.wall_ms())
        except BaseException:
            await session.close()
            raise
        self._registry, self._storage = registry, self._parts.storage_of(registry)
        return registry

    def _on_state(self, session: MetadataSession, state: SessionState) -> None:
        if self._registry is None or self._registry.session is not session:
            return
        if state is SessionState.LOST:
            self._feed.hold()
        if state is SessionState.SUSPENDED:
            # The streams continue until the session may be over.
            self._tasks.start(self._fence(session), "end of the session")
        else:
            # The connection's watches are lost: read everything again.
            self._changed.set()

    async def _fence(self, session: MetadataSession) -> None:
        """Hold the streams when the servers may have ended the session."""
        while session.state is SessionState.SUSPENDED:
            left_ms = self._deadline_ms(session) - self._clock.now_ms()
            if left_ms <= 0:
                self._feed.hold()
                return
            await self._clock.sleep(left_ms)

    def _on_change(self, event: WatchEvent) -> None:
        self._changed.set()

    async def _serve(self) -> None:
        while True:
            await self._changed.wait()
            try:
                await self._balance()
            except RebalanceFailed as error:
                logger.error("%s", error)
                # Without partitions the member would be useless: it keeps trying.
                self._changed.set()

    async def _balance(self) -> None:
        """Rebalance until it succeeds. Raises RebalanceFailed."""
        attempts = RebalanceAttempts(self._settings)
        while True:
            self._changed.clear()
            try:
                async with self._turn:
                    if await self._attempt():
                        self.rebalances += 1
                        return
                reason = "another member still owns a partition"
            except (StoreError, ClientError) as error:
                reason = str(error) or type(error).__name__
            wait_ms = attempts.failed()
            if wait_ms is None:
                raise RebalanceFailed(
                    f"group {self._identity.group}: {self._identity.consumer_id} cannot rebalance "
                    f"after {self._settings.retries_max} retries: {reason}"
                )
            logger.info("group %s: rebalance again: %s", self._identity.group, reason)
            if await self._changed_within(wait_ms):
                attempts.changed()

    async def _changed_within(self, wait_ms: float) -> bool:
        try:
            async with TimeLimit(self._clock, wait_ms):
                await self._changed.wait()
        except TimeoutError:
            return False
        return True

    async def _attempt(self) -> bool:
        """Hold, commit, release, read, divide, claim, begin. Returns False if a claim failed."""
        registry = self._registry
        if registry is None or registry.session.state is SessionState.LOST:
            self._feed.hold()
            registry = await self._join()
        if registry.session.state is SessionState.SUSPENDED:
            raise ConnectionLoss("the connection to the store is interrupted")
        await self._let_go(registry)
        image = await registry.look(self._identity.wants, self._on_change)
        owned = division(image, self._identity.consumer_id)
        if not await registry.claim(owned, self._on_change):
            return False
        assert self._storage is not None
        # Only now: the previous owner committed before it released the partition.
        offsets = await self._storage.fetch(owned)
        if not self.is_alive:
            return False
        await self._feed.begin(
            {slot: Share(thread, offsets.get(slot)) for slot, thread in owned.items()}
        )
        return True

    async def _let_go(self, registry: GroupRegistry) -> None:
        # A step that was interrupted left them here.
        self._uncommitted.update(self._feed.hold())
        if registry.session.state is SessionState.LOST:
            self._uncommitted.clear()
        if self._uncommitted and self._storage is not None:
            try:
                await self._storage.commit(self._uncommitted)
            except ClientError as error:
                # The next owner reads uncommitted records again.
                logger.warning("group %s: not committed: %s", self._identity.group, error)
        self._uncommitted.clear()
        await registry.release()

    def _crashed(self, error: BaseException) -> None:
        logger.error("group %s: the member has failed", self._identity.group, exc_info=error)
        self._feed.hold()
