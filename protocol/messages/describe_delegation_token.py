"""DescribeDelegationToken (key 41), versions 0-3: list delegation tokens (KIP-48).

2 is flexible, 3 tells who asked for each token (KIP-373).
"""

from ottla.protocol.schema import array, blob, int16, int32, int64, message, string, struct


@struct
class DescribeDelegationTokenOwner:
    principal_type: str = string()
    principal_name: str = string()


@message("0-3", flexible="2+")
class DescribeDelegationTokenRequest:
    owners: list[DescribeDelegationTokenOwner] | None = array(
        DescribeDelegationTokenOwner, nullable="0+"
    )


@struct
class DescribedDelegationTokenRenewer:
    principal_type: str = string()
    principal_name: str = string()


@struct
class DescribedDelegationToken:
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp: int = int64()
    expiry_timestamp: int = int64()
    max_timestamp: int = int64()
    token_id: str = string()
    hmac: bytes = blob()
    renewers: list[DescribedDelegationTokenRenewer] = array(DescribedDelegationTokenRenewer)


@message("0-3", flexible="2+")
class DescribeDelegationTokenResponse:
    error_code: int = int16()
    tokens: list[DescribedDelegationToken] = array(DescribedDelegationToken)
    throttle_time_ms: int = int32()
