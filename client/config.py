"""The settings of clients, typed, with Kafka's meanings and its present-day defaults.

Times are in milliseconds and sizes in bytes. A combination that would quietly weaken a promise is
refused when the object is made, not when it hurts.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Literal

from ottla.client.state.accumulator import Limits
from ottla.client.state.backoff import Backoff
from ottla.protocol.ports import Address, SocketOptions
from ottla.protocol.records.compression import Codec

DEFAULT_PORT = 9092
# A broker remembers the last five batches of a producer per partition; a sixth in flight could be
# retried after it was forgotten (hazard T-02).
IDEMPOTENT_IN_FLIGHT_MAX = 5

Acks = Literal[0, 1, -1, "all"]
OffsetReset = Literal["earliest", "latest", "none"]
Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]


class Isolation(IntEnum):
    """Whether records of open and aborted transactions are seen."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionConfig:
    """One connection to one broker."""

    client_id: str = "ottla"
    request_timeout_ms: float = 30_000
    connect_timeout_ms: float = 10_000
    reconnect_backoff: Backoff = field(default_factory=lambda: Backoff(50, 1_000))
    # One batch may exceed any fetch limit (KIP-74), so this leaves room above 50 MiB of fetch.
    response_bytes_max: int = 256 * 1024 * 1024
    socket: SocketOptions = field(default_factory=SocketOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig(ConnectionConfig):
    """A client of a cluster. ``call_timeout_ms`` bounds one call with all its retries."""

    metadata_max_age_ms: float = 300_000
    call_timeout_ms: float = 60_000
    retry_backoff: Backoff = field(default_factory=lambda: Backoff(100, 1_000))
    allow_auto_create: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig(ClientConfig):
    """``idempotent`` None means: wherever the other settings allow it.

    A ``transactional_id`` makes the producer a transactional one, which is idempotent always. The
    coordinator aborts what is open for longer than ``transaction_timeout_ms``."""

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

    def __post_init__(self) -> None:
        if self.acks not in (0, 1, -1, "all"):
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
        """What a transaction holds together has to arrive exactly once first."""
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
        """As it stands in the request: all is -1."""
        return -1 if self.acks == "all" else self.acks

    @property
    def codec(self) -> Codec:
        """The compression as it stands in a batch."""
        return Codec[self.compression.upper()]

    @property
    def is_idempotent(self) -> bool:
        if self.idempotent is not None:
            return self.idempotent
        return self.required_acks == -1 and self.in_flight_max <= IDEMPOTENT_IN_FLIGHT_MAX

    def limits(self) -> Limits:
        """What the accumulator keeps to.

        An idempotent partition sends its very first batch alone: a leader that has never heard of
        the producer takes any sequence, so a second batch could slip in before a refused first."""
        return Limits(
            batch_bytes=self.batch_bytes,
            linger_ms=self.linger_ms,
            memory_bytes_max=self.memory_bytes_max,
            request_bytes_max=self.request_bytes_max,
            delivery_timeout_ms=self.delivery_timeout_ms,
            first_window=1 if self.is_idempotent else self.in_flight_max,
        )


def with_transactions(
    config: ProducerConfig, transactional_id: str | None, timeout_ms: int | None
) -> ProducerConfig:
    """The same settings for a transactional producer; None leaves a setting as it is."""
    changes: dict[str, Any] = {}
    if transactional_id is not None:
        changes["transactional_id"] = transactional_id
    if timeout_ms is not None:
        changes["transaction_timeout_ms"] = timeout_ms
    return replace(config, **changes) if changes else config


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig(ClientConfig):
    """``offset_reset`` says where to go when a position is missing or out of range."""

    offset_reset: OffsetReset = "latest"
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    fetch_wait_ms: int = 500
    fetch_bytes_min: int = 1
    fetch_bytes_max: int = 50 * 1024 * 1024
    partition_bytes_max: int = 1024 * 1024
    # What one batch may grow to when it is decompressed: a bomb ends here.
    batch_bytes_max: int = 256 * 1024 * 1024
    check_crc: bool = True
    rack: str = ""

    def __post_init__(self) -> None:
        if self.offset_reset not in ("earliest", "latest", "none"):
            raise ValueError(
                f"offset_reset is 'earliest', 'latest' or 'none', not {self.offset_reset!r}"
            )
        if self.fetch_wait_ms >= self.request_timeout_ms:
            raise ValueError("fetch_wait_ms has to be below request_timeout_ms")


def parse_addresses(text: str) -> list[Address]:
    """Read ``host:port,host:port``; a missing port is 9092, IPv6 hosts stand in brackets.

    Raises ValueError with a sentence."""
    addresses = [parse_address(part) for part in text.split(",") if part.strip()]
    if not addresses:
        raise ValueError("no broker address is given; it looks like 127.0.0.1:9092")
    return addresses


def parse_address(text: str) -> Address:
    """Read one ``host:port``. Raises ValueError with a sentence."""
    text = text.strip()
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(DEFAULT_PORT)
    elif ":" in host and not host.startswith("["):
        raise ValueError(f"{text!r} is no broker address; an IPv6 host stands in brackets")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"{text!r} is no broker address; one looks like 127.0.0.1:9092")
    return Address(host, int(port))
