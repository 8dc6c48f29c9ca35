"""One seed: members of a group join, leave, are killed, cut off and lose their sessions.

A partition must never be fed by two live members, no offset may be skipped, and once the chaos has
ended every partition has an owner within ten seconds.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.engine.tasks import Tasks
from ottla.client.classic.registry.attempts import RebalanceSettings
from ottla.client.classic.registry.layout import RegistryLayout, slots_of
from ottla.client.classic.registry.member import MemberIdentity, MemberParts, RegistryMember
from ottla.client.classic.registry.subscription import TopicCount, filtered, static
from ottla.client.classic.registry.topic_filter import whitelist
from ottla.coordinator.store import paths
from ottla.coordinator.store.embedded import EmbeddedStore
from ottla.coordinator.store.store import SessionExpired, StoreError
from ottla.wire.errors import ClientError
from tests.simulation.registry.links import Around, FarSession
from tests.simulation.registry.witness import Witness, WitnessedFeed
from tests.simulation.world.random import SimRandom
from tests.support.virtual_time import in_virtual_time

if TYPE_CHECKING:
    from ottla.client.classic.registry.layout import RegistrySlot
    from ottla.coordinator.store.store import MetadataSession
    from ottla.protocol.ports import Ports

MEMBERS_MAX = 8
TIMEOUT_MS = 6_000
# What a member may take to own its share after the last change of the group.
SETTLED_MS = 10_000
TICK_MS = 20
REPLICAS = {"t": {number: (number % 3 + 1,) for number in range(7)}, "u": {0: (2,), 1: (1,)}}
CLEAN = ("join", "leave")
CHAOS = (*CLEAN, "kill", "cut", "expire", "broker", "topic")


class RegistryOutcome(NamedTuple):
    """What one seed showed."""

    seed: int
    complaints: list[str]
    repeated: int
    rebalances: int


class _Seat:
    """One member with its streams and its link."""

    def __init__(self, story: _Story, name: str, count: TopicCount) -> None:
        self.feed = WitnessedFeed(name, story.witness)
        self._story = story
        self.session: FarSession | None = None
        identity = MemberIdentity("g", name, count, story.layout)
        parts = MemberParts(self._open, self.feed, lambda one: one, story.ports.clock)
        self.member = RegistryMember(parts, identity, RebalanceSettings())

    async def _open(self) -> MetadataSession:
        story = self._story
        inner = await story.store.connect(TIMEOUT_MS)
        if self.feed.is_dead:
            # Killed meanwhile: it does nothing with its session.
            await inner.close()
            await story.over.wait()
            raise SessionExpired("the story is over")
        around = Around(story.ports.clock, story.random.child("link"), story.over)
        self.session = FarSession(inner, story.store, around)
        return self.session


class _Story:
    def __init__(self, ports: Ports, seed: int, store: EmbeddedStore, tasks: Tasks) -> None:
        self.ports = ports
        self.store = store
        self.tasks = tasks
        self.random = SimRandom(seed, "registry")
        self.witness = Witness()
        self.layout = self.random.choice(tuple(RegistryLayout))
        self.seats: dict[str, _Seat] = {}
        self.past: list[_Seat] = []
        self._joined = 0
        self.over = asyncio.Event()
        self._replicas = dict(REPLICAS)

    async def prepare(self) -> None:
        """Brokers and topics, as brokers write them."""
        session = self._session = await self.store.connect()
        for path in paths.PERMANENT_PATHS:
            if await session.exists(path) is None:
                await session.create(path)
        for broker in (1, 2, 3):
            await session.create(paths.broker(broker), b"{}")
        for name, replicas in REPLICAS.items():
            await session.create(
                paths.topic(name), paths.build_topic(paths.TopicPayload(None, replicas))
            )
        self.tasks.spawn("ticks", self._tick())

    async def _tick(self) -> None:
        while True:
            await self.ports.clock.sleep(TICK_MS)
            for seat in self.seats.values():
                seat.feed.tick(seat.member.is_alive)

    async def do(self, action: str) -> None:
        await getattr(self, f"_do_{action}")()

    async def _do_join(self) -> None:
        if len(self.seats) >= MEMBERS_MAX:
            return
        self._joined += 1
        name = f"host-{self.random.below(5)}:{self._joined}"
        count = self.random.choice(
            (static({"t": 1, "u": 1}), static({"t": 2, "u": 1}), filtered(whitelist(".*"), 1))
        )
        seat = self.seats[name] = _Seat(self, name, count)
        self.tasks.spawn(f"start {name}", self._start(name, seat))

    async def _start(self, name: str, seat: _Seat) -> None:
        try:
            await seat.member.start()
        except (ClientError, StoreError):
            # Cut off or expired while it started; an application would start it again.
            self.seats.pop(name, None)
            self.past.append(seat)

    def _one(self) -> str | None:
        return self.random.choice(tuple(sorted(self.seats))) if self.seats else None

    async def _do_leave(self) -> None:
        name = self._one()
        if name is not None and self.seats[name].member.rebalances:
            seat = self.seats.pop(name)
            self.past.append(seat)
            await seat.member.close()

    async def _do_kill(self) -> None:
        name = self._one()
        if name is None:
            return
        seat = self.seats.pop(name)
        self.past.append(seat)
        seat.feed.die()
        if seat.session is not None:
            seat.session.die()
            self.tasks.spawn(f"expiry of {name}", self._expire_later(seat.session))

    async def _expire_later(self, session: FarSession) -> None:
        await self.ports.clock.sleep(TIMEOUT_MS)
        await session.expire()

    async def _do_cut(self) -> None:
        """The link is back before, or after, the session is over."""
        name = self._one()
        session = None if name is None else self.seats[name].session
        if session is not None and session.cut():
            self.tasks.spawn(f"cut of {name}", self._heal_later(session))

    async def _heal_later(self, session: FarSession) -> None:
        left_ms = self.random.below(2 * TIMEOUT_MS)
        await self.ports.clock.sleep(min(left_ms, TIMEOUT_MS))
        if left_ms >= TIMEOUT_MS:
            await session.expire()
            await self.ports.clock.sleep(left_ms - TIMEOUT_MS)
        await session.heal()

    async def _do_expire(self) -> None:
        name = self._one()
        session = None if name is None else self.seats[name].session
        if session is not None and session.cut():
            await self._heal_or_expire(session)

    async def _heal_or_expire(self, session: FarSession) -> None:
        await self.ports.clock.sleep(TIMEOUT_MS)
        await session.expire()
        await session.heal()

    async def _do_broker(self) -> None:
        path = paths.broker(9)
        if await self._session.exists(path) is None:
            await self._session.create(path, b"{}")
        else:
            await self._session.delete(path)

    async def _do_topic(self) -> None:
        """Topic t grows by a partition."""
        grown = {**self._replicas["t"], len(self._replicas["t"]): (3,)}
        self._replicas["t"] = grown
        payload = paths.build_topic(paths.TopicPayload(None, grown))
        await self._session.set(paths.topic("t"), payload)

    def slots(self) -> list[RegistrySlot]:
        """All partitions that have to have an owner."""
        return [
            slot
            for name, replicas in self._replicas.items()
            for slot in slots_of(name, replicas, self.layout)
        ]

    def not_owned(self) -> list[RegistrySlot]:
        return [slot for slot in self.slots() if slot not in self.witness.feeding]

    async def end(self) -> None:
        self.over.set()
        await self.tasks.stop()
        for seat in (*self.seats.values(), *self.past):
            await seat.member._tasks.stop()
            seat.feed.hold()
        await self.store.close()


def run_seed(seed: int, actions: tuple[str, ...] = CHAOS, steps: int = 14) -> RegistryOutcome:
    """One story of that seed."""

    async def story(ports: Ports) -> RegistryOutcome:
        failures: list[str] = []
        tasks = Tasks(lambda name, error: failures.append(f"{name}: {error!r}"))
        # Of the store alone: it flushes until its end.
        flushes = Tasks()
        store = await EmbeddedStore.open(ports.disk, ports.clock, flushes.spawn, "/store")
        told = _Story(ports, seed, store, tasks)
        await told.prepare()
        for _ in range(told.random.below(MEMBERS_MAX) + 1):
            await told.do("join")
        for _ in range(steps):
            await ports.clock.sleep(told.random.choice((5, 80, 700, 4_000)))
            await told.do(told.random.choice(actions))
        if not told.seats:
            await told.do("join")
        # Until the last session of a killed or cut member is over.
        await ports.clock.sleep(2 * TIMEOUT_MS)
        if not told.seats:
            await told.do("join")
        await ports.clock.sleep(SETTLED_MS)
        left = told.not_owned()
        if left:
            told.witness.complaints.append(f"without an owner: {left}")
        rebalances = sum(one.member.rebalances for one in (*told.seats.values(), *told.past))
        complaints = [*told.witness.complaints, *failures]
        await told.end()
        await flushes.stop()
        return RegistryOutcome(seed, complaints, told.witness.repeated, rebalances)

    return in_virtual_time(story, seed)
