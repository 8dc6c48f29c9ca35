"""Members of groups for tests, with streams that only remember what they were told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.classic.registry.attempts import RebalanceSettings
from ottla.client.classic.registry.layout import RegistryLayout
from ottla.client.classic.registry.member import MemberIdentity, MemberParts, RegistryMember
from ottla.coordinator.store import paths
from ottla.coordinator.store.store import NodeExists
from ottla.wire.clock import RealClock

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ottla.client.classic.registry.layout import RegistrySlot
    from ottla.client.classic.registry.member import Share
    from ottla.client.classic.registry.subscription import TopicCount
    from ottla.coordinator.store.store import MetadataSession, Store

BACKOFF_MS = 100.0


class ToldFeed:
    """Remembers the partitions that it feeds, and what it is said to have handed out."""

    def __init__(self) -> None:
        self.shares: dict[RegistrySlot, Share] = {}
        self.consumed: dict[RegistrySlot, int] = {}

    def hold(self) -> Mapping[RegistrySlot, int]:
        held, self.consumed = self.consumed, {}
        self.shares = {}
        return held

    async def begin(self, shares: Mapping[RegistrySlot, Share]) -> None:
        self.shares = dict(shares)

    @property
    def owned(self) -> list[str]:
        """The partitions, as topic and number."""
        return sorted(f"{one.topic}:{one.partition}" for one in self.shares)


class ToldMember(RegistryMember):
    """A member with its feed."""

    def __init__(self, store: Store, identity: MemberIdentity, retries_max: int = 50) -> None:
        self.feed = ToldFeed()
        self.sessions: list[MetadataSession] = []

        async def open_session() -> MetadataSession:
            self.sessions.append(await store.connect(6_000))
            return self.sessions[-1]

        parts = MemberParts(open_session, self.feed, lambda registry: registry, RealClock())
        super().__init__(parts, identity, RebalanceSettings(retries_max, BACKOFF_MS))


def told_member(
    store: Store,
    consumer_id: str,
    wants: TopicCount,
    layout: RegistryLayout = RegistryLayout.V08,
    retries_max: int = 50,
) -> ToldMember:
    """A member of group ``g``, not yet started."""
    return ToldMember(store, MemberIdentity("g", consumer_id, wants, layout), retries_max)


async def prepare(session: MetadataSession, brokers: Sequence[int] = (1,)) -> None:
    """The znodes that brokers make."""
    for path in paths.PERMANENT_PATHS:
        try:
            await session.create(path)
        except NodeExists:
            continue
    for broker in brokers:
        await session.create(paths.broker(broker), b"{}", ephemeral=True)


async def add_topic(
    session: MetadataSession, name: str, replicas: Mapping[int, tuple[int, ...]]
) -> None:
    """A topic's assignment, as the controller writes it."""
    payload = paths.build_topic(paths.TopicPayload(None, replicas))
    await session.create(paths.topic(name), payload)
