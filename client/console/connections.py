"""Connections to the cluster, as the console's own user or as the visitor."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from ottla.client.admin import Admin
from ottla.client.console.recordings import RecordingPlaces, Recordings
from ottla.client.consumer import Consumer
from ottla.client.producer import Producer
from ottla.client.settings.config import ClientConfig, ConsumerConfig, Isolation, ProducerConfig
from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.errors import ClientClosed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.client.cluster.metadata import TopicView
    from ottla.client.console.record_runs import Decode
    from ottla.client.process.environment import Environment

    Config = TypeVar("Config", bound=ClientConfig)

CLIENT_ID = "ottla-console"
# Pages of one visitor within this time share one list of topics.
TOPICS_AGE_MS_MAX = 2_000.0
CALL_TIMEOUT_MS = 15_000
REQUEST_TIMEOUT_MS = 10_000
CONNECT_TIMEOUT_MS = 5_000
FETCH_BYTES_MAX = 4 * 1024 * 1024
PARTITION_BYTES_MAX = 1024 * 1024


class ClusterAccess(NamedTuple):
    """The addresses of a cluster, client settings by Kafka's names, and the environment.

    ``decode`` turns keys and values of a schema registry into JSON; None shows them as they are.
    ``places`` limits the recordings of all visitors together."""

    bootstrap: str
    properties: Mapping[str, str]
    environment: Environment
    decode: Decode | None = None
    places: RecordingPlaces | None = None

    def configured(self, config: Config) -> Config:
        """Apply the settings. Raises ValueError for one that is invalid."""
        return config.with_properties(dict(self.properties), ignore_others=True)


class ConsoleConnection:
    """An admin client that connects at its first use, and clients for records."""

    def __init__(self, access: ClusterAccess) -> None:
        self._access = access
        self._admin: Admin | None = None
        self._starting = asyncio.Lock()
        self._topics: list[TopicView] = []
        self._topics_ms: float | None = None
        self.recordings = Recordings(access.environment.clock, access.places or RecordingPlaces())
        # Set when the visitor has logged out: work in progress must end and not connect again.
        self.is_closed = False

    @property
    def environment(self) -> Environment:
        """Clock, network and random source."""
        return self._access.environment

    @property
    def decode(self) -> Decode | None:
        """Turns keys and values of a schema registry into JSON; None without a registry."""
        return self._access.decode

    async def admin(self) -> Admin:
        """The admin client. Raises ClientError if the cluster cannot be reached, or after
        ``close``."""
        async with self._starting:
            if self.is_closed:
                raise ClientClosed("you have logged out")
            if self._admin is None:
                config = ClientConfig(
                    client_id=CLIENT_ID,
                    call_timeout_ms=CALL_TIMEOUT_MS,
                    request_timeout_ms=REQUEST_TIMEOUT_MS,
                    connect_timeout_ms=CONNECT_TIMEOUT_MS,
                )
                made = Admin(
                    self._access.bootstrap, self._access.configured(config), self.environment
                )
                await made.start()
                self._admin = made
            return self._admin

    async def topics(self, *, fresh: bool = False) -> list[TopicView]:
        """Return all topics by name; the list may be some seconds old."""
        now_ms = self.environment.clock.now_ms()
        is_old = self._topics_ms is None or now_ms - self._topics_ms > TOPICS_AGE_MS_MAX
        if fresh or is_old:
            self._topics = await (await self.admin()).list_topics()
            self._topics_ms = self.environment.clock.now_ms()
        return self._topics

    def forget_topics(self) -> None:
        """Read the topics again at the next use: one was created or changed."""
        self._topics_ms = None

    def drop_old_topics(self) -> None:
        """Free an outdated list of topics: large clusters have large ones."""
        now_ms = self.environment.clock.now_ms()
        if self._topics_ms is not None and now_ms - self._topics_ms > TOPICS_AGE_MS_MAX:
            self._topics, self._topics_ms = [], None

    def consumer(self, *, read_committed: bool) -> Consumer[bytes, bytes]:
        """Return a consumer without a group that is not started yet."""
        config = ConsumerConfig(
            client_id=CLIENT_ID,
            offset_reset="none",
            isolation=Isolation.READ_COMMITTED if read_committed else Isolation.READ_UNCOMMITTED,
            fetch_wait_ms=200,
            fetch_bytes_max=FETCH_BYTES_MAX,
            partition_bytes_max=PARTITION_BYTES_MAX,
            call_timeout_ms=CALL_TIMEOUT_MS,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            connect_timeout_ms=CONNECT_TIMEOUT_MS,
        )
        return Consumer(self._access.bootstrap, self._access.configured(config), self.environment)

    def producer(self) -> Producer[bytes, bytes]:
        """Return a producer that is not started yet."""
        config = ProducerConfig(
            client_id=CLIENT_ID,
            call_timeout_ms=CALL_TIMEOUT_MS,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            connect_timeout_ms=CONNECT_TIMEOUT_MS,
            delivery_timeout_ms=CALL_TIMEOUT_MS,
        )
        return Producer(self._access.bootstrap, self._access.configured(config), self.environment)

    def close(self) -> None:
        """Close the admin client's connections, and end the recordings and live tails."""
        self.is_closed = True
        self.recordings.close()
        if self._admin is not None:
            self._admin.close()
            self._admin = None
