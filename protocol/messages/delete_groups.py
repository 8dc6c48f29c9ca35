"""DeleteGroups (key 42), versions 0-3: remove groups without members (KIP-229).

2 is flexible, 3 adds error messages.
"""

from ottla.protocol.schema import WireType, array, int16, int32, message, string, struct


@message("0-3", flexible="2+")
class DeleteGroupsRequest:
    groups_names: list[str] = array(WireType.STRING)


@struct
class DeletableGroupResult:
    group_id: str = string()
    error_code: int = int16()
    error_message: str | None = string("3+", nullable="3+", default=None, ignorable=True)


@message("0-3", flexible="2+")
class DeleteGroupsResponse:
    throttle_time_ms: int = int32()
    results: list[DeletableGroupResult] = array(DeletableGroupResult)
