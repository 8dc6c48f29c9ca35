"""DeleteAcls (key 31), versions 0-3: remove the access rules that match (KIP-140).

1 adds prefixed patterns (KIP-290), 2 is flexible, 3 adds users as resources (KIP-373).
"""

from ottla.protocol.schema import array, int8, int16, int32, message, string, struct


@struct
class DeleteAclsFilter:
    resource_type_filter: int = int8()
    resource_name_filter: str | None = string(nullable="0+")
    pattern_type_filter: int = int8("1+", default=3)
    principal_filter: str | None = string(nullable="0+")
    host_filter: str | None = string(nullable="0+")
    operation: int = int8()
    permission_type: int = int8()


@message("0-3", flexible="2+")
class DeleteAclsRequest:
    filters: list[DeleteAclsFilter] = array(DeleteAclsFilter)


@struct
class DeleteAclsMatchingAcl:
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8("1+", default=3)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@struct
class DeleteAclsFilterResult:
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    matching_acls: list[DeleteAclsMatchingAcl] = array(DeleteAclsMatchingAcl)


@message("0-3", flexible="2+")
class DeleteAclsResponse:
    throttle_time_ms: int = int32()
    filter_results: list[DeleteAclsFilterResult] = array(DeleteAclsFilterResult)
