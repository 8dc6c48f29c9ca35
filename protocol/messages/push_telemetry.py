"""PushTelemetry (key 72), version 0: metrics of a client in OpenTelemetry's form (KIP-714)."""

from ottla.protocol.ids import Uuid
from ottla.protocol.schema import blob, boolean, int8, int16, int32, message, uuid


@message("0", flexible="0+")
class PushTelemetryRequest:
    client_instance_id: Uuid = uuid()
    subscription_id: int = int32()
    terminating: bool = boolean()
    compression_type: int = int8()
    metrics: bytes = blob()


@message("0", flexible="0+")
class PushTelemetryResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
