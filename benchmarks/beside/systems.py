"""What is compared: Ottla, Apache Kafka 3.9 and 4.x, as one broker each or as three."""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.beside import apache_kafka
from benchmarks.beside.apache_kafka import KafkaProcess
from benchmarks.beside.ratios import OWN, Notes
from benchmarks.frames import metadata_frame
from benchmarks.harness import cpu_seconds, resident_bytes, worker
from tests.cluster.support.real import RealCluster
from tests.support.broker_process import BrokerProcess
from tests.zookeeper.servers import ZooKeeperServer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from benchmarks.harness import Subject

READY_TIMEOUT_S = 60.0
SETTLE_S = 2.0
REPLICAS = 3
SESSION_TIMEOUT_MS = "18000"


class System(NamedTuple):
    """One running broker or cluster, and the notes about it."""

    name: str
    brokers: Sequence[Subject]
    notes: Notes

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.address for broker in self.brokers)

    def cpu_seconds(self) -> float:
        """CPU time of all its brokers so far."""
        return sum(cpu_seconds(broker.process_id) for broker in self.brokers)

    def resident_mb(self) -> float:
        """Memory of all its brokers."""
        return sum(resident_bytes(broker.process_id) for broker in self.brokers) / 1e6

    def without_notes(self) -> System:
        """The same system; what is noted about it is dropped: for warm-up rounds."""
        return self._replace(notes=Notes())


@contextmanager
def running_alone(options: Mapping[str, str]) -> Iterator[list[System]]:
    """One broker of each; the seconds until each serves are noted."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        systems = [_own_broker(Path(folder), stack, options)]
        for version in apache_kafka.VERSIONS:
            place = Path(folder) / version
            place.mkdir()
            kafka = KafkaProcess(version, place, options)
            kafka.format()
            started = time.monotonic()
            kafka.start()
            stack.callback(kafka.stop)
            systems.append(_ready(f"kafka_{version}", kafka, started))
        time.sleep(SETTLE_S)
        yield systems


def _own_broker(folder: Path, stack: ExitStack, options: Mapping[str, str]) -> System:
    place = folder / OWN
    place.mkdir()
    own = BrokerProcess(place / "data", options=options)
    started = time.monotonic()
    own.start()
    stack.callback(own.stop)
    return _ready(OWN, own, started)


def _ready(name: str, broker: Subject, started: float) -> System:
    """Wait for the first Metadata answer that names a broker, by one clock for all systems."""
    orders = {"host": "127.0.0.1", "port": broker.port, "frame": metadata_frame().hex()}
    seen = worker({**orders, "started": started, "timeout": READY_TIMEOUT_S})
    system = System(name, [broker], Notes())
    system.notes.cost("start_up_seconds", seen["seconds"])
    return system


@contextmanager
def running_replicated(options: Mapping[str, str]) -> Iterator[list[System]]:
    """Three brokers of each: Ottla's with ZooKeeper, Kafka's each broker and controller."""
    own_options = {**options, "zookeeper.session.timeout.ms": SESSION_TIMEOUT_MS}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        zookeeper = stack.enter_context(ZooKeeperServer())
        place = Path(folder) / OWN
        place.mkdir()
        own = RealCluster(place, zookeeper.address, REPLICAS, options=own_options)
        stack.enter_context(own)
        systems = [System(OWN, list(own.brokers.values()), Notes())]
        for version in apache_kafka.VERSIONS:
            place = Path(folder) / version
            place.mkdir()
            nodes = apache_kafka.cluster_of(version, place, REPLICAS, options)
            for node in nodes:
                node.start()
                stack.callback(node.stop)
            for node in nodes:
                _ready(version, node, time.monotonic())
            systems.append(System(f"kafka_{version}", nodes, Notes()))
        time.sleep(SETTLE_S)
        yield systems
