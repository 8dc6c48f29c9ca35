"""The typed settings of clients, with Kafka's meanings and its present defaults.

Times are in milliseconds and sizes in bytes. A combination that would weaken a guarantee is
refused when the object is created.
"""

from __future__ import annotations

import warnings
from dataclasses import field, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

from ottla.client.records.partitioners import PARTITIONERS
from ottla.client.settings.accumulator_limits import AccumulatorLimits
from ottla.client.settings.properties import fields_from
from ottla.client.settings.spelling import one_of
from ottla.client.settings.types import check_methods, check_types
from ottla.protocol.data_classes import dataclass
from ottla.protocol.ports import Address
from ottla.protocol.records.compression import Codec
from ottla.wire.backoff import Backoff
from ottla.wire.connection_config import ConnectionConfig

if TYPE_CHECKING:
    from ottla.client.records.interceptors import (
        ConsumerInterceptor,
        OnDelivery,
        ProducerInterceptor,
    )
    from ottla.client.records.partitioners import Partitioner, PartitionerName
    from ottla.client.records.serializers import Deserializer, Serializer
    from ottla.client.settings.properties import Properties

DEFAULT_PORT = 9092
# A broker remembers the last five batches of a producer per partition; a sixth in flight could be
# retried after the broker has forgotten it (hazard T-02).
IDEMPOTENT_IN_FLIGHT_MAX = 5

Acks = Literal[0, 1, -1, "all"]
OffsetReset = Literal["earliest", "latest", "none"]
GroupProtocol = Literal["classic", "consumer"]
Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]


class Isolation(IntEnum):
    """Whether a consumer sees records of open and aborted transactions."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig(ConnectionConfig):
    """The settings of every client.

    Args:
        metadata_max_age_ms: How old the cluster's metadata may become, in milliseconds.
        call_timeout_ms: The limit of one call with all its retries, in milliseconds.
        retry_backoff: The waits between attempts of one request.
        allow_auto_create: Whether asking for a missing topic may create it on the broker.
    """

    metadata_max_age_ms: float = 300_000
    call_timeout_ms: float = 60_000
    retry_backoff: Backoff = field(default_factory=lambda: Backoff(100, 1_000))
    allow_auto_create: bool = False

    def __post_init__(self) -> None:
        check_types(self)

    @classmethod
    def from_properties(cls, properties: Properties) -> Self:
        """Create the settings from Kafka's names, such as ``linger.ms``.

        Args:
            properties: Values by Kafka's names; ``bootstrap.servers`` may be among them and is
                ignored.

        Returns:
            The settings.

        Raises:
            ValueError: A name is unknown (the message names the nearest one) or a value is invalid.
        """
        return cls(**_changes(cls, properties))

    def with_properties(self, properties: Properties, *, ignore_others: bool = False) -> Self:
        """The same settings, except for those that are given by Kafka's names.

        Args:
            properties: Values by Kafka's names, as for ``from_properties``.
            ignore_others: Whether to ignore settings that have no effect on this kind of client,
                as in a file that serves all kinds; by default each is warned of.

        Returns:
            The settings.

        Raises:
            ValueError: A name is unknown (the message names the nearest one) or a value is invalid.
        """
        with warnings.catch_warnings():
            if ignore_others:
                warnings.simplefilter("ignore")
            return replace(self, **_changes(type(self), properties))


def _changes(kind: type[ClientConfig], properties: Properties) -> dict[str, Any]:
    changes = fields_from(kind, properties)
    if "isolation" in changes:
        name = changes["isolation"]
        one_of("isolation.level", name, [level.name.lower() for level in Isolation])
        changes["isolation"] = Isolation[name.upper()]
    return changes


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig(ClientConfig):
    """The settings of a producer, and those of every client.

    Args:
        transactional_id: Makes the producer transactional, under this id; None for no transactions.
        transaction_timeout_ms: The coordinator aborts transactions that are open for longer, in
            milliseconds.
        acks: Which replicas must store a record: ``"all"`` (or -1) for every in-sync replica, 1 for
            the leader, 0 for no acknowledgement.
        idempotent: Whether retries store no record twice; None for True wherever the other settings
            allow it.
        in_flight_max: The limit of unacknowledged batches for each partition.
        compression: ``"none"``, ``"gzip"``, ``"snappy"``, ``"lz4"`` or ``"zstd"``.
        linger_ms: How long a batch waits for more records, in milliseconds.
        batch_bytes: The size at which a batch is sent, in bytes.
        memory_bytes_max: The limit of all records in memory, in bytes; ``send`` waits at the limit.
        request_bytes_max: The limit of one request and of one record, in bytes.
        delivery_timeout_ms: A record fails if it is not acknowledged within this time, in
            milliseconds.
        delivery_waits_for_progress: Whether each acknowledged batch restarts the delivery timeout
            of all records, so that a slow link gets the time it needs.
        partitioner: How to choose the partition of a record: ``"murmur2"``, ``"sticky"``,
            ``"random"``, ``"round_robin"``, ``"consistent"``, ``"consistent_random"``, ``"fnv1a"``,
            or a function from an ``Unplaced`` to a partition's number.
        key_serializer: Turns keys into bytes; None if keys are bytes.
        value_serializer: Turns values into bytes; None if values are bytes.
        interceptors: Hooks that see every record and every result.
        on_delivery: Called once for each batch with its ``DeliveryReport``; None for no call.
    """

    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000
    acks: Acks = "all"
    idempotent: bool | None = None
    in_flight_max: int = IDEMPOTENT_IN_FLIGHT_MAX
    compression: Compression = "none"
    linger_ms: float = 5
    batch_bytes: int = 64 * 1024
    memory_bytes_max: int = 32 * 1024 * 1024
    request_bytes_max: int = 1024 * 1024
    delivery_timeout_ms: float = 120_000
    delivery_waits_for_progress: bool = False
    partitioner: PartitionerName | Partitioner = "murmur2"
    key_serializer: Serializer[Any] | None = None
    value_serializer: Serializer[Any] | None = None
    interceptors: tuple[ProducerInterceptor, ...] = ()
    on_delivery: OnDelivery | None = None

    def __post_init__(self) -> None:
        check_types(self)
        one_of("compression", self.compression, get_args(Compression))
        if not callable(self.partitioner):
            one_of("partitioner", self.partitioner, PARTITIONERS)
        check_methods("interceptors", self.interceptors, ("on_send", "on_delivery"))
        if self.acks not in (0, 1, -1, "all") or isinstance(self.acks, bool):
            raise ValueError(f"acks is 0, 1 or 'all', not {self.acks!r}")
        if self.in_flight_max < 1:
            raise ValueError("in_flight_max has to be at least 1")
        if self.idempotent and self.required_acks != -1:
            raise ValueError(f"idempotent needs acks='all', not {self.acks!r}")
        if self.idempotent and self.in_flight_max > IDEMPOTENT_IN_FLIGHT_MAX:
            raise ValueError(
                f"idempotent allows at most {IDEMPOTENT_IN_FLIGHT_MAX} batches in flight, "
                f"not {self.in_flight_max}"
            )
        if self.transactional_id is not None:
            self._check_transactional()
        if self.delivery_timeout_ms < self.linger_ms + self.request_timeout_ms:
            raise ValueError(
                "delivery_timeout_ms has to leave time for linger_ms and one request_timeout_ms"
            )
        if self.batch_bytes > self.memory_bytes_max:
            raise ValueError("memory_bytes_max has to hold at least one batch")

    def _check_transactional(self) -> None:
        """Check that the producer is idempotent: a transaction needs each record exactly once."""
        if not self.transactional_id:
            raise ValueError("a transactional_id has to have at least one character")
        if self.transaction_timeout_ms < 1:
            raise ValueError("transaction_timeout_ms has to be at least 1")
        if not self.is_idempotent:
            raise ValueError(
                "a transactional_id needs an idempotent producer: acks='all', at most "
                f"{IDEMPOTENT_IN_FLIGHT_MAX} batches in flight, and idempotent not switched off"
            )

    @property
    def required_acks(self) -> int:
        """The value in the request: -1 for ``"all"``."""
        return -1 if self.acks == "all" else self.acks

    @property
    def codec(self) -> Codec:
        """The compression as batches encode it."""
        return Codec[self.compression.upper()]

    @property
    def is_idempotent(self) -> bool:
        if self.idempotent is not None:
            return self.idempotent
        return self.required_acks == -1 and self.in_flight_max <= IDEMPOTENT_IN_FLIGHT_MAX

    def limits(self) -> AccumulatorLimits:
        """The limits of the accumulator.

        An idempotent partition sends its first batch alone: a leader that does not know the
        producer accepts any sequence, so a second batch could overtake a first one that was
        refused."""
        return AccumulatorLimits(
            batch_bytes=self.batch_bytes,
            linger_ms=self.linger_ms,
            memory_bytes_max=self.memory_bytes_max,
            request_bytes_max=self.request_bytes_max,
            delivery_timeout_ms=self.delivery_timeout_ms,
            waits_for_progress=self.delivery_waits_for_progress,
            first_window=1 if self.is_idempotent else self.in_flight_max,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig(ClientConfig):
    """The settings of a consumer, and those of every client.

    Args:
        offset_reset: Where to continue if a position is missing or out of range: ``"earliest"``,
            ``"latest"``, or ``"none"`` to raise NoOffset.
        isolation: ``"read_uncommitted"`` or ``"read_committed"``, which hides records of open and
            aborted transactions.
        fetch_wait_ms: How long a broker waits for ``fetch_bytes_min``, in milliseconds.
        fetch_bytes_min: A broker answers a fetch as soon as it has this many bytes.
        fetch_bytes_max: The limit of one fetch response, in bytes.
        partition_bytes_max: How much one fetch asks for of each partition, in bytes. None shares 16
            MiB among the assigned partitions, 1 to 4 MiB for each: few large fetches cost less than
            many small ones.
        batch_bytes_max: The limit of one decompressed batch, in bytes.
        check_crc: Whether to verify the checksum of every batch.
        rack: The consumer's rack, with which it reads from the nearest replica; empty for none.
        group_id: The group's name, needed to subscribe and to commit; None for no group.
        group_instance_id: The static member's id (KIP-345); None for a dynamic member.
        group_protocol: ``"classic"``, or ``"consumer"`` (KIP-848), where the coordinator assigns
            and sets session timeout and heartbeat interval.
        remote_assignor: The coordinator's assignor in the consumer protocol; None for its default.
        assignors: The member's assignors in the classic protocol, preferred first.
        session_timeout_ms: The coordinator removes a member without a heartbeat for this time, in
            milliseconds.
        heartbeat_interval_ms: The time between heartbeats, in milliseconds.
        max_poll_interval_ms: The consumer leaves the group if the application does not poll for
            this time, in milliseconds.
        rebalance_timeout_ms: How long a rebalance waits for this member, in milliseconds; None for
            ``max_poll_interval_ms``.
        auto_commit: Whether to commit returned records automatically.
        auto_commit_interval_ms: The time between automatic commits, in milliseconds.
        key_deserializer: Turns bytes into keys; None to return bytes.
        value_deserializer: Turns bytes into values; None to return bytes.
        interceptors: Hooks that see every returned record and every commit.
    """

    offset_reset: OffsetReset = "latest"
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    fetch_wait_ms: int = 500
    fetch_bytes_min: int = 1
    fetch_bytes_max: int = 50 * 1024 * 1024
    partition_bytes_max: int | None = None
    # Protects against decompression bombs.
    batch_bytes_max: int = 256 * 1024 * 1024
    check_crc: bool = True
    rack: str = ""
    group_id: str | None = None
    group_instance_id: str | None = None
    group_protocol: GroupProtocol = "classic"
    remote_assignor: str | None = None
    assignors: tuple[str, ...] = ("range", "cooperative-sticky")
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    rebalance_timeout_ms: int | None = None
    auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    key_deserializer: Deserializer[Any] | None = None
    value_deserializer: Deserializer[Any] | None = None
    interceptors: tuple[ConsumerInterceptor, ...] = ()

    def __post_init__(self) -> None:
        check_types(self)
        if self.offset_reset not in ("earliest", "latest", "none"):
            raise ValueError(
                f"offset_reset is 'earliest', 'latest' or 'none', not {self.offset_reset!r}"
            )
        check_methods("interceptors", self.interceptors, ("on_consume", "on_commit"))
        if self.partition_bytes_max is not None and self.partition_bytes_max < 1:
            raise ValueError("partition_bytes_max has to be at least 1, or None")
        if self.fetch_wait_ms >= self.request_timeout_ms:
            raise ValueError("fetch_wait_ms has to be below request_timeout_ms")
        self._check_group()

    def _check_group(self) -> None:
        for name in ("group_id", "group_instance_id"):
            if getattr(self, name) == "":
                raise ValueError(f"a {name} has to have at least one character")
        if self.group_instance_id is not None and self.group_id is None:
            raise ValueError("a group_instance_id needs a group_id")
        if self.group_protocol not in ("classic", "consumer"):
            raise ValueError(
                f"group_protocol is 'classic' or 'consumer', not {self.group_protocol!r}"
            )
        if not self.assignors:
            raise ValueError("assignors has to name at least one")
        if self.heartbeat_interval_ms * 3 > self.session_timeout_ms:
            # One or two lost heartbeats must not end the membership.
            raise ValueError("heartbeat_interval_ms is at most a third of session_timeout_ms")
        for name in ("heartbeat_interval_ms", "max_poll_interval_ms", "auto_commit_interval_ms"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} has to be at least 1")
        if self.rebalance_timeout_ms is not None and self.rebalance_timeout_ms < 1:
            raise ValueError("rebalance_timeout_ms has to be at least 1, or None")

    @property
    def effective_rebalance_timeout_ms(self) -> int:
        """How long a rebalance waits for this member."""
        return self.rebalance_timeout_ms or self.max_poll_interval_ms


def parse_addresses(text: str) -> list[Address]:
    """Parse ``host:port,host:port``; the port defaults to 9092, an IPv6 host is in brackets.

    Raises ValueError or TypeError with a sentence."""
    if not isinstance(text, str):
        # Other clients take lists.
        raise TypeError(f"brokers are one text, as 'first:9092,second:9092', not {text!r}")
    addresses = [parse_address(part) for part in text.split(",") if part.strip()]
    if not addresses:
        raise ValueError("no broker address is given; it looks like 127.0.0.1:9092")
    return addresses


def parse_address(text: str) -> Address:
    """Parse one ``host:port``. Raises ValueError with a sentence."""
    text = text.strip()
    if "://" in text:
        raise ValueError(
            f"{text!r} is no broker address: it is given without a protocol, as 127.0.0.1:9092"
        )
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(DEFAULT_PORT)
    elif ":" in host and not host.startswith("["):
        raise ValueError(f"{text!r} is no broker address; an IPv6 host is written in brackets")
    host = host.removeprefix("[").removesuffix("]")
    if any(one.isspace() or one == "/" for one in host):
        raise ValueError(f"{text!r} is no broker address; one looks like 127.0.0.1:9092")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"{text!r} is no broker address; one looks like 127.0.0.1:9092")
    return Address(host, int(port))
