"""Apache Kafka itself, in KRaft mode, for our own clients to be tried on.

``ApacheCluster`` looks like ``ottla.Cluster`` as far as tests of clients need it, so that one test
runs on either. One that asks for a fault that only Ottla's brokers can be made to have is skipped.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, NoReturn, Self, TypeVar

import pytest

import ottla
import ottla.sync
from tests.interop.support.environments import java_classpath

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

Answer = TypeVar("Answer")

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
START_S = 240
# A small heap, and no time for the best code: these brokers live for minutes.
JAVA = ("java", "-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
SETTINGS = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    # Tests write records of long ago, which retention would take after half a minute.
    "log.initial.task.delay.ms": "86400000",
    # A broker that was killed is missed soon, and yet not for a busy machine's sake.
    "broker.heartbeat.interval.ms": "1000",
    "broker.session.timeout.ms": "6000",
}
REPLICATED = (
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
)
# So that a transaction can be made to hang.
TRUSTING = {"transaction.partition.verification.enable": "false"}


@contextmanager
def apache_kafka(version: str, folder: Path) -> Iterator[str]:
    """The address of a broker of that version, which does not verify transactions."""
    with ApacheCluster(version, folder, settings=TRUSTING) as cluster:
        yield cluster.bootstrap_servers


class Node(NamedTuple):
    """One broker's place, and its address."""

    settings: Path
    port: int
    address: str


class Faults:
    """Faults of a broker process."""

    def __init__(self, cluster: ApacheCluster) -> None:
        self._cluster = cluster

    def kill(self, broker_id: int) -> None:
        """Kill the process with SIGKILL."""
        self._cluster.end(broker_id)

    def restart(self, broker_id: int) -> None:
        """Return when the cluster counts it again."""
        self._cluster.launch(broker_id)
        self._cluster.wait()

    def pause(self, broker_id: int) -> None:
        self._cluster.signal(broker_id, signal.SIGSTOP)

    def resume(self, broker_id: int) -> None:
        self._cluster.signal(broker_id, signal.SIGCONT)

    def __getattr__(self, name: str) -> Callable[..., NoReturn]:
        return lambda *_, **__: pytest.skip(f"Apache Kafka cannot be told to {name}")


class ApacheCluster:
    """Nodes that are broker and controller each, numbered from 1, with their logs in the folder."""

    def __init__(
        self,
        version: str,
        folder: Path,
        brokers: int = 1,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._folder = folder
        self._command = [*JAVA, "-cp", java_classpath(version)]
        self._replicas = min(brokers, 3)
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        ports = free_ports(2 * brokers)
        voters = [f"{one}@127.0.0.1:{port}" for one, port in enumerate(ports[brokers:], 1)]
        self._own = {
            **SETTINGS,
            **dict.fromkeys(REPLICATED, str(self._replicas)),
            "controller.quorum.voters": ",".join(voters),
            **(settings or {}),
        }
        self.brokers = {
            one: Node(folder / f"{one}.properties", port, f"127.0.0.1:{port}")
            for one, port in enumerate(ports[:brokers], 1)
        }
        self.faults = Faults(self)

    @property
    def bootstrap_servers(self) -> str:
        """All addresses, also of those that are dead."""
        return ",".join(node.address for node in self.brokers.values())

    def __enter__(self) -> Self:
        self._format()
        for broker_id in self.brokers:
            self.launch(broker_id)
        try:
            self.wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for broker_id in list(self._running):
            self.end(broker_id)

    def mend(self) -> None:
        """Restart the brokers that are down."""
        for broker_id in self.brokers.keys() - self._running.keys():
            self.launch(broker_id)
        self.wait()

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        replication_factor: int | None = None,
        configs: Mapping[str, object] | None = None,
    ) -> None:
        """Return when every broker that lives knows its leaders."""
        replicas = replication_factor or self._replicas
        texts = {key: str(value) for key, value in (configs or {}).items()}
        topic = ottla.NewTopic(name, partitions, replicas, texts)
        asked(self.bootstrap_servers, lambda admin: admin.create_topic(topic))
        for broker_id in self._running:
            until(partial(self._knows, broker_id, name, partitions), name)

    def leader(self, topic: str, partition: int = 0) -> int:
        """A leader that lives, as soon as there is one."""
        found = -1

        def is_led() -> bool:
            nonlocal found
            view = asked(self._living(), lambda admin: admin.describe_topic(topic))
            found = view.partitions[partition].leader_id
            return found in self._running

        until(is_led, f"{topic} has no leader")
        return found

    def launch(self, broker_id: int) -> None:
        """Start its process."""
        with (self._folder / f"{broker_id}.out").open("ab") as output:
            self._running[broker_id] = subprocess.Popen(
                [*self._command, "kafka.Kafka", str(self.brokers[broker_id].settings)],
                stdout=output,
                stderr=output,
                cwd=self._folder,
            )

    def end(self, broker_id: int) -> None:
        """Kill its process."""
        process = self._running.pop(broker_id)
        process.kill()
        process.wait()

    def signal(self, broker_id: int, number: int) -> None:
        self._running[broker_id].send_signal(number)

    def wait(self) -> None:
        """Return when all that were started are in the cluster."""
        until(self._is_whole, "Apache Kafka has not started")

    def _is_whole(self) -> bool:
        for broker_id, process in self._running.items():
            said = self._folder / f"{broker_id}.out"
            assert process.poll() is None, said.read_text("utf-8", "replace")[-3_000:]
        try:
            view = asked(self._living(), lambda admin: admin.describe_cluster())
        except ottla.ClientError:
            return False
        return {broker.node_id for broker in view.brokers} >= self._running.keys()

    def _knows(self, broker_id: int, topic: str, partitions: int) -> bool:
        address = self.brokers[broker_id].address
        try:
            found = asked(address, lambda admin: admin.describe_topic(topic)).partitions
        except ottla.RequestRefused:
            return False
        return len(found) == partitions and all(one.leader_id >= 0 for one in found.values())

    def _living(self) -> str:
        return ",".join(self.brokers[broker_id].address for broker_id in self._running)

    def _format(self) -> None:
        tools: list[subprocess.Popen[bytes]] = []
        for broker_id, node in self.brokers.items():
            node.settings.write_text(self._settings_of(broker_id), "utf-8")
            words = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID]
            command = [*self._command, *words, "-c", str(node.settings)]
            tools.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
        for tool in tools:
            assert tool.wait(START_S) == 0

    def _settings_of(self, broker_id: int) -> str:
        voters = self._own["controller.quorum.voters"].split(",")
        control = voters[broker_id - 1].rpartition(":")[2]
        public = f"PLAINTEXT://{self.brokers[broker_id].address}"
        lines = {
            **self._own,
            "node.id": str(broker_id),
            "listeners": f"{public},CONTROLLER://127.0.0.1:{control}",
            "advertised.listeners": public,
            "log.dirs": str(self._folder / f"data-{broker_id}"),
        }
        return "".join(f"{name}={value}\n" for name, value in lines.items())


def asked(servers: str, ask: Callable[[ottla.sync.Admin], Answer]) -> Answer:
    """An administrator's answer; the caller's thread may have an event loop, which waits."""

    def call() -> Answer:
        with ottla.sync.Admin(servers, connect_timeout_ms=2_000) as admin:
            return ask(admin)

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(call).result()


def free_ports(count: int) -> list[int]:
    """Ports that are free now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports: list[int] = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def until(holds: Callable[[], bool], what: str) -> None:
    """Return when it holds."""
    end_s = time.monotonic() + START_S
    while not holds():
        if time.monotonic() > end_s:
            raise TimeoutError(what)
        time.sleep(0.2)
