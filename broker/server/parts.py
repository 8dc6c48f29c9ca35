"""Builds the parts of a broker that need no metadata store, each after the parts that it takes.

``_connect`` then registers the callbacks between parts that need each other. Nothing here starts a
task, opens a file or sends a byte.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.administration.producer_ids import ProducerIds
from ottla.broker.authorization.setup import build_authorization
from ottla.broker.cleaner.cleaner import Cleaning
from ottla.broker.cleaner.settings import cleaning_settings
from ottla.broker.controlling.controller import ControllerCandidate
from ottla.broker.controlling.controllership import ControllerParts
from ottla.broker.controlling.peer_watch import PeerWatch
from ottla.broker.controlling.wire_channel import WireChannel
from ottla.broker.directories.directory_failures import DirectoryFailures
from ottla.broker.directories.full_disk_reports import FullDiskReports
from ottla.broker.directories.replica_moves import ReplicaMoves
from ottla.broker.following.fetchers import fetchers_of
from ottla.broker.housekeeping.housekeeping import Housekeeping, Intervals
from ottla.broker.membership.peers import Peers
from ottla.broker.metadata.config_watch import ConfigWatch
from ottla.broker.metadata.features import FinalizedFeatures
from ottla.broker.metadata.settings import BROKERS, TOPICS, Settings
from ottla.broker.partitions.control import ControlReceiver
from ottla.broker.partitions.isr_writer import IsrWriter
from ottla.broker.partitions.lease import Lease
from ottla.broker.partitions.partitions import Partitions
from ottla.broker.partitions.produces import Flushes
from ottla.broker.partitions.throttles import ReplicationThrottles
from ottla.broker.replica.progress import ANY_LAG, FollowerLag
from ottla.broker.security.audit import Audit
from ottla.broker.security.audit_file import audit_sink
from ottla.broker.security.credentials import Credentials
from ottla.broker.security.inter_broker import inter_broker_security
from ottla.broker.security.listener_tls import BrokerTls
from ottla.broker.security.logins import Logins
from ottla.broker.server.coordinators import BrokerCoordinators, build_coordinators
from ottla.broker.server.stores import CannotStart
from ottla.coordinator.configs.config_changes import check_topic_configs
from ottla.coordinator.controller.specs import controller_settings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ottla.broker.authorization.setup import Authorization
    from ottla.broker.coordinating.audit_topic import AuditTopic
    from ottla.broker.engine.tasks import Tasks
    from ottla.broker.following.fetchers import Fetchers
    from ottla.broker.housekeeping.progress_watch import ProgressWatch
    from ottla.broker.metrics.exposition import Family
    from ottla.broker.security.token_store import TokenStore
    from ottla.broker.server.shared_parts import SharedParts
    from ottla.broker.telemetry.receiver import ClientTelemetry
    from ottla.broker.tracing.one_request import RequestTraces
    from ottla.broker.tracing.open_telemetry import OpenTelemetryTracer
    from ottla.broker.tracing.request_spans import RequestTracing
    from ottla.broker.wire07.listener import Listener07
    from ottla.coordinator.configs.broker_configs import BrokerConfig
    from ottla.coordinator.metadata.delta import MetadataDelta
    from ottla.protocol.ports import Ports
    from ottla.protocol.secret import Secret


class BrokerParts(NamedTuple):
    """The parts of a broker that exist from its construction to its end, in build order."""

    shared: SharedParts
    audit: Audit
    # With ottla.audit.topic only.
    audit_topic: AuditTopic | None
    authorization: Authorization
    settings: Settings
    lease: Lease
    throttles: ReplicationThrottles
    partitions: Partitions
    isr_writer: IsrWriter
    flushes: Flushes
    configs: ConfigWatch
    features: FinalizedFeatures
    receiver: ControlReceiver
    tls: BrokerTls
    peers: Peers
    logins: Logins
    tokens: TokenStore | None
    producer_ids: ProducerIds
    coordinators: BrokerCoordinators
    channel: WireChannel
    controller: ControllerCandidate
    fetchers: Fetchers
    cleaning: Cleaning
    moves: ReplicaMoves
    housekeeping: Housekeeping
    directory_failures: DirectoryFailures
    full_disk_reports: FullDiskReports
    # With ottla.client.telemetry only.
    telemetry: ClientTelemetry | None
    # With ottla.tracing.endpoint only.
    tracer: OpenTelemetryTracer | None
    # With ottla.trace.interval.ms only.
    progress: ProgressWatch | None


def build_parts(shared: SharedParts) -> BrokerParts:
    """Build and connect all parts."""
    node_id, ports, config = shared.node_id, shared.ports, shared.config
    metadata, clock, tasks = shared.metadata, ports.clock, shared.tasks
    audit = Audit(
        node_id,
        clock,
        audit_sink(ports.disk, config.audit_log),
        has_logins=config.audit_log is not None or config.audit_topic,
        needs_lines=config.audit_log_required,
    )
    settings = Settings(config, node_id, metadata.config)
    lease = Lease()
    throttles = ReplicationThrottles(node_id, lambda: settings.sources, clock)
    lag = FollowerLag(config.replica_lag_time_max_ms, config.lag_messages_max or ANY_LAG)
    partitions = Partitions(node_id, settings.for_topic, shared.waiting, clock, lag, lease)
    # The first subscriber: the others may read settings when they hear of the same change.
    metadata.subscribe(_settings_follower(settings, partitions))
    isr_writer = IsrWriter(partitions, metadata, clock, tasks, lag.time_max_ms)
    flushes = Flushes(tasks)
    configs = ConfigWatch(metadata, tasks)
    receiver = ControlReceiver(metadata, partitions, configs, tasks)
    tls = BrokerTls(config, lambda: settings.sources, clock)
    inner = config.inter_broker_listener_name
    security = inter_broker_security(config, tls.security)
    peers = Peers(node_id, ports.net, clock, metadata, inner, security)
    producer_ids = ProducerIds(node_id, shared.session)
    channel = WireChannel(peers, metadata, receiver)
    tokens = _build_tokens(shared, audit)
    parts = BrokerParts(
        shared=shared,
        audit=audit,
        audit_topic=_build_audit_topic(shared, peers),
        authorization=build_authorization(config, audit.decided, clock, tasks),
        settings=settings,
        lease=lease,
        throttles=throttles,
        partitions=partitions,
        isr_writer=isr_writer,
        flushes=flushes,
        configs=configs,
        features=FinalizedFeatures(node_id, metadata, clock, tasks),
        receiver=receiver,
        tls=tls,
        peers=peers,
        logins=_build_logins(shared, configs, audit, tokens),
        tokens=tokens,
        producer_ids=producer_ids,
        coordinators=build_coordinators(shared, partitions, flushes, peers, producer_ids),
        channel=channel,
        controller=_build_controller(shared, channel, peers),
        fetchers=fetchers_of(config, peers, lambda: receiver.broker_epoch, clock, tasks),
        cleaning=Cleaning(partitions, ports, lambda: cleaning_settings(settings.sources)),
        moves=ReplicaMoves(partitions, metadata, throttles.directories, clock, shared.chores),
        housekeeping=_build_housekeeping(shared, partitions),
        directory_failures=DirectoryFailures(node_id, clock, tasks),
        full_disk_reports=FullDiskReports(node_id, clock),
        telemetry=_build_telemetry(shared),
        tracer=_build_tracer(shared),
        progress=_build_progress(shared, partitions),
    )
    _connect(parts)
    return parts


def _audit_topic() -> type[AuditTopic]:
    """Loaded by brokers with the topic only."""
    from ottla.broker.coordinating.audit_topic import AuditTopic

    return AuditTopic


def listener_07() -> type[Listener07]:
    """Loaded by brokers with a listener for clients of 0.7 only."""
    from ottla.broker.wire07.listener import Listener07

    return Listener07


def _build_audit_topic(shared: SharedParts, peers: Peers) -> AuditTopic | None:
    if not shared.config.audit_topic:
        return None
    return _audit_topic()(shared.node_id, peers, shared.metadata, shared.ports.clock)


def _client_telemetry() -> type[ClientTelemetry]:
    """Loaded by brokers that take metrics of clients only."""
    from ottla.broker.telemetry.receiver import ClientTelemetry

    return ClientTelemetry


def _open_telemetry() -> type[OpenTelemetryTracer]:
    """Loaded by brokers that send spans only."""
    from ottla.broker.tracing.open_telemetry import OpenTelemetryTracer

    return OpenTelemetryTracer


def request_tracing() -> type[RequestTracing]:
    """Loaded by brokers that send spans only."""
    from ottla.broker.tracing.request_spans import RequestTracing

    return RequestTracing


def request_traces() -> type[RequestTraces]:
    """Loaded when an operator traces a request."""
    from ottla.broker.tracing.one_request import RequestTraces

    return RequestTraces


def _build_tracer(shared: SharedParts) -> OpenTelemetryTracer | None:
    endpoint = shared.config.tracing_endpoint
    if endpoint is None:
        return None
    try:
        loaded = _open_telemetry()
    except ModuleNotFoundError as error:
        raise CannotStart(
            f"ottla.tracing.endpoint is set, and the module {error.name} is not installed: "
            "pip install 'ottla[otel]'"
        ) from error
    return loaded(endpoint, shared.node_id, shared.ports.clock)


def _progress_watch() -> type[ProgressWatch]:
    """Loaded by brokers that keep the progress of replicas only."""
    from ottla.broker.housekeeping.progress_watch import ProgressWatch

    return ProgressWatch


def _build_progress(shared: SharedParts, partitions: Partitions) -> ProgressWatch | None:
    if shared.config.trace_interval_ms == 0:
        return None
    return _progress_watch()(shared.node_id, partitions, shared.ports.clock)


def telemetry_families() -> Callable[[ClientTelemetry], Iterator[Family]]:
    """Loaded by brokers that take metrics of clients only."""
    from ottla.broker.metrics.client_telemetry import client_telemetry_families

    return client_telemetry_families


def _build_telemetry(shared: SharedParts) -> ClientTelemetry | None:
    ports, config = shared.ports, shared.config
    if not config.client_telemetry:
        return None
    try:
        loaded = _client_telemetry()
    except ModuleNotFoundError as error:
        raise CannotStart(
            f"ottla.client.telemetry is true, and the module {error.name} is not installed: "
            "pip install 'ottla[otel]'"
        ) from error
    random = ports.random.child("telemetry")
    return loaded(shared.metadata, ports.clock, random, config.telemetry_max_bytes)


def _token_store() -> Callable[[BrokerConfig, Secret, Ports, Tasks], TokenStore]:
    """Loaded by brokers with delegation tokens only."""
    from ottla.broker.security.token_store import build_token_store

    return build_token_store


def _build_tokens(shared: SharedParts, audit: Audit) -> TokenStore | None:
    """None without a secret for tokens."""
    config, ports = shared.config, shared.ports
    if config.delegation_token_secret is None:
        return None
    store = _token_store()(config, config.delegation_token_secret, ports, shared.tasks)
    store.on_change = audit.token_changed
    return store


def _build_logins(
    shared: SharedParts, configs: ConfigWatch, audit: Audit, store: TokenStore | None
) -> Logins:
    ports, metadata = shared.ports, shared.metadata
    credentials = Credentials(
        lambda: metadata.image,
        configs.until_read,
        shared.config.sasl,
        ports.random,
        None if store is None else store.tokens,
    )
    logins = Logins(shared.config, credentials, ports, shared.tasks)
    metadata.subscribe(logins.on_metadata)
    if store is not None:
        store.tokens.on_end = logins.end_sessions
    logins.on_login = audit.authenticated
    return logins


def _build_controller(
    shared: SharedParts, channel: WireChannel, peers: Peers
) -> ControllerCandidate:
    ports = shared.ports
    parts = ControllerParts(
        settings=controller_settings(shared.config),
        check_configs=partial(check_topic_configs, null_code=ErrorCode.INVALID_CONFIG),
        channel=channel,
        clock=ports.clock,
        random=ports.random,
        tasks=shared.tasks,
        peer_watch=PeerWatch(peers, ports.clock, shared.tasks),
    )
    return ControllerCandidate(shared.node_id, shared.metadata, parts)


def _build_housekeeping(shared: SharedParts, partitions: Partitions) -> Housekeeping:
    config = shared.config
    intervals = Intervals(
        retention_check_ms=config.log_retention_check_interval_ms,
        checkpoint_ms=config.replica_high_watermark_checkpoint_interval_ms,
        producer_expiration_ms=config.producer_id_expiration_ms,
    )
    return Housekeeping(partitions, shared.ports.clock, shared.chores, intervals)


def _connect(parts: BrokerParts) -> None:
    """Register every callback between parts that need each other."""
    metadata, partitions, coordinators = parts.shared.metadata, parts.partitions, parts.coordinators
    metadata.is_offline_here = partitions.is_offline
    partitions.error_for_missing = metadata.error_for_missing
    partitions.on_may_join = parts.isr_writer.look_at
    partitions.on_role = coordinators.on_role
    partitions.on_following = parts.fetchers.on_role
    partitions.on_settings = parts.fetchers.on_settings
    parts.fetchers.throttle(parts.throttles)
    parts.cleaning.trusts_clock = parts.housekeeping.trusts_clock
    if parts.audit_topic is not None:
        parts.audit.write_too = parts.audit_topic.add
    coordinators.trust_clock(parts.housekeeping.trusts_clock)


def _settings_follower(
    settings: Settings, partitions: Partitions
) -> Callable[[MetadataDelta], None]:
    """Return a metadata subscriber that drops cached settings when a config entity changes."""

    def on_metadata(delta: MetadataDelta) -> None:
        for entity in delta.configs:
            if entity.entity_type == BROKERS:
                settings.forget()
                for topic in {one.partition.topic for one in partitions}:
                    partitions.topic_changed(topic)
            elif entity.entity_type == TOPICS:
                settings.forget(entity.name)
                partitions.topic_changed(entity.name)

    return on_metadata
