"""CreateAcls (key 30), versions 0-3: add access rules (KIP-140).

1 adds prefixed patterns (KIP-290), 2 is flexible, 3 adds users as resources (KIP-373).
"""

from ottla.protocol.schema import array, int8, int16, int32, message, string, struct


@struct
class AclCreation:
    resource_type: int = int8()
    resource_name: str = string()
    resource_pattern_type: int = int8("1+", default=3)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@message("0-3", flexible="2+")
class CreateAclsRequest:
    creations: list[AclCreation] = array(AclCreation)


@struct
class AclCreationResult:
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


@message("0-3", flexible="2+")
class CreateAclsResponse:
    throttle_time_ms: int = int32()
    results: list[AclCreationResult] = array(AclCreationResult)
