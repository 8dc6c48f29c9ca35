"""Types the settings as keywords: ``Producer("127.0.0.1:9092", linger_ms=20, compression="zstd")``.

One key for each field of the configuration, so that type checkers and editors know every name and
type; a test compares both. An error for an unknown name suggests the nearest one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, TypedDict, TypeVar, cast

from ottla.client.records.serializers import ReadKey, ReadValue, SendKey, SendValue
from ottla.client.settings.config import (
    Acks,
    ClientConfig,
    Compression,
    GroupProtocol,
    Isolation,
    OffsetReset,
)
from ottla.client.settings.kafka_names import ALIASES
from ottla.client.settings.security import security_from
from ottla.client.settings.spelling import nearest, one_of

if TYPE_CHECKING:
    from ottla.client.records.interceptors import (
        ConsumerInterceptor,
        OnDelivery,
        ProducerInterceptor,
    )
    from ottla.client.records.partitioners import Partitioner, PartitionerName
    from ottla.client.records.serializers import Deserializer, Serializer
    from ottla.protocol.ports import SocketOptions
    from ottla.wire.backoff import Backoff
    from ottla.wire.security import ConnectionSecurity

AnyConfig = TypeVar("AnyConfig", bound=ClientConfig)

IsolationName = Literal["read_uncommitted", "read_committed"]
ISOLATIONS = {level.name.lower(): level for level in Isolation}


class ClientSettings(TypedDict, total=False):
    """The fields of ClientConfig."""

    client_id: str
    request_timeout_ms: float
    connect_timeout_ms: float
    reconnect_backoff: Backoff
    response_bytes_max: int
    socket: SocketOptions
    security: ConnectionSecurity | Mapping[str, object]
    metadata_max_age_ms: float
    call_timeout_ms: float
    retry_backoff: Backoff
    allow_auto_create: bool


class ProducerSettings(ClientSettings, Generic[SendKey, SendValue], total=False):
    """The fields of ProducerConfig; the serializers determine what ``send`` accepts."""

    transactional_id: str | None
    transaction_timeout_ms: int
    acks: Acks
    idempotent: bool | None
    in_flight_max: int
    compression: Compression
    linger_ms: float
    batch_bytes: int
    memory_bytes_max: int
    request_bytes_max: int
    delivery_timeout_ms: float
    delivery_waits_for_progress: bool
    partitioner: PartitionerName | Partitioner
    key_serializer: Serializer[SendKey] | None
    value_serializer: Serializer[SendValue] | None
    interceptors: tuple[ProducerInterceptor, ...]
    on_delivery: OnDelivery | None


class ConsumerSettings(ClientSettings, Generic[ReadKey, ReadValue], total=False):
    """The fields of ConsumerConfig; the deserializers determine what records contain."""

    offset_reset: OffsetReset
    isolation: Isolation | IsolationName
    fetch_wait_ms: int
    fetch_bytes_min: int
    fetch_bytes_max: int
    partition_bytes_max: int | None
    batch_bytes_max: int
    check_crc: bool
    rack: str
    group_id: str | None
    group_instance_id: str | None
    group_protocol: GroupProtocol
    remote_assignor: str | None
    assignors: tuple[str, ...]
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    rebalance_timeout_ms: int | None
    auto_commit: bool
    auto_commit_interval_ms: int
    key_deserializer: Deserializer[ReadKey] | None
    value_deserializer: Deserializer[ReadValue] | None
    interceptors: tuple[ConsumerInterceptor, ...]


def _kind(value: object) -> str:
    """Name the type. Not the value: a mapping of settings may hold passwords."""
    return f"type {type(value).__name__}"


def configured(config: AnyConfig, settings: object) -> AnyConfig:
    """The configuration with these settings changed; ``settings`` is one of the dicts above.

    Raises TypeError for an unknown name, and ValueError for an invalid value."""
    if not isinstance(config, ClientConfig):
        raise TypeError(f"a configuration is a ProducerConfig or so, not one of {_kind(config)}")
    changes = dict(cast("dict[str, Any]", settings))
    if not changes:
        return config
    known = [field.name for field in fields(config)]
    for name in changes:
        if name not in known:
            raise TypeError(_unknown(name, type(config).__name__, known))
    isolation = changes.get("isolation")
    if isinstance(isolation, str):
        one_of("isolation", isolation, ISOLATIONS)
        changes["isolation"] = ISOLATIONS[isolation]
    security = changes.get("security")
    if isinstance(security, Mapping):
        changes["security"] = security_from(security)
    return replace(config, **changes)


def _unknown(name: str, kind: str, known: list[str]) -> str:
    """The error text for an unknown name; knows Kafka's names with underscores for dots."""
    for java_name, field in ALIASES.items():
        if java_name.replace(".", "_") == name and field in known:
            return f"{name!r} is called {field!r} here"
    meant = nearest(name, known)
    hint = "" if meant is None else f"; did you mean {meant!r}?"
    return f"{kind} has no setting {name!r}{hint}"
