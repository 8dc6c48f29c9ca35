"""One broker and its groups under chaos: the scenario of ``--groups``.

Members of both protocols join, read and commit while they and the broker die, sleep, stop and come
back. Then all is healed: each group must settle with the members there are, who share all
partitions, and reach the end of every log. At last the broker is killed once more, and what was
committed must still be there.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from ottla.protocol.ports import Address
from tests.simulation.clients.client import LATEST, Client
from tests.simulation.clients.wire import Gone
from tests.simulation.groups.checks import judge_groups
from tests.simulation.groups.classic_member import ClassicMember
from tests.simulation.groups.consumer_member import ConsumerMember
from tests.simulation.groups.coordination import describe, describe_consumer, fetch_offsets
from tests.simulation.groups.evidence import GroupEvidence, Outcome
from tests.simulation.groups.terms import Kind, Terms
from tests.simulation.options import Options, draw_options
from tests.simulation.single_broker import PORT, SERVER, SingleBroker
from tests.simulation.world.random import SimRandom

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from ottla.protocol.ports import Ports
    from tests.simulation.history import Partition
    from tests.simulation.single_broker import Build
    from tests.simulation.world.node import Node
    from tests.simulation.world.world import Outcome as WorldOutcome

CHAOS_S = 10.0
SETTLE_S = 45.0
FETCH_VERSION = 5
KINDS = (Kind.CLASSIC, Kind.CONSUMER, Kind.CONSUMER, Kind.MIXED, Kind.MIXED)
SESSION_SETTING = "group.consumer.session.timeout.ms"
# The third is longer than some sessions and shorter than a client's patience with an answer: a
# member that wakes up then continues as before.
SLEEPS_S = (0.1, 1.0, 2.7, 6.0)
SPIKE_MS_MAX = 200.0
DISTURBANCE_S = (0.7, 2.0)
DISTURBANCES = ("_kill", "_stop", "_sleep", "_sleep")


class Seat(NamedTuple):
    """A membership slot in a group and the machine of the member that holds it."""

    terms: Terms
    instance_id: str | None
    node: Node


class GroupsOfOneBroker(SingleBroker):
    """One run; made for one seed."""

    def __init__(self, seed: int, build: Build, options: Options) -> None:
        super().__init__(seed, build, options)
        self.evidence = GroupEvidence(
            self.history, self.world.loop.time, durable=options.is_durable
        )
        self._random = self.world.random.child("groups")
        self._stay = True
        self._seats: list[Seat] = []
        self._disturbances: list[asyncio.Future[None]] = []
        for number in range(self._random.choice((1, 1, 2))):
            terms = self._terms(f"group-{number}")
            for place in range(self._random.choice((1, 2, 3, 3, 4))):
                self._seats.append(self._seat(terms, place))

    def _terms(self, group: str) -> Terms:
        random = self._random.child(group)
        timeout_ms = random.choice((1_500, 4_000))
        terms = Terms(
            group,
            sorted(self.partitions),
            timeout_ms,
            timeout_ms,
            random.choice(KINDS),
            is_cooperative=random.chance(0.5),
            consumer_session_timeout_ms=int(self.options.settings[SESSION_SETTING]),
            consumer_rebalance_timeout_ms=random.choice((1_500, 4_000, 10_000)),
        )
        if terms.kind is Kind.CONSUMER:
            self.evidence.consumer_groups.add(group)
        elif terms.kind is Kind.MIXED:
            self.evidence.mixed_groups.add(group)
        return terms

    def _seat(self, terms: Terms, place: int) -> Seat:
        name = f"{terms.group}-member-{place}"
        instance_id = f"seat-{place}" if self._random.chance(0.4) else None

        async def program(ports: Ports) -> None:
            stopped = asyncio.Event()
            ports.process.on_stop(stopped.set)
            client = Client(ports, Address(SERVER, PORT), self.history, name)
            await client.negotiate()
            member = _kind_of_member(terms, client)(client, self.evidence, terms, instance_id)
            await member.run(lambda: self._stay and not stopped.is_set())

        node = self.world.node(name, program)
        node.on_exit = lambda: self.evidence.claims.drop(name)
        return Seat(terms, instance_id, node)

    def _on_loss(self, reason: str) -> None:
        super()._on_loss(reason)
        self.evidence.on_loss()

    def run(self) -> WorldOutcome:
        """The whole story and its verdict."""
        outcome = super().run()
        acknowledged = sum(c.outcome is Outcome.ACKNOWLEDGED for c in self.evidence.commits)
        counts = {
            **outcome.counts,
            "generations": len({(told.group, told.epoch) for told in self.evidence.told}),
            "claims": len(self.evidence.claims.all),
            "commits": acknowledged,
            "seen": sum(map(len, self.evidence.seen.values())),
        }
        found = judge_groups(self.evidence)
        for seat in self._seats:
            found += [f"{seat.node.name} died of {death}" for death in seat.node.deaths]
        return outcome._replace(
            violations=outcome.violations + found, counts=counts, scenario="--groups "
        )

    # -- chaos -------------------------------------------------------------------------------

    def _start_clients(self) -> list[str]:
        names = super()._start_clients()
        for seat in self._seats:
            seat.node.start()
            disturbing = self._disturb(seat, self._random.child(seat.node.name))
            self._disturbances.append(asyncio.ensure_future(disturbing))
        return names + [seat.node.name for seat in self._seats]

    async def _disturb(self, seat: Seat, random: SimRandom) -> None:
        """Kill, stop and put to sleep; always leave it running."""
        until_s = self.world.loop.time() + self.options.chaos_s
        mean_s = random.choice(DISTURBANCE_S)
        while True:
            wait_s = random.exponential(mean_s)
            if self.world.loop.time() + wait_s > until_s:
                break
            await asyncio.sleep(wait_s)
            await getattr(self, random.choice(DISTURBANCES))(seat.node, random.choice(SLEEPS_S))

    async def _kill(self, node: Node, sleep_s: float) -> None:
        """Its session ends by itself, or its next life takes the place."""
        node.kill()
        await asyncio.sleep(sleep_s)
        node.start()

    async def _stop(self, node: Node, sleep_s: float) -> None:
        """Stop a member, which leaves its group if it can."""
        node.terminate()
        await asyncio.sleep(sleep_s)
        if node.running:
            node.kill()
        node.start()

    async def _sleep(self, node: Node, sleep_s: float) -> None:
        """Pause a member, which keeps its former state."""
        node.pause()
        await asyncio.sleep(sleep_s)
        node.resume()

    # -- the end -----------------------------------------------------------------------------

    async def _drain(self) -> None:
        await super()._drain()
        await asyncio.gather(*self._disturbances)
        if not await self._within(SETTLE_S, self._in_client("settler", self._settle), "settling"):
            self._tell_holders()

    async def _take_stock(self) -> None:
        await super()._take_stock()
        await self._in_client("checker", self._look)
        self.server.kill()
        self.server.start()
        await self._in_client("late-checker", self._look)
        self._stay = False
        await self._in_client("farewell", self._see_them_off)

    async def _settle(self, client: Client) -> None:
        for terms in self._groups():
            await self._until(client, lambda terms=terms: self._is_settled(client, terms))  # type: ignore[misc]

    async def _is_settled(self, client: Client, terms: Terms) -> bool:
        """The group has the members there are, they share all partitions, and what is committed
        are the ends of all logs."""
        seats = [seat for seat in self._seats if seat.terms is terms]
        held = self.evidence.claims.held
        owned = sorted(partition for seat in seats for partition in held.get(seat.node.name, ()))
        if owned != terms.partitions or not await self._is_stable(client, terms, len(seats)):
            return False
        offsets = await self._offsets(client, terms)
        if offsets is None:
            return False
        for partition, offset in offsets.items():
            if max(0, offset) != await client.list_offset(partition, LATEST, told=False):
                return False
        return True

    async def _is_stable(self, client: Client, terms: Terms, count: int) -> bool:
        found = await describe_consumer(client, terms.group)
        if found is not None and any(
            one.assignment != one.target_assignment for one in found.members
        ):
            return False
        found = found or await describe(client, terms.group)
        return found is not None and found.group_state == "Stable" and len(found.members) == count

    def _tell_holders(self) -> None:
        """Report which member has which partitions, for the reader of the seed's log."""
        for seat in self._seats:
            held = sorted(self.evidence.claims.held.get(seat.node.name, ()))
            self.world.report(f"{seat.node.name} has {held}")

    async def _look(self, client: Client) -> None:
        """Record the committed offsets for the checkers."""
        for terms in self._groups():

            async def is_told(terms: Terms = terms) -> bool:
                return await self._offsets(client, terms) is not None

            await self._until(client, is_told)

    async def _see_them_off(self, client: Client) -> None:
        """A group that all have left, or have been too long silent in, is empty."""
        for terms in self._groups():

            async def is_empty(terms: Terms = terms) -> bool:
                found = await describe_consumer(client, terms.group)
                found = found or await describe(client, terms.group)
                return found is not None and found.group_state == "Empty"

            await self._until(client, is_empty)

    async def _until(
        self, client: Client, condition: Callable[[], Coroutine[Any, Any, bool]]
    ) -> None:
        while True:
            try:
                if await condition():
                    return
            except Gone:
                pass
            await client.pause()

    async def _offsets(self, client: Client, terms: Terms) -> dict[Partition, int] | None:
        return await fetch_offsets(
            client, self.evidence, FETCH_VERSION, terms.group, terms.partitions
        )

    def _groups(self) -> list[Terms]:
        return list(dict.fromkeys(seat.terms for seat in self._seats))


def _kind_of_member(terms: Terms, client: Client) -> type[ClassicMember | ConsumerMember]:
    """This life's protocol."""
    speaks_consumer = {
        Kind.CLASSIC: False,
        Kind.CONSUMER: True,
        Kind.MIXED: client.random.child("protocol").chance(0.5),
    }
    return ConsumerMember if speaks_consumer[terms.kind] else ClassicMember


def draw_group_options(seed: int, chaos_s: float = CHAOS_S) -> Options:
    """Options of the other scenario, without those that hide records, and with short sessions.

    Calm must be calm: where answers take longer than sessions last, no group can settle.

    Pages that a failed fsync loses may be those of the offsets topic, which one broker alone cannot
    mend.
    """
    options = draw_options(seed, chaos_s)
    random = SimRandom(seed, "group options")
    settings = {
        **options.settings,
        "offsets.topic.num.partitions": str(random.choice((1, 3))),
        "group.min.session.timeout.ms": "100",
        "group.initial.rebalance.delay.ms": str(random.choice((0, 0, 700))),
        "offsets.topic.segment.bytes": str(random.choice((6_000, 1_048_576))),
        "group.consumer.min.session.timeout.ms": "100",
        "group.consumer.min.heartbeat.interval.ms": "10",
        SESSION_SETTING: str(random.choice((1_500, 4_000))),
        "group.consumer.heartbeat.interval.ms": str(random.choice((100, 300, 700))),
    }
    topic_settings = dict(options.topic_settings)
    topic_settings.pop("retention.bytes", None)
    if "flush.messages" in topic_settings:
        settings["log.flush.interval.messages"] = topic_settings["flush.messages"]
    return options._replace(
        consumers=0,
        pace_ms=max(60.0, options.pace_ms),
        keeps_topics=False,
        trims=False,
        faults=tuple(fault for fault in options.faults if fault != "fsync_loses"),
        net=options.net._replace(spike_ms=min(SPIKE_MS_MAX, options.net.spike_ms)),
        settings=settings,
        topic_settings=topic_settings,
    )


def run(seed: int, build: Build, chaos_s: float = CHAOS_S) -> WorldOutcome:
    """One seed."""
    return GroupsOfOneBroker(seed, build, draw_group_options(seed, chaos_s)).run()
