"""A broker's configuration: from the texts an operator wrote to typed values.

``parse_broker_config`` is strict, because it runs where the operator can still correct the file:
unknown names and illegal values are errors, all of them reported at once. What Kafka knows and has
no effect here is accepted with one warning each.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ottla.coordinator.configs.broker_configs_table import BROKER_CONFIGS
from ottla.coordinator.configs.configs import ConfigSources, setting_name
from ottla.coordinator.configs.definitions import BadValue, unknown
from ottla.coordinator.configs.listeners import (
    Listeners,
    ListenerTexts,
    is_local,
    parse_listeners,
)
from ottla.coordinator.configs.properties import (
    ConfigError,
    parse_properties,
    settings_from_environment,
)
from ottla.coordinator.configs.sasl_settings import check_inter_broker, sasl_settings
from ottla.protocol.data_classes import dataclass
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import ModuleType

    from ottla.coordinator.configs.sasl_settings import SaslSettings
    from ottla.coordinator.metadata.image import Endpoint

__all__ = [
    "BrokerConfig",
    "ConfigError",
    "ParsedBrokerConfig",
    "broker_config",
    "embedded_store_defaults",
    "for_embedded_store",
    "parse_broker_config",
    "parse_properties",
    "settings_from_environment",
]


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """Effective settings, typed; field names are the settings' with underscores.

    ``static`` holds the texts as the operator wrote them, for DescribeConfigs, which reports
    where a value comes from. -1 is "no limit" or "left to the kernel", as in Kafka."""

    static: Mapping[str, str]
    listeners: tuple[Endpoint, ...]
    advertised_listeners: tuple[Endpoint, ...]
    inter_broker_listener_name: str
    log_dirs: tuple[str, ...]
    broker_id: int
    max_connections_per_ip_overrides: Mapping[str, int]
    # By listener, for those that authenticate with SASL.
    sasl: Mapping[str, SaslSettings]
    # None: there are no delegation tokens.
    delegation_token_secret: Secret | None

    allow_everyone_if_no_acl_found: bool
    audit_log: str | None
    audit_log_required: bool
    audit_topic: bool
    audit_topic_replication_factor: int
    audit_topic_retention_ms: int
    authorizer_class_name: str
    broker_principals: str
    authentication_max_connections: int
    authentication_max_connections_per_ip: int
    authentication_timeout_ms: int
    auto_create_topics_enable: bool
    auto_leader_rebalance_enable: bool
    broker_id_generation_enable: bool
    broker_rack: str | None
    client_telemetry: bool
    connections_max_idle_ms: int
    controlled_shutdown_enable: bool
    controlled_shutdown_max_retries: int
    controlled_shutdown_retry_backoff_ms: int
    controller_quota_window_num: int
    controller_quota_window_size_seconds: int
    default_replication_factor: int
    delegation_token_expiry_check_interval_ms: int
    delegation_token_expiry_time_ms: int
    delegation_token_max_lifetime_ms: int
    delete_topic_enable: bool
    fetch_max_bytes: int
    fetch_zero_copy: bool
    free_space_floor_bytes: int
    group_consumer_assignors: tuple[str, ...]
    group_consumer_heartbeat_interval_ms: int
    group_consumer_max_size: int
    group_consumer_migration_policy: str
    group_consumer_session_timeout_ms: int
    group_initial_rebalance_delay_ms: int
    group_max_session_timeout_ms: int
    group_max_size: int
    group_min_session_timeout_ms: int
    inter_broker_listeners: tuple[str, ...]
    allow_insecure_listeners: tuple[str, ...]
    allow_readable_keys: bool
    inter_broker_protocol_version: str
    leader_imbalance_check_interval_seconds: int
    leader_imbalance_per_broker_percentage: int
    listener_07: str | None
    log_cleaner_enable: bool
    log_flush_offset_checkpoint_interval_ms: int
    log_flush_scheduler_interval_ms: int
    log_flush_start_offset_checkpoint_interval_ms: int
    log_retention_check_interval_ms: int
    max_connections: int
    max_connections_per_ip: int
    max_incremental_fetch_session_cache_slots: int
    max_request_partition_size_limit: int
    message_max_bytes: int
    metrics_listener: str | None
    min_insync_replicas: int
    num_io_threads: int
    num_network_threads: int
    num_partitions: int
    num_recovery_threads_per_data_dir: int
    num_replica_fetchers: int
    offset_metadata_max_bytes: int
    offsets_commit_timeout_ms: int
    offsets_retention_check_interval_ms: int
    offsets_retention_minutes: int
    offsets_topic_compression_codec: int
    offsets_topic_num_partitions: int
    offsets_topic_replication_factor: int
    offsets_topic_segment_bytes: int
    producer_id_expiration_ms: int
    queued_max_request_bytes: int
    queued_max_requests: int
    quota_window_size_seconds: int
    replica_fetch_backoff_ms: int
    replica_fetch_max_bytes: int
    replica_fetch_min_bytes: int
    replica_fetch_response_max_bytes: int
    replica_fetch_wait_max_ms: int
    replica_high_watermark_checkpoint_interval_ms: int
    replica_lag_max_messages: int
    replica_lag_time_max_ms: int
    replica_selector_class: str | None
    replica_socket_receive_buffer_bytes: int
    replica_socket_timeout_ms: int
    request_timeout_ms: int
    reserved_broker_max_id: int
    sasl_mechanism_inter_broker_protocol: str
    socket_listen_backlog_size: int
    socket_receive_buffer_bytes: int
    socket_request_max_bytes: int
    socket_send_buffer_bytes: int
    super_users: str
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int
    telemetry_max_bytes: int
    trace_interval_ms: int
    tracing_endpoint: str | None
    tracing_sample_ratio: float
    transaction_max_timeout_ms: int
    transaction_partition_verification_enable: bool
    transaction_remove_expired_transaction_cleanup_interval_ms: int
    transaction_state_log_min_isr: int
    transaction_state_log_num_partitions: int
    transaction_state_log_replication_factor: int
    transaction_state_log_segment_bytes: int
    transactional_id_expiration_ms: int
    unclean_leader_election_enable: bool
    zookeeper_connect: str | None
    zookeeper_connection_timeout_ms: int | None
    zookeeper_digest: str | None
    zookeeper_others_read: bool
    zookeeper_session_timeout_ms: int
    zookeeper_set_acl: bool
    zookeeper_ssl_client_enable: bool
    zookeeper_ssl_endpoint_identification_algorithm: str
    zookeeper_ssl_keystore_location: str | None
    zookeeper_ssl_keystore_password: str | None
    zookeeper_ssl_keystore_type: str | None
    zookeeper_ssl_truststore_location: str | None
    zookeeper_ssl_truststore_type: str | None

    def __repr__(self) -> str:
        # The others may be passwords, or the texts that they were read from.
        return f"BrokerConfig(broker_id={self.broker_id}, listeners={self.listeners!r})"

    @property
    def lag_messages_max(self) -> int | None:
        """Messages behind that put a follower out of the ISR; None since Kafka 0.9 (KIP-16)."""
        is_old = _is_0_8(self.inter_broker_protocol_version)
        return self.replica_lag_max_messages if is_old else None

    @property
    def sources(self) -> ConfigSources:
        """The file alone, as the sources of topics' configurations start."""
        return ConfigSources(static=self.static)


class ParsedBrokerConfig(NamedTuple):
    """A configuration that can be used, and what its operator should be told about it."""

    config: BrokerConfig
    warnings: tuple[str, ...]


# Fields that more than one setting, or more than a type, goes into.
_DERIVED = frozenset(
    {
        "static",
        "listeners",
        "advertised_listeners",
        "inter_broker_listener_name",
        "log_dirs",
        "broker_id",
        "max_connections_per_ip_overrides",
        "sasl",
        "delegation_token_secret",
    }
)
_PLAIN_FIELDS = tuple(
    (name, BROKER_CONFIGS[setting_name(name, BROKER_CONFIGS)])
    for name in BrokerConfig.__match_args__
    if name not in _DERIVED
)
# What is looked up for each listener.
_PER_LISTENER = (
    "sasl.",
    "ssl.",
    "connections.max.reauth.ms",
    "connection.failed.authentication.delay.ms",
)
# Features that Ottla does not have: a broker must refuse to start rather than seem to have them.
_NEVER_TRUE = (
    "remote.log.storage.system.enable",
    "zookeeper.metadata.migration.enable",
    "zookeeper.ssl.crl.enable",
    "zookeeper.ssl.ocsp.enable",
)
_RELEASE = "inter.broker.protocol.version"
# The settings that have an effect when the first of them names a release 0.8.
_RULES_OF_0_8 = (_RELEASE, "replica.lag.max.messages")
_REMOVED = {
    "port": "listeners",
    "host.name": "listeners",
    "advertised.host.name": "advertised.listeners",
    "advertised.port": "advertised.listeners",
}


def parse_broker_config(settings: Mapping[str, str]) -> ParsedBrokerConfig:
    """The configuration in texts by name, and warnings.

    Raises ConfigError with every problem there is, one sentence each."""
    warnings: list[str] = []
    problems: list[str] = []
    static: dict[str, str] = {}
    for written, text in settings.items():
        name = _known_spelling(written)
        problem = _problem(name, text)
        if problem is not None:
            problems.append(problem)
            continue
        static[name] = text
        definition = BROKER_CONFIGS.get(_of_listener(name))
        counts = name in _RULES_OF_0_8 and _is_0_8(settings.get(_RELEASE, ""))
        if definition is None or not (definition.has_effect or counts):
            warnings.append(f"{name} has no effect here")
    problems += _contradictions(static)
    if problems:
        raise ConfigError(*problems)
    # Two names of one number: both are listed.
    for name, other in (("broker.id", "node.id"), ("node.id", "broker.id")):
        if name in static:
            static.setdefault(other, static[name])
    try:
        config, more_warnings = _build(ConfigSources(static=MappingProxyType(static)))
    except BadValue as error:
        raise ConfigError(str(error)) from None
    return ParsedBrokerConfig(config, (*warnings, *more_warnings))


def broker_config(sources: ConfigSources) -> BrokerConfig:
    """What counts for a running broker once dynamic settings lie over its file.

    Raises BadValue when a dynamic one, checked when it was set, is no longer valid."""
    return _build(sources)[0]


def embedded_store_defaults(broker_count: int) -> dict[str, str]:
    """Defaults that a cluster within one process needs instead of Kafka's: internal topics must
    be possible with the brokers there are."""
    replicas = min(3, broker_count)
    return {
        "offsets.topic.replication.factor": str(replicas),
        "ottla.audit.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(min(2, replicas)),
    }


def for_embedded_store(config: BrokerConfig, broker_count: int) -> BrokerConfig:
    """The configuration with those defaults, wherever the operator has said nothing else."""
    defaults = embedded_store_defaults(broker_count)
    static = MappingProxyType({**defaults, **config.static})
    return broker_config(ConfigSources(static=static))


def _known_spelling(name: str) -> str:
    """A name out of an environment variable has lost its capitals."""
    if name in BROKER_CONFIGS:
        return name
    return next((known for known in BROKER_CONFIGS if known.lower() == name), name)


def _problem(name: str, text: str) -> str | None:
    """One sentence about a setting that cannot be accepted."""
    definition = BROKER_CONFIGS.get(_without_listener(name))
    if definition is not None:
        return definition.problem(text) if text or definition.default is not None else None
    if _load_foreign().is_without_effect(name):
        return None
    if name in _REMOVED:
        return f"Kafka has dropped the setting {name}: use {_REMOVED[name]}"
    return unknown(name, "broker", BROKER_CONFIGS)


def _is_0_8(release: str) -> bool:
    return release.strip().split(".")[:2] == ["0", "8"]


def _load_foreign() -> ModuleType:
    """Few configurations have settings that only Kafka knows."""
    from ottla.coordinator.configs import foreign

    return foreign


def _without_listener(name: str) -> str:
    """The setting in listener.name.<listener>.[<mechanism>.]<setting>."""
    if not name.startswith("listener.name."):
        return name
    _, _, rest = name.removeprefix("listener.name.").partition(".")
    if rest in BROKER_CONFIGS:
        return rest
    return rest.partition(".")[2] or rest


def _of_listener(name: str) -> str:
    """The same for the settings that one listener may have of its own, else the name."""
    setting = _without_listener(name)
    return setting if setting.startswith(_PER_LISTENER) else name


def _contradictions(static: Mapping[str, str]) -> Iterator[str]:
    """Sentences about values that are legal one by one and not together, or not here."""
    for name in ("log.retention.ms", "log.retention.minutes", "log.retention.hours"):
        if static.get(name, "").strip() == "0":
            yield f"{name} is -1, for no limit, or at least 1"
    for name in _NEVER_TRUE:
        if _is_true(static, name):
            yield f"{name} cannot be true: {BROKER_CONFIGS[name].documentation}"
    broker_id, node_id = static.get("broker.id"), static.get("node.id")
    if broker_id is not None and node_id is not None and int(broker_id) != int(node_id):
        yield f"broker.id is {broker_id} and node.id is {node_id}: they are one number"
    if any(name.startswith(("process.roles", "controller.quorum.")) for name in static):
        yield from _load_foreign().kraft_problems(static)
    yield from _group_contradictions(static)
    yield from _tls_contradictions(static)


def _is_true(static: Mapping[str, str], name: str) -> bool:
    return static.get(name, "").strip().lower() == "true"


def _tls_contradictions(static: Mapping[str, str]) -> Iterator[str]:
    """Stores of keys towards ZooKeeper in formats that only Java reads."""
    if not _is_true(static, "zookeeper.ssl.client.enable"):
        return
    for store in ("zookeeper.ssl.keystore", "zookeeper.ssl.truststore"):
        location = static.get(f"{store}.location", "").strip()
        # As in ZooKeeper's client: where no type is given, the file's name tells.
        kind = static.get(f"{store}.type", "").strip() or location.rpartition(".")[2]
        if location and kind.upper() != "PEM":
            yield f"{store}.type has to be PEM: {location} cannot be read here"


def _group_contradictions(static: Mapping[str, str]) -> Iterator[str]:
    """What Kafka demands of the settings of KIP-848 groups together."""

    def number(name: str) -> int:
        return int(static.get(name) or BROKER_CONFIGS[name].default or 0)

    session, interval = "session.timeout.ms", "heartbeat.interval.ms"
    for setting in (session, interval):
        name = f"group.consumer.{setting}"
        low, high = f"group.consumer.min.{setting}", f"group.consumer.max.{setting}"
        if not number(low) <= number(name) <= number(high):
            yield (
                f"{name} is {number(name)}, which is not between {low} ({number(low)}) "
                f"and {high} ({number(high)})"
            )
    session, interval = f"group.consumer.{session}", f"group.consumer.{interval}"
    if number(interval) >= number(session):
        yield f"{interval} ({number(interval)}) is not less than {session} ({number(session)})"
    assignors = static.get("group.consumer.assignors")
    if assignors is not None and not assignors.strip():
        yield "group.consumer.assignors names no assignor"


def _build(sources: ConfigSources) -> tuple[BrokerConfig, tuple[str, ...]]:
    listeners = _listeners(sources)
    warnings = list(listeners.warnings)
    values: dict[str, Any] = {
        "static": sources.static,
        "listeners": listeners.bound,
        "advertised_listeners": listeners.advertised,
        "inter_broker_listener_name": listeners.inter_broker_name,
        "log_dirs": _log_dirs(sources),
        "broker_id": int(_set_text(sources, "broker.id") or _set_text(sources, "node.id") or -1),
        "max_connections_per_ip_overrides": connection_overrides(sources),
        "sasl": _sasl(sources, listeners),
        "delegation_token_secret": _token_secret(sources),
    }
    for field_name, definition in _PLAIN_FIELDS:
        text = sources.text(definition.name)
        # Where null is the default, an empty text means the same.
        unset = text is None or (not text.strip() and definition.default is None)
        values[field_name] = None if unset else definition.parse(text or "")
    _check_names(values["inter_broker_listeners"], listeners)
    config = BrokerConfig(**values)
    if config.sasl and _is_store_open(config):
        warnings.append(
            "clients of ZooKeeper other than the brokers may change users and access rules: set "
            "ottla.zookeeper.digest and zookeeper.set.acl=true"
        )
    return config, tuple(warnings)


def _is_store_open(config: BrokerConfig) -> bool:
    """Whether it is on other machines, and its znodes are not those of one user."""
    hosts = (config.zookeeper_connect or "").partition("/")[0]
    names = [host.strip().rpartition(":")[0] or host.strip() for host in hosts.split(",")]
    is_owned = config.zookeeper_digest and config.zookeeper_set_acl
    return not is_owned and not all(is_local(name.strip("[]")) for name in names)


def _check_names(names: tuple[str, ...], listeners: Listeners) -> None:
    """Raises BadValue: a slip would keep brokers apart in the middle of a change."""
    known = {endpoint.listener for endpoint in listeners.bound}
    for name in names:
        if name not in known:
            raise BadValue(f"ottla.inter.broker.listeners: {name} is none of the listeners")


def _set_text(sources: ConfigSources, name: str) -> str | None:
    """What is set for a name, None for nothing but blanks and for the default."""
    for _source, texts in sources.layers():
        if name in texts:
            return texts[name].strip() or None
    return None


def _listeners(sources: ConfigSources) -> Listeners:
    return parse_listeners(
        ListenerTexts(
            listeners=sources.text("listeners") or "",
            advertised=_set_text(sources, "advertised.listeners"),
            protocol_map=sources.text("listener.security.protocol.map") or "",
            inter_broker_name=_set_text(sources, "inter.broker.listener.name"),
            inter_broker_protocol=_set_text(sources, "security.inter.broker.protocol"),
            controller_names=_set_text(sources, "controller.listener.names"),
            insecure_names=_set_text(sources, "ottla.allow.insecure.listeners"),
        )
    )


def _sasl(sources: ConfigSources, listeners: Listeners) -> dict[str, SaslSettings]:
    found = {
        endpoint.listener: sasl_settings(sources.static, endpoint.listener)
        for endpoint in listeners.bound
        if endpoint.security_protocol.startswith("SASL_")
    }
    if listeners.inter_broker_name in found:
        check_inter_broker(
            found[listeners.inter_broker_name],
            sources.text("sasl.mechanism.inter.broker.protocol") or "",
        )
    return found


def _token_secret(sources: ConfigSources) -> Secret | None:
    names = ("delegation.token.secret.key", "delegation.token.master.key")
    text = next(filter(None, (_set_text(sources, name) for name in names)), None)
    return None if text is None else Secret(text)


def _log_dirs(sources: ConfigSources) -> tuple[str, ...]:
    text = _set_text(sources, "log.dirs") or sources.text("log.dir") or ""
    directories = tuple(item.strip() for item in text.split(",") if item.strip())
    if not directories:
        raise BadValue("log.dirs names no directory")
    if len(set(directories)) < len(directories):
        raise BadValue(f"log.dirs has a directory twice: {text}")
    return directories


def connection_overrides(sources: ConfigSources) -> Mapping[str, int]:
    """``max.connections.per.ip.overrides``: address:number pairs; addresses may have colons.

    Raises BadValue."""
    overrides: dict[str, int] = {}
    text = sources.text("max.connections.per.ip.overrides") or ""
    for pair in filter(None, (item.strip() for item in text.split(","))):
        address, _, count = pair.rpartition(":")
        if not address or not count.isdecimal():
            raise BadValue(f"max.connections.per.ip.overrides wants address:number, not {pair!r}")
        overrides[address.strip("[]")] = int(count)
    return MappingProxyType(overrides)
