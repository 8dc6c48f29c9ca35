"""What a broker shows over HTTP: ``/metrics``, ``/healthz`` and ``/readyz``.

It listens from the first moment of a start, so that a supervisor can tell a long recovery from a
process that hangs. Health is that the process lives, its loop turns and it has a directory to work
with; readiness is that clients are well advised to come.
"""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ottla.broker.metrics.cluster import cluster_families
from ottla.broker.metrics.controller import controller_families
from ottla.broker.metrics.exposition import CONTENT_TYPE, counter, gauge, render
from ottla.broker.metrics.groups import group_families
from ottla.broker.metrics.loop_delay import LoopDelay
from ottla.broker.metrics.network import network_families, request_families
from ottla.broker.metrics.open_transactions import open_transaction_families
from ottla.broker.metrics.replicas import directory_families, replica_families
from ottla.broker.metrics.replication import fetcher_families, isr_families
from ottla.broker.metrics.transactions import transaction_families
from ottla.broker.network.http import HttpServer, Page
from ottla.broker.server.listening import metrics_address
from ottla.broker.server.stores import CannotStart
from ottla.coordinator.store.store import SessionState
from ottla.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.broker.api.dispatch import Dispatcher
    from ottla.broker.coordinating.groups import GroupCoordinator
    from ottla.broker.coordinating.transactions import TransactionCoordinator
    from ottla.broker.coordinating.txn_verification import Verification
    from ottla.broker.engine.purgatory import Waiting
    from ottla.broker.engine.tasks import Tasks
    from ottla.broker.following.fetchers import Fetchers
    from ottla.broker.log.directories.directories import LogDirectories
    from ottla.broker.membership.lifecycle import Lifecycle
    from ottla.broker.metadata.metadata import MetadataCache
    from ottla.broker.metrics.exposition import Collector, Family
    from ottla.broker.network.server import NetworkServer
    from ottla.broker.partitions.isr_writer import IsrWriter
    from ottla.broker.partitions.partitions import Partitions
    from ottla.coordinator.configs.broker_configs import BrokerConfig
    from ottla.protocol.ports import Address, Ports

logger = logging.getLogger("ottla.broker")

# Kafka's numbers for the states of a broker.
_STARTING, _RUNNING, _STOPPING = 1, 3, 6


class Watched(Protocol):
    """The broker, as far as it is looked at. The dispatcher is there once the network is."""

    ports: Ports
    config: BrokerConfig
    node_id: int
    has_failed: bool
    metadata: MetadataCache
    partitions: Partitions
    isr_writer: IsrWriter
    fetchers: Fetchers
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    verification: Verification
    waiting: Waiting
    tasks: Tasks
    network: NetworkServer | None
    dispatcher: Dispatcher


@runtime_checkable
class TellsUsage(Protocol):
    """A process that knows what it takes of its machine; a simulated one does not."""

    def usage(self) -> Iterator[Family]: ...


class Monitoring:
    """Owned by the broker, which sets ``lifecycle`` and ``logs`` when they exist.

    Add to ``collectors`` what gives more families."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        self._loop_delay = LoopDelay(watched.ports.clock)
        self._http: HttpServer | None = None
        self.address: Address | None = None
        self.lifecycle: Lifecycle | None = None
        self.logs: LogDirectories | None = None
        self.is_serving = False
        self.is_stopping = False
        self.collectors: list[Collector] = [
            self._broker,
            self._cluster,
            self._replicas,
            self._replication,
            self._coordinators,
            self._network,
            self._loop_delay.families,
        ]
        if isinstance(watched.ports.process, TellsUsage):
            self.collectors.append(watched.ports.process.usage)

    def listen(self) -> None:
        """Serve the pages from now on, if the configuration says where. Raises CannotStart."""
        wanted = metrics_address(self._watched.config)
        if wanted is None:
            return
        ports = self._watched.ports
        self._http = HttpServer(ports.net, ports.clock, self.page)
        try:
            self.address = self._http.bind(wanted)
        except OSError as error:
            raise CannotStart(
                f"cannot serve metrics at {wanted}: {error.strerror or error}. "
                "Choose another address with ottla.metrics.listener."
            ) from error
        self._loop_delay.start()
        logger.info("figures are at http://%s/metrics", self.address)

    def on_stopping(self) -> None:
        """The broker stops: clients had better go elsewhere."""
        self.is_stopping = True

    def close(self) -> None:
        """Show nothing any more. May be called again."""
        self._loop_delay.stop()
        if self._http is not None:
            self._http.close()

    # ---- pages ----

    def page(self, path: str) -> Page | None:
        """What is shown at a path."""
        if path == "/metrics":
            families = (family for collect in self.collectors for family in collect())
            return Page(HTTPStatus.OK, render(families), CONTENT_TYPE)
        if path == "/healthz":
            return _verdict(self.illness(), self._remark())
        if path == "/readyz":
            return _verdict(self.illness() or self.obstacle(), "")
        return None

    def illness(self) -> str:
        """Why the process should be replaced, or nothing."""
        if self._watched.has_failed:
            return "the broker has failed and stops"
        if self.logs is not None and not self.logs.online:
            return "no data directory is online"
        return ""

    def obstacle(self) -> str:
        """Why clients should not come now, or nothing."""
        if self.is_stopping:
            return "the broker is stopping"
        if self.lifecycle is None or self.logs is None:
            return "the broker is starting"
        try:
            session = self.lifecycle.session
        except KafkaError as error:
            return error.message
        if session.state is not SessionState.CONNECTED:
            return f"the session with the metadata store is {session.state.value}"
        if self.lifecycle.broker_epoch < 0:
            return "the broker is not registered"
        image = self._watched.metadata.image
        if not self._watched.metadata.is_complete:
            return "the controller has not told of the cluster yet"
        if image.controller_id not in image.brokers:
            return "no controller is known"
        if not self.is_serving:
            return "the broker is starting"
        return self._missing()

    def _missing(self) -> str:
        """Partitions that are assigned here and have no role. Those on a failed directory count
        as here: waiting does not bring them back, and the others can be served."""
        node_id, partitions = self._watched.node_id, self._watched.partitions
        missing = [
            f"{name}-{index}"
            for name, topic in self._watched.metadata.image.topics.items()
            for index, state in topic.partitions.items()
            if node_id in state.replicas
            and partitions.find(name, index) is None
            and node_id not in state.offline_replicas
            and not partitions.is_offline(name, index)
        ]
        if not missing:
            return ""
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        return f"partition {missing[0]}{more} is not served yet"

    def _remark(self) -> str:
        offline = [] if self.logs is None else self.logs.offline_paths
        return f"offline: {', '.join(offline)}" if offline else ""

    # ---- collectors ----

    def _broker(self) -> Iterator[Family]:
        state = _RUNNING if self.is_serving else _STARTING
        yield gauge(
            "kafka_server_kafkaserver_brokerstate",
            "1 starting, 3 running, 6 stopping.",
            _STOPPING if self.is_stopping else state,
        )
        yield gauge("ottla_ready", "1 if /readyz says so.", int(not self.obstacle()))
        yield counter(
            "ottla_task_crashes_total",
            "Background tasks that died of an unexpected failure.",
            self._watched.tasks.crash_count,
        )
        yield gauge(
            "kafka_server_delayedoperationpurgatory_purgatorysize",
            "Requests that wait for data, replicas or their deadline.",
            self._watched.waiting.count,
        )

    def _cluster(self) -> Iterator[Family]:
        watched = self._watched
        yield from controller_families(watched.node_id, watched.metadata)
        yield from cluster_families(watched.node_id, watched.metadata, watched.partitions)

    def _replicas(self) -> Iterator[Family]:
        yield from replica_families(self._watched.partitions)
        if self.logs is not None:
            yield from directory_families(self.logs)

    def _replication(self) -> Iterator[Family]:
        yield from isr_families(self._watched.isr_writer)
        yield from fetcher_families(self._watched.fetchers)

    def _coordinators(self) -> Iterator[Family]:
        yield from group_families(self._watched.groups, self._watched.partitions)
        watched = self._watched
        yield from transaction_families(watched.transactions)
        yield from open_transaction_families(
            watched.partitions,
            watched.verification,
            watched.config.transaction_max_timeout_ms,
            watched.ports.clock.now_ms(),
        )

    def _network(self) -> Iterator[Family]:
        if self._watched.network is not None:
            yield from network_families(self._watched.network.diagnostics())
            yield from request_families(self._watched.dispatcher)


def _verdict(reason: str, remark: str) -> Page:
    if reason:
        return Page(HTTPStatus.SERVICE_UNAVAILABLE, (f"{reason}\n",))
    return Page(HTTPStatus.OK, ("ok\n", f"{remark}\n" if remark else ""))
