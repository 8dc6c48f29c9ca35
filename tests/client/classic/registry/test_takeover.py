"""A member takes partitions over from one that commits and lets go in the middle of its attempt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.engine.tasks import Tasks
from ottla.client.classic.registry.attempts import RebalanceSettings
from ottla.client.classic.registry.layout import RegistrySlot
from ottla.client.classic.registry.member import MemberIdentity, MemberParts, RegistryMember
from ottla.client.classic.registry.registry import GroupRegistry
from ottla.client.classic.registry.subscription import static
from ottla.coordinator.store.embedded import EmbeddedStore
from tests.client.classic.registry.members import ToldFeed, add_topic, prepare
from tests.support.virtual_time import in_virtual_time

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from ottla.coordinator.store.store import MetadataSession
    from ottla.protocol.ports import Ports

SLOT = RegistrySlot("t", "0", 0, 1)
WHEN_REFUSED_MS = 50.0
LAST = 5


class Interrupted:
    """The offsets in ZooKeeper; after a fetch the previous owner acts before the answer arrives."""

    def __init__(self, registry: GroupRegistry, meanwhile: Callable[[], Awaitable[None]]) -> None:
        self._registry = registry
        self._meanwhile = meanwhile

    async def fetch(self, slots: Iterable[RegistrySlot]) -> dict[RegistrySlot, int]:
        found = await self._registry.fetch(slots)
        await self._meanwhile()
        return found

    async def commit(self, offsets: Mapping[RegistrySlot, int]) -> None:
        await self._registry.commit(offsets)


class PreviousOwner:
    """Owns the partition and has handed out more than it has committed."""

    def __init__(self, session: MetadataSession) -> None:
        self._registry = GroupRegistry(session, "g", "earlier")
        self._owns = False

    async def own(self) -> None:
        self._owns = await self._registry.claim({SLOT: "earlier-0"}, lambda _event: None)
        await self._registry.commit({SLOT: 1})

    async def let_go(self) -> None:
        """Commit and release, once."""
        if self._owns:
            self._owns = False
            await self._registry.commit({SLOT: LAST})
            await self._registry.release()


async def _take_over(ports: Ports) -> list[int | None]:
    """Where the next owner begins."""
    flushes = Tasks()
    store = await EmbeddedStore.open(ports.disk, ports.clock, flushes.spawn, "/store")
    session = await store.connect()
    await prepare(session)
    await add_topic(session, "t", {0: (1,)})
    earlier, feed = PreviousOwner(session), ToldFeed()
    await earlier.own()

    async def let_go_later() -> None:
        await ports.clock.sleep(WHEN_REFUSED_MS)
        await earlier.let_go()

    flushes.spawn("previous owner", let_go_later())
    parts = MemberParts(
        store.connect, feed, lambda one: Interrupted(one, earlier.let_go), ports.clock
    )
    member = RegistryMember(
        parts, MemberIdentity("g", "later", static({"t": 1})), RebalanceSettings(4, 1_000.0)
    )
    await member.start()
    starts = [share.offset for share in feed.shares.values()]
    await member.close()
    await flushes.stop()
    await store.close()
    return starts


def test_offsets_are_read_only_from_partitions_that_are_claimed() -> None:
    """Before the claim, the previous owner may still hand out records and commit: these would be
    read twice, or the commit of the new owner would lie behind that of the old one."""
    assert in_virtual_time(_take_over) == [LAST]
