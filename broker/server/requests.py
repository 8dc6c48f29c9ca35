"""Builds what answers requests: the cluster admin, the handlers' services, dispatcher and network.

These parts need the session's ``Lifecycle`` and so exist only since the broker has joined.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

from ottla.broker.administration.cluster_admin import ClusterAdmin
from ottla.broker.administration.controlled_shutdown import ControlledShutdown
from ottla.broker.administration.topic_creation import TopicCreation
from ottla.broker.api.dispatch import Dispatcher
from ottla.broker.api.table import TABLE, advertised_apis, advertised_with_telemetry
from ottla.broker.coordinating.internal_topics import InternalTopics
from ottla.broker.handlers.services import Services
from ottla.broker.handlers.shared import seems_broker
from ottla.broker.metadata.settings import BROKERS
from ottla.broker.network.server import NetworkServer
from ottla.broker.partitions.reads import Reads
from ottla.broker.partitions.refused_batches import RefusalLog
from ottla.broker.quotas.client_limits import Windows
from ottla.broker.quotas.quotas import Quotas
from ottla.broker.server.listening import connection_limits, network_settings
from ottla.broker.server.parts import request_traces, request_tracing
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.api.gate import Gate
    from ottla.broker.engine.context import Dispatch
    from ottla.broker.membership.lifecycle import Lifecycle
    from ottla.broker.metadata.settings import Settings
    from ottla.broker.server.parts import BrokerParts
    from ottla.broker.tracing.one_request import RequestTraces
    from ottla.coordinator.configs.broker_configs import BrokerConfig
    from ottla.coordinator.metadata.delta import MetadataDelta


class RequestParts(NamedTuple):
    """What answers requests, from the first bound socket to the end of the broker."""

    dispatcher: Dispatcher
    # What the network calls with each frame: the dispatcher, perhaps with tracing before it.
    dispatch: Dispatch
    network: NetworkServer
    controlled_shutdown: ControlledShutdown
    quotas: Quotas
    services: Services


def build_request_parts(parts: BrokerParts, lifecycle: Lifecycle, gate: Gate) -> RequestParts:
    """Build them; no socket is bound yet. ``gate`` holds clients back until the broker serves."""
    shared = parts.shared
    ports, config, clock = shared.ports, shared.config, shared.ports.clock
    admin = ClusterAdmin(
        parts.controller,
        lifecycle,
        shared.metadata,
        parts.configs,
        parts.producer_ids,
        clock,
        ports.random,
    )
    services = _build_services(parts, admin, lifecycle)
    if parts.audit_topic is not None:
        parts.audit_topic.make_topics = services.internal_topics.request
    dispatcher = Dispatcher(services, TABLE, shared.tasks)
    dispatch = _traced(parts, dispatcher.dispatch)
    network = NetworkServer(
        ports.net,
        clock,
        shared.tasks,
        gate.guard(dispatch),
        network_settings(config),
        ports.offload,
        shared.turn,
    )
    services.traces = cache(lambda: _make_traces(services, network))
    network.handshakes.on_login = parts.audit.authenticated
    network.limit_ips(services.quotas.connection_rate)
    services.quotas.trusts = partial(seems_broker, services)
    shared.metadata.subscribe(limits_follower(network, config, parts.settings))
    shutdown = ControlledShutdown(config, parts.peers, shared.metadata, admin.partitions, clock)
    return RequestParts(dispatcher, dispatch, network, shutdown, services.quotas, services)


def _traced(parts: BrokerParts, dispatch: Dispatch) -> Dispatch:
    if parts.tracer is None:
        return dispatch
    shared = parts.shared
    tracing = request_tracing()(
        parts.tracer,
        shared.config.tracing_sample_ratio,
        shared.ports.random.child("tracing"),
        shared.metadata.topic_name,
    )
    return tracing.traced(dispatch)


def _make_traces(services: Services, network: NetworkServer) -> RequestTraces:
    clock = services.ports.clock
    return request_traces()(services.node_id, services.waiting, clock, network)


def limits_follower(
    network: NetworkServer, config: BrokerConfig, settings: Settings
) -> Callable[[MetadataDelta], None]:
    """Return a metadata subscriber that applies changed limits of connections."""

    def on_metadata(delta: MetadataDelta) -> None:
        if any(entity.entity_type == BROKERS for entity in delta.configs):
            network.set_limits(connection_limits(config, settings.sources))

    return on_metadata


def _quota_windows(config: BrokerConfig) -> Windows:
    return Windows(
        window_s=config.quota_window_size_seconds,
        mutation_s=config.controller_quota_window_num * config.controller_quota_window_size_seconds,
    )


def _build_services(parts: BrokerParts, admin: ClusterAdmin, lifecycle: Lifecycle) -> Services:
    shared, coordinators = parts.shared, parts.coordinators
    ports, config, metadata = shared.ports, shared.config, shared.metadata
    reads = Reads(
        parts.partitions, shared.waiting, ports, config, parts.throttles, shared.barriers.proofs
    )
    quotas = Quotas(ports.clock, _quota_windows(config))
    metadata.subscribe(quotas.on_metadata)
    creation = TopicCreation(admin, parts.peers, metadata, ports.clock)
    return Services(
        ports=ports,
        node_id=shared.node_id,
        config=config,
        settings=parts.settings,
        authorizer=parts.authorization.authorizer,
        acls=parts.authorization.acls,
        quotas=quotas,
        metadata=metadata,
        partitions=parts.partitions,
        reads=reads,
        flushes=parts.flushes,
        refusal_log=RefusalLog(ports.clock, shared.tasks),
        waiting=shared.waiting,
        admin=admin,
        session=lambda: lifecycle.session,
        internal_topics=InternalTopics(config, creation, shared.tasks),
        groups=coordinators.groups,
        transactions=coordinators.transactions,
        marker_writer=coordinators.marker_writer,
        logins=parts.logins,
        tokens=parts.tokens,
        verification=coordinators.verification,
        features=parts.features,
        moves=parts.moves,
        control=parts.receiver,
        advertised=advertised_with_telemetry if parts.telemetry else advertised_apis,
        telemetry=parts.telemetry,
        progress=parts.progress,
    )
