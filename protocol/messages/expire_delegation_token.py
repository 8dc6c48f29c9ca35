"""ExpireDelegationToken (key 40), versions 0-2: end a delegation token (KIP-48).

2 is flexible.
"""

from ottla.protocol.schema import blob, int16, int32, int64, message


@message("0-2", flexible="2+")
class ExpireDelegationTokenRequest:
    hmac: bytes = blob()
    expiry_time_period_ms: int = int64()


@message("0-2", flexible="2+")
class ExpireDelegationTokenResponse:
    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()
