"""A real cluster: brokers in processes of their own, ZooKeeper, and everything on loopback."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Self

from confluent_kafka.admin import AdminClient, NewTopic

from ottla.protocol.errors import ErrorCode
from tests.cluster.load import QUIET
from tests.cluster.wire import Told, View, spoken, view_of, write
from tests.support.broker_process import BrokerProcess

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

    from tests.cluster.namespaces import Network

SESSION_MS = 6_000
SETTINGS = {
    "zookeeper.session.timeout.ms": str(SESSION_MS),
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    "replica.lag.time.max.ms": "10000",
    "log.segment.bytes": "262144",
}
HEAL_S = 30.0


class RealCluster:
    """Brokers 1 to N; use as a context manager, leaving it stops them."""

    def __init__(
        self,
        folder: Path,
        zookeeper: str,
        count: int = 3,
        options: Mapping[str, str] | None = None,
        network: Network | None = None,
    ) -> None:
        """With a network, broker N runs on its host ``broker-N``."""
        settings = {**SETTINGS, **(options or {})}
        self.brokers = {
            node_id: BrokerProcess(
                folder / f"broker-{node_id}",
                options=settings,
                extra=["--zookeeper", zookeeper, "--id", str(node_id), *_host(network, node_id)],
                launcher=network.launcher(f"broker-{node_id}") if network else (),
            )
            for node_id in range(1, count + 1)
        }

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
        with ThreadPoolExecutor(len(self.brokers)) as pool:
            list(pool.map(BrokerProcess.stop, self.brokers.values()))
        if error is not None:
            print(self.stories())

    @property
    def bootstrap(self) -> str:
        """For clients."""
        return ",".join(broker.address for broker in self.brokers.values())

    @property
    def admin(self) -> AdminClient:
        """A new client."""
        return AdminClient({"bootstrap.servers": self.bootstrap}, logger=QUIET)

    def create_topic(self, name: str, partitions: int, replicas: int = 3) -> None:
        """Make a topic and wait until it is there."""
        admin = self.admin
        admin.create_topics([NewTopic(name, partitions, replicas)])[name].result(20)

    def leaders(self, topic: str) -> dict[int, int]:
        """Who leads each partition, as some broker believes; -1 for nobody."""
        found = self.admin.list_topics(topic, timeout=10).topics[topic].partitions
        return {number: part.leader for number, part in found.items()}

    def controller_id(self) -> int:
        """As some broker believes."""
        return int(self.admin.list_topics(timeout=10).controller_id)

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
        """What each running broker believes; a word of excuse of one that does not answer."""
        running = {node: one for node, one in self.brokers.items() if one.is_running}

        async def ask() -> list[View | str]:
            asked = (spoken(view_of(one.address, topic)) for one in running.values())
            return await asyncio.gather(*asked)

        return dict(zip(running, asyncio.run(ask()), strict=True))

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
