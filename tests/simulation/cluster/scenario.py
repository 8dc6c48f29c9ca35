"""A cluster under chaos: the scenario of ``--cluster``.

Clients and faults together first; then everything is healed and every broker restarted. Within
bounded time every partition must accept acks=all writes, all replicas be in sync, and all brokers
agree on the metadata. At last all logs are read from start to end. Safety is judged throughout.
"""

from __future__ import annotations

import asyncio
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from ottla.broker.server.broker import Broker
from ottla.coordinator.configs.broker_configs import parse_broker_config
from ottla.coordinator.store import paths
from ottla.protocol.ports import Address
from tests.simulation.clients.client import Refused
from tests.simulation.clients.consumers import take_stock
from tests.simulation.clients.producers import Kind
from tests.simulation.cluster.ambushes import Ambushes
from tests.simulation.cluster.chaos import BrokerChaos
from tests.simulation.cluster.client import ClusterClient
from tests.simulation.cluster.ensemble import STORE_HOST, Ensemble
from tests.simulation.cluster.evidence import ClusterHistory, judge_cluster
from tests.simulation.cluster.leftovers import leftovers
from tests.simulation.cluster.operators import ClusterKeeper, Mover, trim
from tests.simulation.cluster.options import ClusterOptions, draw_cluster_options, with_trimming
from tests.simulation.cluster.oracles import Cluster, Watchman
from tests.simulation.cluster.rooms import ONLY_DISKS, RoomWatch
from tests.simulation.cluster.store import SimStore, Surroundings
from tests.simulation.cluster.workload import ClusterConsumer, ClusterProducer
from tests.simulation.history import Fate
from tests.simulation.world.node import serve
from tests.simulation.world.world import Outcome, World

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from ottla.coordinator.store.store import Store
    from ottla.protocol.ports import Ports
    from tests.simulation.history import Partition
    from tests.simulation.world.node import Node

PORT = 9092
LOOK_S = 0.1
SET_UP_S = 60.0
# Within this every partition accepts writes, is whole, and is known everywhere (goal 3).
RECOVERY_S = 30.0
DRAIN_S = 60.0
STOCK_S = 60.0
RACKS = 3
FOLLOWER_READS = MappingProxyType(
    {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}
)
ENDINGS = ("kill all", "stop all", "rolling", "leave")


class ClusterRun:
    """One run; made for one seed."""

    def __init__(self, seed: int, options: ClusterOptions) -> None:
        self.options = options
        self.history = ClusterHistory(may_trim=options.trims)
        self.world = world = World(seed, options.net)
        self.random = world.random.child("scenario")
        self.ensemble = self._make_ensemble()
        self.ensemble.report = world.report
        self.cluster = Cluster(self.ensemble.tree)
        self.watchman = Watchman(
            self.cluster, self.history, world.report, clean=not options.unclean
        )
        self.ensemble.on_commit = self.watchman.on_commit
        self.addresses = [Address(f"broker-{number}", PORT) for number in range(options.brokers)]
        for number in range(options.brokers):
            self.cluster.nodes[number] = self._make_broker(number)
        self.partitions: list[Partition] = [
            (f"topic-{topic}", number)
            for topic in range(options.topics)
            for number in range(options.partitions)
        ]
        # Whether the operators continue, and whether the workload does.
        self._has_chaos = True
        self._go_on = True
        self._keeper_history = ClusterHistory()
        self._tasks: list[asyncio.Future[None]] = []
        self._clients: list[str] = []

    def _settings_of(self, number: int) -> dict[str, str]:
        """The settings of one broker by their names."""
        return {
            "broker.id": str(number),
            "listeners": f"PLAINTEXT://broker-{number}:{PORT}",
            "log.dirs": "/data",
            "auto.create.topics.enable": "false",
            "default.replication.factor": str(self.options.replicas),
            "min.insync.replicas": str(self.options.min_insync),
            "unclean.leader.election.enable": str(self.options.unclean).lower(),
            "zookeeper.session.timeout.ms": str(self.options.session_timeout_ms),
            "replica.lag.time.max.ms": str(self.options.lag_time_ms),
            "broker.rack": f"rack-{number % RACKS}",
            **(FOLLOWER_READS if self.options.reads_followers else {}),
            **self.options.settings,
        }

    def _make_ensemble(self) -> Ensemble:
        loop, random = self.world.loop, self.world.random.child("store")
        return Ensemble(loop, loop.outside, self.world.links, random, self.options.store)

    def _make_store(self, name: str, ports: Ports) -> Store:
        return SimStore(self.ensemble, Surroundings.of(name, ports))

    def _make_broker(self, number: int) -> Node:
        name = f"broker-{number}"
        config = parse_broker_config(self._settings_of(number)).config

        def build(ports: Ports) -> Broker:
            store = self._make_store(name, ports)
            broker = self.cluster.brokers[number] = Broker(ports, config, store)
            return broker

        return self.world.node(name, serve(build), self.options.machines[number])

    # ---- the outcome ----

    def run(self) -> Outcome:
        """The whole story and its verdict."""
        self.world.run(self._story())
        history, options = self.history, self.options
        violations = [
            *self.world.violations,
            *self.watchman.violations,
            *self._judge(),
            *(f"surprise: {surprise}" for surprise in self._keeper_history.surprises),
            *self._complaints(),
        ]
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
                "renumbered": history.renumbered,
                "starts": sum(node.incarnation for node in self.cluster.nodes.values()),
                **self.watchman.counts,
            },
            options=repr(options),
            events=self.world.events,
            scenario="--cluster ",
        )

    def _judge(self) -> list[str]:
        """Judge the history of the clients."""
        return judge_cluster(self.history, clean=not self.options.unclean)

    def _complaints(self) -> list[str]:
        """A broker that dies of an exception, or a part of it that does, is a bug by itself."""
        found = []
        for node in self.cluster.nodes.values():
            found += [
                f"{node.name} died of {death}"
                for death in node.deaths
                # A store that cannot be reached for a while is no fault of a broker's.
                if not death.startswith("CannotStart('the connection broke")
                if not (death.startswith("CannotStart") and self.options.faults)
            ]
        found += [
            f"complaint: {message}"
            for message in sorted({*self.world.complaints.messages})
            if "has died" in message or "Error(" in message
            if not self.options.has_disk_faults or "AssertionError" in message
        ]
        return found

    # ---- the story ----

    async def _story(self) -> None:
        chaos = self._make_chaos()
        for node in self.cluster.nodes.values():
            node.start()
        watching = asyncio.ensure_future(self._watch())
        if not await self._within(SET_UP_S, self._set_up(), "setting up"):
            watching.cancel()
            return
        self._start_clients()
        for one in chaos.brokers:
            one.reach(self._clients)
        options = self.options
        until_s = self.world.loop.time() + options.chaos_s
        await chaos.run(
            options.faults, options.fault_mean_ms, until_s, one_at_a_time=options.cuts_power
        )
        await chaos.heal()
        self._has_chaos = False
        self.watchman.counts.update({f"fault {n}": c for n, c in sorted(chaos.counts.items())})
        await self._restart_all(chaos)
        await self._recover()
        self._go_on = False
        if await self._within(DRAIN_S, self._drain(), "draining"):
            await self._within(STOCK_S, self._take_stock(), "taking stock")
        watching.cancel()
        self.watchman.look()

    async def _watch(self) -> None:
        rooms = RoomWatch(self.cluster, self.watchman.violation)
        while True:
            await asyncio.sleep(LOOK_S)
            self.watchman.look()
            if {*self.options.faults} <= ONLY_DISKS:
                rooms.look(self.world.loop.time())

    async def _set_up(self) -> None:
        async def create(client: ClusterClient) -> None:
            for topic in dict(self.partitions):
                await client.make_topic(
                    topic,
                    self.options.partitions,
                    self.options.replicas,
                    self.options.topic_settings,
                )

        await self.start_client("admin", create)

    def _make_chaos(self) -> Ambushes:
        names = [node.name for node in self.cluster.nodes.values()]
        brokers = []
        for node in self.cluster.nodes.values():
            peers = [name for name in names if name != node.name]
            brokers.append(BrokerChaos(self.world, node, [*peers, STORE_HOST], peers))
        return Ambushes(self.world, self.ensemble, brokers, self.cluster)

    def _start_clients(self) -> None:
        options, random = self.options, self.world.random.child("workload")
        for number in range(options.producers):
            kind = Kind.IDEMPOTENT if number == 0 else random.choice((Kind.IDEMPOTENT, Kind.PLAIN))
            self.start_client(f"producer-{number}", partial(self._produce, kind))
        for number, kind in enumerate(options.repeaters):
            self.start_client(f"{kind.name.lower()}-{number}", partial(self._produce, kind))
        for number in range(options.consumers):
            self.start_client(f"consumer-{number}", partial(self._consume, f"rack-{number}"))
        if options.moves:
            self.start_client("mover", self._move)
        if options.trims:
            self.start_client("trimmer", partial(trim, self.partitions, lambda: self._has_chaos))
        if options.keeps_topics:
            self.start_client("keeper", self._keep_topics, self._keeper_history)

    async def _produce(self, kind: Kind, client: ClusterClient) -> None:
        count = 1 + client.random.below(min(3, len(self.partitions)))
        producers = [
            ClusterProducer(client.view(partition), partition, kind, self.options.pace_ms)
            for partition in client.random.sample(self.partitions, count)
        ]
        await asyncio.gather(*(one.run(lambda: self._go_on) for one in producers))

    async def _consume(self, rack: str, client: ClusterClient) -> None:
        consumers = [ClusterConsumer(client.view(one), one, rack) for one in self.partitions]
        await asyncio.gather(*(one.run(lambda: self._go_on) for one in consumers))

    async def _move(self, client: ClusterClient) -> None:
        mover = Mover(client, self.partitions, self.options.brokers, self.options.replicas)
        await mover.run(lambda: self._has_chaos)

    async def _keep_topics(self, client: ClusterClient) -> None:
        keeper = ClusterKeeper(client, self.options.replicas)
        await keeper.run(lambda: self._has_chaos)
        while self._go_on:
            await client.pause()
        await keeper.verify()

    # ---- the end ----

    async def _restart_all(self, chaos: Ambushes) -> None:
        """Restart all brokers, so that recovery does not rest on memory that the chaos left."""
        ending = self.random.choice(ENDINGS)
        if ending == "kill all" and chaos.is_weak:
            ending = "rolling"
        self.world.report(f"restart: {ending}")
        for one in chaos.brokers:
            if ending == "kill all" and one.server.running:
                one.server.kill()
            elif ending in ("stop all", "rolling") and one.server.running:
                stopping = asyncio.ensure_future(one.stop_cleanly(20.0))
                if ending == "rolling":
                    await stopping
                    await self._until(10.0, lambda one=one: one.server.running)  # type: ignore[misc]
        await self._until(20.0, lambda: all(n.running for n in self.cluster.nodes.values()))

    async def _recover(self) -> None:
        """Everything works again within bounded time."""
        began_s = self.world.loop.time()
        probing = [self._probe(partition) for partition in self.partitions]
        if not await self._until(RECOVERY_S, lambda: all(one.done() for one in probing)):
            refusing = [
                f"{topic}-{number} ({self.cluster.state(topic, number)})"
                for (topic, number), one in zip(self.partitions, probing, strict=True)
                if not one.done()
            ]
            self.history.stuck.append(f"no write after healing to {', '.join(refusing)}")
        left_s = RECOVERY_S - (self.world.loop.time() - began_s)
        if not await self._until(left_s, lambda: not self.disagreements()):
            self.history.stuck.append(f"after healing: {'; '.join(self.disagreements()[:4])}")
        recovered_s = self.world.loop.time() - began_s
        self.watchman.counts["recovery ms"] = int(recovered_s * 1_000)
        self.world.report(f"recovered in {recovered_s:.1f} s")

    def _probe(self, partition: Partition) -> asyncio.Future[None]:
        async def write(client: ClusterClient) -> None:
            await ClusterProducer(
                client.view(partition), partition, Kind.IDEMPOTENT, 50.0
            ).write_once()

        return self.start_client("probe-{}-{}".format(*partition), write)

    def disagreements(self) -> list[str]:
        """Differences between brokers and store when all is calm."""
        found = self.cluster.missing()
        for node_id, node in self.cluster.nodes.items():
            broker = self.cluster.brokers.get(node_id)
            if not node.running or broker is None:
                found.append(f"{node.name} does not run")
                continue
            if paths.broker(node_id) not in self.ensemble.tree.nodes:
                found.append(f"{node.name} is not registered")
            image = broker.metadata.image
            gone = image.topics.keys() - self.cluster.topics().keys()
            found += [f"{node.name} still knows {name}" for name in sorted(gone)]
            found += leftovers(node.files, self.cluster.topics(), node_id)
            found += self.cluster.unknown_to(node, image)
        return found

    async def _drain(self) -> None:
        await asyncio.gather(*self._tasks)

    async def _take_stock(self) -> None:
        async def stock(client: ClusterClient) -> None:
            for partition in self.partitions:
                await take_stock(client.view(partition), partition)

        await self.start_client("auditor", stock)

    # ---- parts ----

    def start_client(
        self,
        name: str,
        work: Callable[[ClusterClient], Coroutine[Any, Any, None]],
        history: ClusterHistory | None = None,
    ) -> asyncio.Future[None]:
        """Run the work on a separate machine; the future is set when it is done."""
        done: asyncio.Future[None] = self.world.loop.create_future()

        async def program(ports: Ports) -> None:
            client = ClusterClient(ports, self.addresses, history or self.history, name)
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
        self._clients.append(name)
        return done

    async def _until(self, limit_s: float, condition: Callable[[], bool]) -> bool:
        deadline_s = self.world.loop.time() + max(0.0, limit_s)
        while not condition():
            if self.world.loop.time() >= deadline_s:
                return False
            await asyncio.sleep(LOOK_S)
        return True

    async def _within(self, limit_s: float, work: Coroutine[Any, Any, None], what: str) -> bool:
        try:
            await asyncio.wait_for(work, limit_s)
        except TimeoutError:
            self.history.stuck.append(f"{what} took more than {limit_s} virtual seconds")
            return False
        return True


def run(seed: int, chaos_s: float | None = None) -> Outcome:
    """One seed."""
    outcome = ClusterRun(seed, with_trimming(draw_cluster_options(seed, chaos_s), seed)).run()
    if chaos_s is not None:
        outcome = outcome._replace(scenario=f"--cluster --seconds {chaos_s} ")
    return outcome
