"""A cluster, transactional producers and pipelines under chaos: the scenario of ``--transactions``.

Tellers write transactions over several partitions, pipes take records from one partition to another
exactly once, readers watch. Brokers and clients are killed, paused and cut off; now and then a
second process claims a transactional id while the first one is paused. After healing no transaction
may stay undecided, everything committed is read from start to end, and the histories are judged.
"""

from __future__ import annotations

import asyncio
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.coordinating.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from ottla.coordinator.transaction import ending, metadata, records
from tests.simulation.checkers import replies
from tests.simulation.cluster.client import ClusterClient
from tests.simulation.cluster.hazards.replacing import Replacement, replaced
from tests.simulation.cluster.operators import Mover
from tests.simulation.cluster.scenario import ClusterRun
from tests.simulation.transactions.books import Books, Pipe
from tests.simulation.transactions.options import TransactionOptions, draw_transaction_options
from tests.simulation.transactions.piper import Piper
from tests.simulation.transactions.reading import read_on, read_to_the_end
from tests.simulation.transactions.strikes import Strikes
from tests.simulation.transactions.teller import Teller
from tests.simulation.transactions.terms import Terms

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from ottla.protocol.ports import Ports
    from tests.simulation.cluster.ambushes import Ambushes
    from tests.simulation.history import Partition
    from tests.simulation.world.node import Node
    from tests.simulation.world.random import SimRandom
    from tests.simulation.world.world import Outcome

DISTURBANCE_S = (2.0, 6.0, 20.0)
# With the setting that gives the number of partitions of each.
INTERNAL_TOPICS = MappingProxyType(
    {
        OFFSETS_TOPIC: "offsets.topic.num.partitions",
        TRANSACTIONS_TOPIC: "transaction.state.log.num.partitions",
    }
)
EXPIRATION = "transactional.id.expiration.ms"
FOR_EVER_MS = 604_800_000
FLUSHING = MappingProxyType({"ottla.flush.before.ack": "true"})


class Seat(NamedTuple):
    """A machine on which the program of some transactional id runs."""

    node: Node
    rival: Node


class TransactionsOfACluster(ClusterRun):
    """One run; made for one seed."""

    def __init__(self, seed: int, drawn: TransactionOptions) -> None:
        super().__init__(seed, drawn.cluster)
        self.drawn = drawn
        self.books = Books()
        self.strikes = Strikes(self.world, drawn.strikes)
        self._random = self.world.random.child("transactions")
        inputs = self.partitions
        self.pipes = [
            Pipe(
                f"pipe-{number}",
                f"group-{number}",
                inputs[number % len(inputs)],
                ("out", number),
                drawn.has_members,
            )
            for number in range(drawn.pipes)
        ]
        self._seats: list[Seat] = []
        self._disturbances: list[asyncio.Future[None]] = []
        self._open_tellers = 0
        self._chaos: Ambushes | None = None
        self._is_read_to_the_end = False

    def run(self) -> Outcome:
        """The whole story and its verdict."""
        with self.strikes.watched(), replaced(_earlier_end_of_epochs(self.drawn.last_epoch)):
            outcome = super().run()
        found = self.books.violations(self.pipes, is_read_to_the_end=self._is_read_to_the_end)
        for seat in self._seats:
            for node in seat:
                found += [f"{node.name} died of {death}" for death in node.deaths]
        events = self.books.recorder.events
        counts = {
            **outcome.counts,
            "events": len(events),
            "records": sum(map(len, self.books.finals.values())),
            "piped": sum(len(self.books.finals.get(pipe.target, ())) for pipe in self.pipes),
            **self.strikes.counts,
            **{f"transactions {kind}": n for kind, n in sorted(self.books.ended.items())},
        }
        return outcome._replace(
            violations=outcome.violations + found,
            counts=counts,
            options=repr(self.drawn),
            scenario="--transactions ",
        )

    def _judge(self) -> list[str]:
        # The records are judged by the checker of histories; of the rest, what is left is this.
        history = self.history
        found = [f"surprise: {surprise}" for surprise in history.surprises]
        found += [f"stuck: {stuck}" for stuck in history.stuck]
        return found + replies.check(history)

    # ---- the story ----

    async def _set_up(self) -> None:
        await super()._set_up()

        async def create(client: ClusterClient) -> None:
            options = self.options
            if self.pipes:
                settings = options.topic_settings
                await client.make_topic("out", len(self.pipes), options.replicas, settings)
            if options.flushes:
                # Power is cut everywhere then, and the brokers' own topics have to last as well.
                for topic, count in INTERNAL_TOPICS.items():
                    partitions = int(options.settings[count])
                    await client.make_topic(topic, partitions, options.replicas, FLUSHING)

        await self.start_client("layer", create)

    def _make_chaos(self) -> Ambushes:
        self._chaos = super()._make_chaos()
        return self._chaos

    async def _restart_all(self, chaos: Ambushes) -> None:
        await self.strikes.disarm()
        await super()._restart_all(chaos)

    def _start_clients(self) -> None:
        if self._chaos is not None:
            self.strikes.arm(self._chaos)
        for number in range(self.drawn.tellers):
            self._open_tellers += 1
            self._seat(f"teller-{number}", self._tell)
        for pipe in self.pipes:
            work = partial(self._pipe, pipe)
            self._seat(pipe.transactional_id, work, has_own_ids=pipe.has_members)
        for number in range(self.drawn.readers):
            self.start_client(f"reader-{number}", self._read)
        for seat in self._seats if self.drawn.disturbs else ():
            random = self._random.child(seat.node.name)
            self._disturbances.append(asyncio.ensure_future(self._disturb(seat, random)))
        if self.options.moves:
            self.start_client("mover", self._move)
            self.start_client("mover-within", self._move_internal)

    async def _move_internal(self, client: ClusterClient) -> None:
        partitions = [
            (topic, number)
            for topic, count in INTERNAL_TOPICS.items()
            for number in range(int(self.options.settings[count]))
        ]
        mover = Mover(client, partitions, self.options.brokers, self.options.replicas)
        await mover.run(lambda: self._has_chaos)

    def _seat(
        self,
        transactional_id: str,
        work: Callable[[str, ClusterClient, asyncio.Future[None]], Coroutine[Any, Any, None]],
        *,
        has_own_ids: bool = False,
    ) -> None:
        done: asyncio.Future[None] = self.world.loop.create_future()
        lives = 0

        async def program(own_id: str, ports: Ports) -> None:
            nonlocal lives
            lives += 1
            name = f"{transactional_id}.{lives}"
            client = ClusterClient(ports, self.addresses, self.history, name)
            await client.negotiate()
            await work(own_id, client, done)

        names = [transactional_id, f"{transactional_id}-rival"]
        ids = names if has_own_ids else [transactional_id] * 2
        nodes = [
            self.world.node(name, partial(program, own_id))
            for name, own_id in zip(names, ids, strict=True)
        ]
        self._seats.append(Seat(*nodes))
        self._clients += [node.name for node in nodes]
        self._tasks.append(done)
        nodes[0].start()

    def _terms(self, transactional_id: str, partitions: list[Partition]) -> Terms:
        drawn = self.drawn
        return Terms(
            transactional_id,
            partitions,
            drawn.timeout_ms,
            drawn.pace_ms,
            drawn.second,
            drawn.habits,
            # With an id that was used up another producer id comes, too.
            int(self.options.settings.get(EXPIRATION, FOR_EVER_MS)) < FOR_EVER_MS
            or drawn.last_epoch is not None,
        )

    async def _tell(
        self, transactional_id: str, client: ClusterClient, done: asyncio.Future[None]
    ) -> None:
        teller = Teller(client, self.books, self._terms(transactional_id, self.partitions))
        await teller.run(lambda: self._go_on)
        if not done.done():
            self._open_tellers -= 1
            done.set_result(None)

    async def _pipe(
        self, pipe: Pipe, transactional_id: str, client: ClusterClient, done: asyncio.Future[None]
    ) -> None:
        terms = self._terms(transactional_id, [pipe.target])
        piper = Piper(client, self.books, terms, pipe, lambda: self._open_tellers == 0)
        await piper.run(lambda: not piper.is_done and not done.done())
        if not done.done():
            done.set_result(None)

    async def _read(self, client: ClusterClient) -> None:
        outputs = [pipe.target for pipe in self.pipes]
        partition = client.random.choice([*self.partitions, *outputs])
        await read_on(client, self.books, partition, lambda: self._go_on)

    async def _disturb(self, seat: Seat, random: SimRandom) -> None:
        """Always leaves the first machine running and the rival's switched off."""
        until_s = self.world.loop.time() + self.options.chaos_s
        mean_s = random.choice(DISTURBANCE_S)
        while True:
            wait_s = random.exponential(mean_s)
            if self.world.loop.time() + wait_s > until_s:
                break
            await asyncio.sleep(wait_s)
            if not seat.node.running:
                continue
            what = random.choice(self.drawn.disturbances)
            sleep_s = random.choice(self.drawn.sleeps_s)
            if what == "kill":
                seat.node.kill()
                await asyncio.sleep(sleep_s)
                seat.node.start()
                continue
            # Now and then both are awake.
            if what == "sleep" or random.chance(0.7):
                seat.node.pause()
            if what == "rival":
                seat.rival.start()
            await asyncio.sleep(sleep_s)
            if seat.node.running:
                seat.node.resume()
            if what == "rival":
                await asyncio.sleep(sleep_s / 2)
                if seat.rival.running:
                    seat.rival.kill()

    async def _drain(self) -> None:
        await asyncio.gather(*self._disturbances)
        await super()._drain()

    async def _take_stock(self) -> None:
        async def read(client: ClusterClient) -> None:
            for partition in [*self.partitions, *(pipe.target for pipe in self.pipes)]:
                await read_to_the_end(client, self.books, partition)
            self._is_read_to_the_end = True

        await self.start_client("last-reader", read)


def _earlier_end_of_epochs(last_epoch: int | None) -> list[Replacement]:
    if last_epoch is None:
        return []
    owners = (metadata, records, ending)
    return [Replacement(owner, "LAST_USABLE_EPOCH", lambda _: last_epoch) for owner in owners]


def run(seed: int, chaos_s: float | None = None) -> Outcome:
    """One seed."""
    outcome = TransactionsOfACluster(seed, draw_transaction_options(seed, chaos_s)).run()
    if chaos_s is not None:
        outcome = outcome._replace(scenario=f"--transactions --seconds {chaos_s} ")
    return outcome
