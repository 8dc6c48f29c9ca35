"""CreateDelegationToken (key 38), versions 0-3: make a delegation token (KIP-48).

2 is flexible, 3 makes tokens for others (KIP-373).
"""

from ottla.protocol.schema import array, blob, int16, int32, int64, message, string, struct


@struct
class CreatableRenewers:
    principal_type: str = string()
    principal_name: str = string()


@message("0-3", flexible="2+")
class CreateDelegationTokenRequest:
    owner_principal_type: str | None = string("3+", nullable="3+")
    owner_principal_name: str | None = string("3+", nullable="3+")
    renewers: list[CreatableRenewers] = array(CreatableRenewers)
    max_lifetime_ms: int = int64()


@message("0-3", flexible="2+")
class CreateDelegationTokenResponse:
    error_code: int = int16()
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp_ms: int = int64()
    expiry_timestamp_ms: int = int64()
    max_timestamp_ms: int = int64()
    token_id: str = string()
    hmac: bytes = blob()
    throttle_time_ms: int = int32()
