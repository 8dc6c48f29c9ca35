"""The settings of the classic consumer, by the names of 0.7 and of 0.8. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.client.classic.reading_settings import (
    anything,
    choice,
    keys,
    number,
    positive,
    read_settings,
    switch,
    text,
)
from ottla.client.classic.registry.layout import RegistryLayout
from ottla.client.classic.store_login import NO_LOGIN, STORE_KEYS, StoreLogin, take_login
from ottla.protocol.data_classes import dataclass
from ottla.wire.security import PLAINTEXT, ConnectionSecurity

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

SMALLEST, LARGEST = "smallest", "largest"
KAFKA, ZOOKEEPER = "kafka", "zookeeper"
NO_STORE = (
    "zookeeper.connect is missing: this API keeps its groups in ZooKeeper. A cluster that runs on "
    "its embedded store has none; there ottla.sync.Consumer reads in groups"
)

KEYS = {
    **keys("zookeeper_connect", text, "zookeeper.connect", "zk.connect"),
    **keys("group_id", text, "group.id", "groupid"),
    **keys("consumer_id", text, "consumer.id", "consumerid"),
    **keys("client_id", text, "client.id"),
    **keys("bootstrap", text, "bootstrap.servers", "metadata.broker.list"),
    **keys("session_timeout_ms", positive, "zookeeper.session.timeout.ms", "zk.sessiontimeout.ms"),
    **keys(
        "connection_timeout_ms",
        positive,
        "zookeeper.connection.timeout.ms",
        "zk.connectiontimeout.ms",
    ),
    **keys("sync_time_ms", positive, "zookeeper.sync.time.ms", "zk.synctime.ms"),
    **keys("auto_commit", switch, "auto.commit.enable", "autocommit.enable"),
    **keys(
        "auto_commit_interval_ms", positive, "auto.commit.interval.ms", "autocommit.interval.ms"
    ),
    **keys("offset_reset", text, "auto.offset.reset", "autooffset.reset"),
    **keys("consumer_timeout_ms", number, "consumer.timeout.ms"),
    **keys("queued_chunks_max", positive, "queued.max.message.chunks", "queuedchunks.max"),
    **keys("rebalance_retries_max", number, "rebalance.max.retries", "rebalance.retries.max"),
    **keys("rebalance_backoff_ms", positive, "rebalance.backoff.ms"),
    **keys("fetch_bytes", positive, "fetch.message.max.bytes", "fetch.size"),
    **keys("fetch_bytes_min", positive, "fetch.min.bytes"),
    **keys("fetch_wait_ms", number, "fetch.wait.max.ms"),
    **keys("socket_timeout_ms", positive, "socket.timeout.ms"),
    **keys("offsets_storage", choice(KAFKA, ZOOKEEPER), "offsets.storage"),
    **keys("dual_commit", switch, "dual.commit.enabled"),
    **keys("excludes_internal", switch, "exclude.internal.topics"),
    **STORE_KEYS,
    **keys("layout", choice("0.7", "0.8"), "zookeeper.layout"),
    # Without effect: Ottla has no such buffers, metrics and threads.
    **keys(
        None,
        anything,
        "socket.receive.buffer.bytes",
        "socket.buffersize",
        "num.consumer.fetchers",
        "refresh.leader.backoff.ms",
        "fetcher.backoff.ms",
        "partition.assignment.strategy",
        "mirror.topics.whitelist",
        "mirror.topics.blacklist",
        "offsets.channel.backoff.ms",
        "offsets.channel.socket.timeout.ms",
        "offsets.commit.max.retries",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicConsumerConfig:
    """The settings; the defaults are those of 0.8. ``dual_commit`` None: True with ``kafka``."""

    zookeeper_connect: str
    group_id: str
    consumer_id: str | None = None
    client_id: str | None = None
    bootstrap: str | None = None
    session_timeout_ms: int = 6_000
    connection_timeout_ms: int | None = None
    sync_time_ms: int = 2_000
    auto_commit: bool = True
    auto_commit_interval_ms: int = 60_000
    offset_reset: str = LARGEST
    consumer_timeout_ms: int = -1
    queued_chunks_max: int = 2
    rebalance_retries_max: int = 4
    rebalance_backoff_ms: int | None = None
    fetch_bytes: int = 1024 * 1024
    fetch_bytes_min: int = 1
    fetch_wait_ms: int = 100
    socket_timeout_ms: int = 30_000
    offsets_storage: str = ZOOKEEPER
    dual_commit: bool | None = None
    excludes_internal: bool = True
    layout: str = "0.8"
    security: ConnectionSecurity = PLAINTEXT
    store_login: StoreLogin = NO_LOGIN

    @classmethod
    def read(cls, properties: Mapping[str, object]) -> Self:
        """Settings by the documents' names. Raises ValueError."""
        if not {"zookeeper.connect", "zk.connect"} & properties.keys():
            raise ValueError(NO_STORE)
        found: dict[str, Any] = read_settings(properties, KEYS, ("group_id",))
        login = take_login(found)
        return cls(**found, store_login=login)

    @property
    def is_dual(self) -> bool:
        """Whether offsets are committed to, and read from, both storages."""
        return self.offsets_storage == KAFKA if self.dual_commit is None else self.dual_commit

    @property
    def registry_layout(self) -> RegistryLayout:
        return RegistryLayout(self.layout)
