"""Which metrics a broker exposes: one collector for each subject, in the order of the page."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ottla.broker.metrics.audit import audit_families
from ottla.broker.metrics.cleaner import cleaner_families
from ottla.broker.metrics.cluster import cluster_families
from ottla.broker.metrics.controller import controller_families
from ottla.broker.metrics.exposition import counter, gauge
from ottla.broker.metrics.groups import group_families
from ottla.broker.metrics.network import (
    listener_07_families,
    network_families,
    request_families,
)
from ottla.broker.metrics.open_transactions import open_transaction_families
from ottla.broker.metrics.quotas import quota_families
from ottla.broker.metrics.replicas import directory_families, replica_families
from ottla.broker.metrics.replication import fetcher_families, isr_families
from ottla.broker.metrics.transactions import transaction_families
from ottla.broker.server.listening import open_listeners
from ottla.broker.server.parts import telemetry_families
from ottla.broker.server.run_state import obstacle

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.broker.metrics.exposition import Collector, Family
    from ottla.broker.server.parts import BrokerParts
    from ottla.broker.server.run_state import RunState

# Kafka's numbers for the states of a broker.
_STARTING, _RUNNING, _STOPPING = 1, 3, 6


@runtime_checkable
class ReportsUsage(Protocol):
    """A process port that can report its memory, CPU and files; a simulated one cannot."""

    def usage(self) -> Iterator[Family]: ...


class BrokerCollectors:
    """Reads the parts each time that the metrics page is asked for; keeps nothing."""

    def __init__(self, parts: BrokerParts, state: RunState) -> None:
        self._parts = parts
        self._shared = parts.shared
        self._state = state

    def all(self) -> list[Collector]:
        """Return the collectors in the order of the page, those of the process last."""
        collectors: list[Collector] = [
            self._broker,
            self._cluster,
            self._replicas,
            self._replication,
            self._coordinators,
            self._network,
            self._audit,
        ]
        if self._parts.telemetry is not None:
            collectors.append(partial(telemetry_families(), self._parts.telemetry))
        if isinstance(self._shared.ports.process, ReportsUsage):
            collectors.append(self._shared.ports.process.usage)
        return collectors

    def _broker(self) -> Iterator[Family]:
        state = _RUNNING if self._state.is_serving else _STARTING
        yield gauge(
            "kafka_server_kafkaserver_brokerstate",
            "1 starting, 3 running, 6 stopping.",
            _STOPPING if self._state.is_stopping else state,
        )
        yield gauge(
            "ottla_ready",
            "1 if /readyz reports ready.",
            int(not obstacle(self._state, self._parts)),
        )
        yield counter(
            "ottla_task_crashes_total",
            "Background tasks that died of an unexpected failure.",
            self._shared.tasks.crash_count,
        )
        yield gauge(
            "kafka_server_delayedoperationpurgatory_purgatorysize",
            "Requests that wait for data, replicas or their deadline.",
            self._shared.waiting.count,
        )

    def _cluster(self) -> Iterator[Family]:
        node_id, metadata = self._shared.node_id, self._shared.metadata
        yield from controller_families(node_id, metadata)
        yield from cluster_families(node_id, metadata, self._parts.partitions)

    def _replicas(self) -> Iterator[Family]:
        yield from replica_families(self._parts.partitions)
        if self._state.logs is not None:
            yield from directory_families(self._state.logs)
            if self._shared.config.log_cleaner_enable:
                paths = [each.path for each in self._state.logs.directories]
                yield from cleaner_families(self._parts.cleaning, paths)

    def _replication(self) -> Iterator[Family]:
        yield from isr_families(self._parts.isr_writer)
        yield from fetcher_families(self._parts.fetchers)

    def _coordinators(self) -> Iterator[Family]:
        partitions, coordinators = self._parts.partitions, self._parts.coordinators
        yield from group_families(coordinators.groups, partitions)
        yield from transaction_families(coordinators.transactions)
        yield from open_transaction_families(
            partitions,
            coordinators.verification,
            self._shared.config.transaction_max_timeout_ms,
            self._shared.ports.clock.now_ms(),
        )

    def _audit(self) -> Iterator[Family]:
        yield from audit_families(self._parts.audit, self._parts.audit_topic)

    def _network(self) -> Iterator[Family]:
        yield gauge(
            "ottla_insecure_listeners",
            "Listeners that other machines reach without encryption.",
            len(open_listeners(self._shared.config)),
        )
        requests = self._state.requests
        if requests is not None:
            yield from network_families(requests.network.diagnostics())
            yield from request_families(requests.dispatcher)
            yield from quota_families(requests.quotas)
        if self._state.listener_07 is not None:
            yield from listener_07_families(self._state.listener_07.network.diagnostics())
