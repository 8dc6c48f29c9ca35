"""One broker under chaos: the scenario that every seed runs.

First clients and faults together; then the faults stop, the broker is restarted, producers settle
what they have open, and everything is read back. Safety is judged over the whole, liveness at the
end.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.protocol.ports import Address
from tests.simulation.chaos import Chaos
from tests.simulation.checkers.verdict import judge
from tests.simulation.clients.admins import TopicKeeper, Trimmer
from tests.simulation.clients.client import Client, Refused
from tests.simulation.clients.consumers import Consumer, take_stock
from tests.simulation.clients.producers import Kind, Producer
from tests.simulation.durability import damaged_partitions, durable_ends
from tests.simulation.history import Fate, History, Loss
from tests.simulation.options import Options, draw_options
from tests.simulation.world.node import Server, serve
from tests.simulation.world.world import Outcome, World

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from typing import Any

    from ottla.protocol.ports import Ports
    from tests.simulation.history import Partition

    Build = Callable[[Ports, Mapping[str, str]], Server]

# What other producers than the first are.
KINDS = (Kind.IDEMPOTENT, Kind.PLAIN, Kind.FIRE)
SERVER = "broker-0"
PORT = 9092
SET_UP_S = 60.0
DRAIN_S = 90.0
STOCK_S = 90.0
STOCK_ALL_S = 600.0
DATA_DIR = "/data"


class SingleBroker:
    """One run; made for one seed."""

    def __init__(self, seed: int, build: Build, options: Options) -> None:
        self.options = options
        self.history = History(may_trim=options.may_trim)
        self.world = World(seed, options.net)
        settings = {
            "node.id": "0",
            "listeners": f"PLAINTEXT://{SERVER}:{PORT}",
            "log.dirs": DATA_DIR,
            "auto.create.topics.enable": "false",
            **options.settings,
        }
        self.server = self.world.node(
            SERVER, serve(lambda ports: build(ports, settings)), options.machine
        )
        self.server.on_loss = self._on_loss
        self.server.on_start = lambda: self.history.restarts.append(self.history.tick())
        self.partitions: list[Partition] = [
            (f"topic-{topic}", number)
            for topic in range(options.topics)
            for number in range(options.partitions)
        ]
        self._go_on = True
        self._tasks: list[asyncio.Future[None]] = []

    def run(self) -> Outcome:
        """The whole story and its verdict."""
        self.world.run(self._story())
        history = self.history
        violations = [*self.world.violations, *judge(history), *self._unprovoked()]
        fates = {
            fate.name.lower(): sum(write.fate is fate for write in history.writes) for fate in Fate
        }
        self.world.note(repr(history.finals))
        return Outcome(
            seed=self.world.seed,
            violations=violations,
            digest=self.world.digest(),
            steps=self.world.loop.steps,
            virtual_s=self.world.loop.time(),
            counts={
                **fates,
                "reads": len(history.reads),
                "starts": self.server.incarnation,
                "losses": len(history.losses),
            },
            options=repr(self.options),
            events=self.world.events,
        )

    def _unprovoked(self) -> list[str]:
        """Without faults of the disk a broker neither dies of an exception nor logs an error."""
        if self.options.has_disk_faults:
            return []
        return [
            *(f"{SERVER} died of {death}" for death in self.server.deaths),
            *(
                f"{SERVER} complained: {message}"
                for message in sorted({*self.world.complaints.messages})
            ),
        ]

    async def _story(self) -> None:
        self.server.start()
        if not await self._within(SET_UP_S, self._set_up(), "setting up"):
            return
        clients = self._start_clients()
        chaos = Chaos(self.world, self.server, clients, self.world.random.child("chaos"))
        chaos.ordered_cuts = self.options.ordered_cuts
        until_s = self.world.loop.time() + self.options.chaos_s
        await chaos.run(self.options.faults, self.options.fault_mean_ms, until_s)
        await chaos.heal()
        self._go_on = False
        if await self._within(DRAIN_S, self._drain(), "draining"):
            await self._within(STOCK_ALL_S, self._take_stock(), "taking stock")

    async def _set_up(self) -> None:
        async def create(client: Client) -> None:
            for topic in dict(self.partitions):
                await client.create_topic(
                    topic, self.options.partitions, self.options.topic_settings
                )

        await self._in_client("admin", create)

    def _start_clients(self) -> list[str]:
        options, random = self.options, self.world.random.child("workload")
        names = []
        for number in range(options.producers):
            kind = Kind.IDEMPOTENT if number == 0 else random.choice(KINDS)
            names.append(f"producer-{number}")
            self._start(names[-1], lambda client, kind=kind: self._produce(client, kind))  # type: ignore[misc]
        for number in range(options.consumers):
            names.append(f"consumer-{number}")
            self._start(names[-1], self._consume)
        if options.keeps_topics:
            names.append("keeper")
            self._start("keeper", self._keep_topics)
        if options.trims:
            names.append("trimmer")
            self._start("trimmer", self._trim)
        return names

    async def _produce(self, client: Client, kind: Kind) -> None:
        count = 1 + client.random.below(len(self.partitions))
        producers = [
            Producer(
                client,
                partition,
                kind,
                pace_ms=self.options.pace_ms,
                durable=self.options.is_durable,
            )
            for partition in client.random.sample(self.partitions, count)
        ]
        await asyncio.gather(*(one.run(lambda: self._go_on) for one in producers))

    async def _consume(self, client: Client) -> None:
        await Consumer(client, self.partitions).run(lambda: self._go_on)

    async def _keep_topics(self, client: Client) -> None:
        if client.versions.delete_topics >= 0:
            keeper = TopicKeeper(client)
            await keeper.run(lambda: self._go_on)
            await keeper.verify()

    async def _trim(self, client: Client) -> None:
        if client.versions.delete_records >= 0:
            await Trimmer(client, self.partitions).run(lambda: self._go_on)

    async def _drain(self) -> None:
        await asyncio.gather(*self._tasks)

    async def _take_stock(self) -> None:
        async def stock(client: Client) -> None:
            for partition in self.partitions:
                try:
                    await asyncio.wait_for(take_stock(client, partition), STOCK_S)
                except TimeoutError:
                    self.history.offline.add(partition)

        await self._in_client("auditor", stock)

    async def _in_client(
        self, name: str, work: Callable[[Client], Coroutine[Any, Any, None]]
    ) -> None:
        await self._start(name, work)

    def _start(
        self, name: str, work: Callable[[Client], Coroutine[Any, Any, None]]
    ) -> asyncio.Future[None]:
        """Run the work on a separate machine; the future is set when it is done."""
        done: asyncio.Future[None] = self.world.loop.create_future()

        async def program(ports: Ports) -> None:
            client = Client(ports, Address(SERVER, PORT), self.history, name)
            try:
                await client.negotiate()
                await work(client)
            except Refused as refusal:
                self.history.stuck.append(f"{name}: {refusal}")
            if not done.done():
                done.set_result(None)

        node = self.world.node(name, program)
        node.start()
        self._tasks.append(done)
        return done

    async def _within(self, limit_s: float, work: Coroutine[Any, Any, None], what: str) -> bool:
        try:
            await asyncio.wait_for(work, limit_s)
        except TimeoutError:
            self.history.stuck.append(f"{what} took more than {limit_s} virtual seconds")
            return False
        return True

    def _on_loss(self, reason: str) -> None:
        self.history.damaged |= damaged_partitions(self.server.files)
        ends = durable_ends(self.server.files)
        self.world.report(f"{self.server.name}: durable are {ends}")
        self.history.losses.append(Loss(self.history.tick(), reason, ends))


def run(seed: int, build: Build, chaos_s: float = 6.0) -> Outcome:
    """One seed."""
    return SingleBroker(seed, build, draw_options(seed, chaos_s)).run()
