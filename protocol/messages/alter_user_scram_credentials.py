"""AlterUserScramCredentials (key 51), version 0: set and remove SCRAM credentials (KIP-554).

Flexible from the start.
"""

from ottla.protocol.schema import array, blob, int8, int16, int32, message, string, struct


@struct
class ScramCredentialDeletion:
    name: str = string()
    mechanism: int = int8()


@struct
class ScramCredentialUpsertion:
    name: str = string()
    mechanism: int = int8()
    iterations: int = int32()
    salt: bytes = blob()
    salted_password: bytes = blob()


@message("0", flexible="0+")
class AlterUserScramCredentialsRequest:
    deletions: list[ScramCredentialDeletion] = array(ScramCredentialDeletion)
    upsertions: list[ScramCredentialUpsertion] = array(ScramCredentialUpsertion)


@struct
class AlterUserScramCredentialsResult:
    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


@message("0", flexible="0+")
class AlterUserScramCredentialsResponse:
    throttle_time_ms: int = int32()
    results: list[AlterUserScramCredentialsResult] = array(AlterUserScramCredentialsResult)
