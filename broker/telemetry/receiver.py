"""Receives metrics that clients push: subscriptions, client instances and figures (KIP-714)."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

from ottla.broker.telemetry.demands import ClientIdentity, demand_of
from ottla.broker.telemetry.instances import ClientInstance, ClientInstances
from ottla.broker.telemetry.otlp_metrics import read_metrics
from ottla.broker.telemetry.series import ClientSeries
from ottla.coordinator.configs.client_metrics import metrics_subscription
from ottla.coordinator.configs.definitions import BadValue
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.ids import ZERO_UUID, is_usable_uuid
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.records.compression import Codec, decompress

if TYPE_CHECKING:
    from ottla.broker.engine.context import ClientPeer, RequestContext
    from ottla.broker.metadata.metadata import MetadataCache
    from ottla.coordinator.configs.client_metrics import MetricsSubscription
    from ottla.coordinator.metadata.delta import MetadataDelta
    from ottla.protocol.ids import Uuid
    from ottla.protocol.messages.push_telemetry import PushTelemetryRequest
    from ottla.protocol.ports import Clock, Random

logger = logging.getLogger("ottla.telemetry")

CLIENT_METRICS = "client-metrics"
ACCEPTED_CODECS = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)
# Maximum ratio of a push's decompressed size to its size on the wire.
_RATIO_MAX = 10
_EXPIRE_EVERY_MS = 10_000
# A connection id is host:port of the broker, host:port of the client, and a number.
_PEER_PORT = re.compile(r":(\d+)-[^:]*$")


class _Software(NamedTuple):
    name: str = ""
    version: str = ""


class ClientTelemetry:
    """Owned by the server; absent if ``ottla.client.telemetry`` is false.

    ``max_bytes``: the largest push on the wire (``telemetry.max.bytes``)."""

    def __init__(
        self, metadata: MetadataCache, clock: Clock, random: Random, max_bytes: int
    ) -> None:
        self._metadata = metadata
        self._clock = clock
        self._random = random
        self.max_bytes = max_bytes
        self._series = ClientSeries()
        self._instances = ClientInstances(self._series.forget)
        self._subscriptions: dict[str, MetricsSubscription] = {}
        self._revision = 0
        self._software: dict[str, _Software] = {}
        self._expired_ms = 0.0
        self.push_count = 0
        self.refusal_count = 0
        for entity_type, name in metadata.image.configs:
            self._follow(entity_type, name)
        metadata.subscribe(self._on_metadata)

    def on_software(self, peer: ClientPeer, name: str, version: str) -> None:
        """A connection has sent name and version of the client's software (KIP-511)."""
        if peer.connection_id not in self._software:
            peer.on_close(lambda: self._software.pop(peer.connection_id, None))
        if not peer.closed:
            self._software[peer.connection_id] = _Software(name, version)

    def subscribe(self, context: RequestContext, instance_id: Uuid) -> ClientInstance:
        """Return the client with its requested metrics; a zero id gets a new one. Raises
        KafkaError."""
        if instance_id == ZERO_UUID:
            instance_id = self._new_id()
        instance = self._instance(context, instance_id)
        try:
            instance.ask(self._clock.now_ms())
        except KafkaError:
            self.refusal_count += 1
            raise
        return instance

    def push(self, context: RequestContext, request: PushTelemetryRequest) -> None:
        """Take in one push. Raises KafkaError."""
        if not is_usable_uuid(request.client_instance_id):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the client instance id is not usable")
        instance = self._instance(context, request.client_instance_id)
        try:
            self._take(instance, request)
        except KafkaError as error:
            instance.last_error = error.code
            self.refusal_count += 1
            raise

    def names(self) -> list[str]:
        """The names of all subscriptions, sorted."""
        return sorted(self._subscriptions)

    def current_series(self) -> ClientSeries:
        """What the clients that are there have pushed."""
        self._expire(self._clock.now_ms())
        return self._series

    @property
    def client_count(self) -> int:
        return len(self._instances)

    def _take(self, instance: ClientInstance, request: PushTelemetryRequest) -> None:
        instance.push(
            self._clock.now_ms(), request.subscription_id, terminating=request.terminating
        )
        kind = request.compression_type
        if kind != Codec.NONE and kind not in ACCEPTED_CODECS:
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        if len(request.metrics) > self.max_bytes:
            raise KafkaError(ErrorCode.TELEMETRY_TOO_LARGE)
        if request.metrics:
            self._series.take(instance.identity, read_metrics(self._unpacked(kind, request)))
        self.push_count += 1

    def _unpacked(self, kind: int, request: PushTelemetryRequest) -> bytes:
        try:
            return decompress(Codec(kind), request.metrics, _RATIO_MAX * self.max_bytes)
        except KafkaError as error:
            if error.code is ErrorCode.MESSAGE_TOO_LARGE:
                raise KafkaError(ErrorCode.TELEMETRY_TOO_LARGE) from error
            raise KafkaError(ErrorCode.INVALID_RECORD, error.message) from error

    def _instance(self, context: RequestContext, instance_id: Uuid) -> ClientInstance:
        self._expire(self._clock.now_ms())
        found = self._instances.get(instance_id)
        if found is None:
            identity = self._identity(context, instance_id)
            demand = demand_of(self._subscriptions.values(), identity)
            found = ClientInstance(identity, demand, self._revision)
            self._instances.add(found)
        elif found.revision != self._revision:
            found.demand = demand_of(self._subscriptions.values(), found.identity)
            found.revision = self._revision
        return found

    def _identity(self, context: RequestContext, instance_id: Uuid) -> ClientIdentity:
        software = self._software.get(context.peer.connection_id, _Software())
        return ClientIdentity(
            instance_id,
            context.client_id,
            software.name,
            software.version,
            context.client_host,
            _source_port(context.peer.connection_id),
        )

    def _new_id(self) -> Uuid:
        while True:
            made = self._random.token(16)
            if is_usable_uuid(made):
                return made

    def _expire(self, now_ms: float) -> None:
        if now_ms - self._expired_ms >= _EXPIRE_EVERY_MS:
            self._expired_ms = now_ms
            self._instances.expire(now_ms)

    def _on_metadata(self, delta: MetadataDelta) -> None:
        for entity_type, name in delta.configs:
            self._follow(entity_type, name)

    def _follow(self, entity_type: str, name: str) -> None:
        if entity_type != CLIENT_METRICS:
            return
        values = self._metadata.config(CLIENT_METRICS, name)
        self._revision += 1
        self._subscriptions.pop(name, None)
        try:
            if values:
                self._subscriptions[name] = metrics_subscription(values)
        except BadValue as error:
            logger.warning("the client metrics subscription %s is ignored: %s", name, error)


def _source_port(connection_id: str) -> str:
    found = _PEER_PORT.search(connection_id)
    return found[1] if found is not None else ""
