"""GetTelemetrySubscriptions (71), PushTelemetry (72), versions 0: metrics of clients (KIP-714).

Any client that may connect may push. Brokers without ``ottla.client.telemetry`` do not list these
APIs, and refuse them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from ottla.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from ottla.protocol.records.compression import Codec

if TYPE_CHECKING:
    from ottla.broker.engine.context import RequestContext
    from ottla.broker.handlers.services import Services

# In the order in which a client shall prefer them.
_ACCEPTED = [Codec.ZSTD.value, Codec.LZ4.value, Codec.GZIP.value, Codec.SNAPPY.value]


def get_subscriptions(
    services: Services, context: RequestContext, request: GetTelemetrySubscriptionsRequest
) -> GetTelemetrySubscriptionsResponse:
    """Which metrics the client is to push, and how often."""
    if services.telemetry is None:
        return GetTelemetrySubscriptionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    try:
        instance = services.telemetry.subscribe(context, request.client_instance_id)
    except KafkaError as error:
        return GetTelemetrySubscriptionsResponse(error_code=error.code)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance.identity.instance_id,
        subscription_id=instance.demand.subscription_id,
        accepted_compression_types=list(_ACCEPTED),
        push_interval_ms=instance.demand.interval_ms,
        telemetry_max_bytes=services.telemetry.max_bytes,
        delta_temporality=True,
        requested_metrics=list(instance.demand.metrics),
    )


def push(
    services: Services, context: RequestContext, request: PushTelemetryRequest
) -> PushTelemetryResponse:
    """Take in what the client has measured."""
    if services.telemetry is None:
        return PushTelemetryResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    try:
        services.telemetry.push(context, request)
    except KafkaError as error:
        return PushTelemetryResponse(error_code=error.code)
    return PushTelemetryResponse()
