"""The settings of the classic producer, by the names of 0.7 and of 0.8. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.client.classic.plug_ins import (
    CallbackHandler,
    DefaultEncoder,
    DefaultPartitioner,
    EventHandler,
    plug_in,
)
from ottla.client.classic.reading_settings import (
    anything,
    choice,
    keys,
    number,
    positive,
    read_settings,
    text,
)
from ottla.client.classic.store_login import NO_LOGIN, STORE_KEYS, StoreLogin, take_login
from ottla.client.settings.config import parse_address
from ottla.protocol.data_classes import dataclass
from ottla.protocol.records.compression import Codec
from ottla.wire.security import PLAINTEXT, ConnectionSecurity

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Self

    from ottla.protocol.ports import Address

SYNC, ASYNC = "sync", "async"
CODECS = {
    "0": Codec.NONE,
    "none": Codec.NONE,
    "1": Codec.GZIP,
    "gzip": Codec.GZIP,
    "2": Codec.SNAPPY,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
}
ACKS = {"0": 0, "1": 1, "-1": -1, "all": -1}


def broker_list(name: str, value: object) -> tuple[Address, ...]:
    """Parse ``host:port,host:port``; each may have the id of 0.7 before it: ``0:host:port``."""
    parts = [part.strip() for part in text(name, value).split(",") if part.strip()]
    return tuple(parse_address(_without_id(part)) for part in parts)


def _without_id(part: str) -> str:
    first, _, rest = part.partition(":")
    return rest if first.isdigit() and ":" in rest and not part.startswith("[") else part


def codec(name: str, value: object) -> Codec:
    """Parse a codec, by 0.7's number or by name."""
    found = CODECS.get(str(value).lower())
    if found is None:
        raise ValueError(f"{name} is one of {', '.join(CODECS)}, not {value!r}")
    return found


def acks(name: str, value: object) -> int:
    """Parse 0, 1 or -1."""
    found = ACKS.get(str(value).lower())
    if found is None:
        raise ValueError(f"{name} is one of {', '.join(ACKS)}, not {value!r}")
    return found


KEYS = {
    **STORE_KEYS,
    **keys("zookeeper_connect", text, "zk.connect", "zookeeper.connect"),
    **keys("brokers", broker_list, "broker.list", "metadata.broker.list"),
    **keys("kind", choice(SYNC, ASYNC), "producer.type"),
    **keys("encoder", plug_in, "serializer.class"),
    **keys("partitioner", plug_in, "partitioner.class"),
    **keys("event_handler", plug_in, "event.handler"),
    **keys("callback_handler", plug_in, "callback.handler"),
    **keys("queue_time_ms", positive, "queue.time", "queue.buffering.max.ms"),
    **keys("batch_size", positive, "batch.size", "batch.num.messages"),
    **keys("queue_size", positive, "queue.size", "queue.buffering.max.messages"),
    **keys("enqueue_timeout_ms", number, "queue.enqueueTimeout.ms", "queue.enqueue.timeout.ms"),
    **keys("codec", codec, "compression.codec"),
    **keys("acks", acks, "request.required.acks"),
    **keys("timeout_ms", positive, "request.timeout.ms", "socket.timeout.ms"),
    **keys("connect_timeout_ms", positive, "connect.timeout.ms"),
    **keys("retries", number, "message.send.max.retries", "num.retries"),
    **keys("backoff_ms", positive, "retry.backoff.ms"),
    **keys("client_id", text, "client.id"),
    **keys("session_timeout_ms", positive, "zk.sessiontimeout.ms", "zookeeper.session.timeout.ms"),
    **keys(
        "connection_timeout_ms",
        positive,
        "zk.connectiontimeout.ms",
        "zookeeper.connection.timeout.ms",
    ),
    **keys(
        None,
        anything,
        "buffer.size",
        "send.buffer.bytes",
        "reconnect.interval",
        "max.message.size",
        "compressed.topics",
        "zk.read.num.retries",
        "topic.metadata.refresh.interval.ms",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicProducerConfig:
    """The settings; either ZooKeeper or a broker list is given."""

    zookeeper_connect: str | None = None
    brokers: tuple[Address, ...] = ()
    kind: str = SYNC
    encoder: Callable[[], Any] = DefaultEncoder
    partitioner: Callable[[], Any] = DefaultPartitioner
    event_handler: Callable[[], Any] = EventHandler
    callback_handler: Callable[[], Any] = CallbackHandler
    queue_time_ms: int = 5_000
    batch_size: int = 200
    queue_size: int = 10_000
    enqueue_timeout_ms: int = -1
    codec: Codec = Codec.NONE
    acks: int = 1
    timeout_ms: int = 10_000
    connect_timeout_ms: int = 5_000
    retries: int = 3
    backoff_ms: int = 100
    client_id: str = "ottla-classic"
    session_timeout_ms: int = 6_000
    connection_timeout_ms: int | None = None
    security: ConnectionSecurity = PLAINTEXT
    store_login: StoreLogin = NO_LOGIN

    @classmethod
    def read(cls, properties: Mapping[str, object]) -> Self:
        """Settings by the documents' names. Raises ValueError."""
        found = read_settings(properties, KEYS)
        login = take_login(found)
        config = cls(**found, store_login=login)
        if (config.zookeeper_connect is None) is (not config.brokers):
            raise ValueError(
                "a producer has zk.connect, to find the brokers in ZooKeeper, or broker.list with "
                "their addresses: give one of the two"
            )
        return config
