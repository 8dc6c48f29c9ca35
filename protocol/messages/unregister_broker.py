"""UnregisterBroker (key 64), version 0: forget a broker that will not come back."""

from ottla.protocol.schema import int16, int32, message, string


@message("0", flexible="0+")
class UnregisterBrokerRequest:
    broker_id: int = int32()


@message("0", flexible="0+")
class UnregisterBrokerResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
