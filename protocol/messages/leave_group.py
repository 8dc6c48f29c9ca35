"""LeaveGroup (key 13), versions 0-5: members leave a group.

1 adds the throttle time, 3 takes many members, static ones too (KIP-345), 4 is flexible, 5 carries
a reason (KIP-800).
"""

from ottla.protocol.schema import array, int16, int32, message, string, struct


@struct
class MemberIdentity:
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    reason: str | None = string("5+", nullable="5+", default=None, ignorable=True)


@message("0-5", flexible="4+")
class LeaveGroupRequest:
    group_id: str = string()
    member_id: str = string("0-2")
    members: list[MemberIdentity] = array(MemberIdentity, "3+")


@struct
class MemberResponse:
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+")
    error_code: int = int16("3+")


@message("0-5", flexible="4+")
class LeaveGroupResponse:
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16()
    members: list[MemberResponse] = array(MemberResponse, "3+")
