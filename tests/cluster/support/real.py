"""A real cluster: brokers in processes of their own, ZooKeeper, and everything on loopback."""

from __future__ import annotations

import asyncio
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient

from ottla.protocol.errors import ErrorCode
from tests.cluster.support.load import QUIET
from tests.cluster.support.wire import Told, View, spoken, view_of, write
from tests.support.broker_process import BrokerProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from tests.cluster.support.namespaces import Network

SESSION_MS = 6_000
SETTINGS = {
    "zookeeper.session.timeout.ms": str(SESSION_MS),
    "zookeeper.connection.timeout.ms": "60000",
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    "replica.lag.time.max.ms": "10000",
    "log.segment.bytes": "262144",
}
HEAL_S = 90.0


class RealCluster:
    """Brokers 1 to N; use as a context manager, leaving it stops them."""

    def __init__(
        self,
        folder: Path,
        zookeeper: str,
        count: int = 3,
        options: Mapping[str, str] | None = None,
        network: Network | None = None,
        launchers: Mapping[int, Sequence[str]] | None = None,
    ) -> None:
        """With a network, broker N runs on its host ``broker-N``. ``launchers`` are put before the
        commands of some brokers."""
        self._folder = folder
        self._zookeeper = zookeeper
        self._settings = {**SETTINGS, **(options or {})}
        self._network = network
        self._launchers = dict(launchers or {})
        self._begun = time.monotonic()
        self._frozen: set[int] = set()
        self.brokers: dict[int, BrokerProcess] = {}
        for node_id in range(1, count + 1):
            self.add(node_id)

    def add(self, node_id: int, folder: str = "") -> BrokerProcess:
        """Add a broker, not started yet. With a folder of its own it is a stranger that has taken
        an id: the cluster does not know it, and the caller has to stop it."""
        network = self._network
        made = BrokerProcess(
            self._folder / (folder or f"broker-{node_id}"),
            options=self._settings,
            extra=["--zookeeper", self._zookeeper, "--id", str(node_id), *_host(network, node_id)],
            launcher=(
                network.launcher(f"broker-{node_id}")
                if network
                else self._launchers.get(node_id, ())
            ),
        )
        if not folder:
            self.brokers[node_id] = made
        return made

    def __enter__(self) -> Self:
        with ThreadPoolExecutor(len(self.brokers)) as pool:
            list(pool.map(BrokerProcess.start, self.brokers.values()))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        running = [broker for broker in self.brokers.values() if broker.is_running]
        for broker in running:
            # One that is frozen does not stop.
            broker.signal(signal.SIGCONT)
        with ThreadPoolExecutor(len(self.brokers)) as pool:
            list(pool.map(BrokerProcess.stop, running))
        if error is not None:
            print(self.stories())

    def tell(self, what: str) -> None:
        """Say what is done, and when: shown if the test fails."""
        print(f"{time.strftime('%H:%M:%S')} {time.monotonic() - self._begun:6.2f} s: {what}")

    def freeze(self, node_id: int) -> None:
        """SIGSTOP: its connections stay open, and requests are not answered."""
        self.tell(f"freeze broker {node_id}")
        self._frozen.add(node_id)
        self.brokers[node_id].signal(signal.SIGSTOP)

    def thaw(self, node_id: int) -> None:
        """SIGCONT."""
        self.tell(f"thaw broker {node_id}")
        self._frozen.discard(node_id)
        self.brokers[node_id].signal(signal.SIGCONT)

    def thaw_all(self) -> None:
        """Thaw every frozen broker, whatever has failed before."""
        for node_id in sorted(self._frozen):
            self.thaw(node_id)

    @contextmanager
    def tree(self) -> Iterator[KazooClient]:
        """ZooKeeper's tree, seen by a foreign client."""
        client = KazooClient(self._zookeeper, timeout=10)
        client.start(timeout=60)
        try:
            yield client
        finally:
            client.stop()
            client.close()

    def wait_for(
        self,
        what: str,
        holds: Callable[[], object],
        within_s: float = HEAL_S,
    ) -> float:
        """Ask until it holds; how long that took. Fails with the brokers' stories."""
        begun = time.monotonic()
        while not holds():
            took = time.monotonic() - begun
            assert took < within_s, f"not within {within_s} s: {what}\n{self.stories()}"
            time.sleep(0.05)
        took = time.monotonic() - begun
        self.tell(f"{what}, after {took:.2f} s")
        return took

    @property
    def bootstrap(self) -> str:
        """For clients."""
        return ",".join(broker.address for broker in self.brokers.values())

    @property
    def admin(self) -> AdminClient:
        """A new client."""
        return AdminClient({"bootstrap.servers": self.bootstrap}, logger=QUIET)

    def create_topic(
        self,
        name: str,
        partitions: int,
        replicas: int = 3,
        config: Mapping[str, str] | None = None,
        limit_s: float = 60,
    ) -> None:
        """Make a topic and wait until it is there."""
        self._create(NewTopic(name, partitions, replicas, config=dict(config or {})), limit_s)

    def create_placed(
        self,
        name: str,
        replicas: Sequence[int],
        config: Mapping[str, str] | None = None,
        partitions: int = 1,
    ) -> None:
        """Make a topic with its partitions on these brokers, the first of them leading."""
        placed = [list(replicas)] * partitions
        self._create(
            NewTopic(name, partitions, replica_assignment=placed, config=dict(config or {}))
        )

    def delete_topic(self, name: str) -> None:
        """Have it deleted."""
        admin = self.admin
        admin.delete_topics([name])[name].result(60)

    def _create(self, topic: NewTopic, limit_s: float = 60) -> None:
        # What it has under way ends with the client.
        admin = self.admin
        made = admin.create_topics([topic], operation_timeout=limit_s, request_timeout=limit_s)
        made[topic.topic].result(limit_s)

    def leaders(self, topic: str) -> dict[int, int]:
        """Leader of each partition by the metadata of one broker; -1 for none."""
        found = self.admin.list_topics(topic, timeout=60).topics[topic].partitions
        return {number: part.leader for number, part in found.items()}

    def controller_id(self) -> int:
        """Id of the controller in one broker's view."""
        return int(self.admin.list_topics(timeout=60).controller_id)

    def newest(self, topic: str) -> dict[int, Told]:
        """Each partition in the newest leader epoch that any running broker knows of."""
        found: dict[int, Told] = {}
        for view in self.views(topic).values():
            if isinstance(view, View):
                for number, told in view.partitions.items():
                    if number not in found or told.leader_epoch > found[number].leader_epoch:
                        found[number] = told
        return found

    def views(self, topic: str) -> dict[int, View | str]:
        """The state as each running broker sees it; an error in words for one that does not
        answer."""
        running = {
            node: one
            for node, one in self.brokers.items()
            if one.is_running and node not in self._frozen
        }

        async def ask() -> list[View | str]:
            asked = (spoken(view_of(one.address, topic)) for one in running.values())
            return await asyncio.gather(*asked)

        found = dict(zip(running, asyncio.run(ask()), strict=True))
        return found | dict.fromkeys(self._frozen, "it is frozen")

    def wait_until_whole(self, topic: str, within_s: float = HEAL_S) -> float:
        """Until all running brokers say the same: that all replicas are in sync; how long it took.

        Fails with the brokers' stories."""
        begun = time.monotonic()
        while True:
            seen = self.views(topic)
            if _is_whole(seen):
                return time.monotonic() - begun
            if time.monotonic() - begun > within_s:
                raise AssertionError(f"not whole after {within_s} s: {seen}\n{self.stories()}")
            time.sleep(0.1)

    def wait_until_healed(self, topic: str, within_s: float = HEAL_S) -> float:
        """Until it is whole and takes records for every partition, and still is whole then."""
        begun = time.monotonic()
        while True:
            self.wait_until_whole(topic, within_s)
            answers = self._probe(topic)
            if set(answers.values()) == {ErrorCode.NONE} and _is_whole(self.views(topic)):
                return time.monotonic() - begun
            if time.monotonic() - begun > within_s:
                raise AssertionError(f"{answers} after {within_s} s\n{self.stories()}")
            time.sleep(0.1)

    def _probe(self, topic: str) -> dict[int, ErrorCode | str]:
        places = {
            number: self.brokers[told.leader].address for number, told in self.newest(topic).items()
        }

        async def ask() -> list[ErrorCode | str]:
            asked = (
                spoken(write(address, b"probe", topic=topic, partition=number))
                for number, address in places.items()
            )
            return await asyncio.gather(*asked)

        return dict(zip(places, asyncio.run(ask()), strict=True))

    def stories(self) -> str:
        """The ends of what the brokers have logged."""
        return "\n".join(
            f"--- broker {node_id}\n{broker.stderr()[-3000:]}"
            for node_id, broker in self.brokers.items()
        )


def _is_whole(seen: Mapping[int, View | str]) -> bool:
    first = next(iter(seen.values()))
    if isinstance(first, str) or not first.partitions:
        return False
    return (
        all(view == first for view in seen.values())
        and first.broker_ids == frozenset(seen)
        and all(told.is_whole for told in first.partitions.values())
    )


def _host(network: Network | None, node_id: int) -> list[str]:
    return [] if network is None else ["--host", network.addresses[f"broker-{node_id}"]]
