"""RenewDelegationToken (key 39), versions 0-2: keep a delegation token for longer (KIP-48).

2 is flexible.
"""

from ottla.protocol.schema import blob, int16, int32, int64, message


@message("0-2", flexible="2+")
class RenewDelegationTokenRequest:
    hmac: bytes = blob()
    renew_period_ms: int = int64()


@message("0-2", flexible="2+")
class RenewDelegationTokenResponse:
    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()
