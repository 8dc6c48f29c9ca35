"""GetTelemetrySubscriptions (key 71), version 0: which metrics a client is to push (KIP-714)."""

from ottla.protocol.ids import Uuid
from ottla.protocol.schema import WireType, array, boolean, int16, int32, message, uuid


@message("0", flexible="0+")
class GetTelemetrySubscriptionsRequest:
    client_instance_id: Uuid = uuid()


@message("0", flexible="0+")
class GetTelemetrySubscriptionsResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    client_instance_id: Uuid = uuid()
    subscription_id: int = int32()
    accepted_compression_types: list[int] = array(WireType.INT8)
    push_interval_ms: int = int32()
    telemetry_max_bytes: int = int32()
    delta_temporality: bool = boolean()
    requested_metrics: list[str] = array(WireType.STRING)
