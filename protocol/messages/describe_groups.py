"""DescribeGroups (key 15), versions 0-6: state and members of groups.

1 adds the throttle time, 3 authorized operations (KIP-430), 4 static members (KIP-345), 5 is
flexible, 6 answers GROUP_ID_NOT_FOUND with a message (KIP-1043).
"""

from ottla.protocol.schema import (
    WireType,
    array,
    blob,
    boolean,
    int16,
    int32,
    message,
    string,
    struct,
)


@message("0-6", flexible="5+")
class DescribeGroupsRequest:
    groups: list[str] = array(WireType.STRING)
    include_authorized_operations: bool = boolean("3+")


@struct
class DescribedGroupMember:
    member_id: str = string()
    group_instance_id: str | None = string("4+", nullable="4+", default=None, ignorable=True)
    client_id: str = string()
    client_host: str = string()
    member_metadata: bytes = blob()
    member_assignment: bytes = blob()


@struct
class DescribedGroup:
    error_code: int = int16()
    error_message: str | None = string("6+", nullable="6+", default=None)
    group_id: str = string()
    group_state: str = string()
    protocol_type: str = string()
    protocol_data: str = string()
    members: list[DescribedGroupMember] = array(DescribedGroupMember)
    authorized_operations: int = int32("3+", default=-2147483648)


@message("0-6", flexible="5+")
class DescribeGroupsResponse:
    throttle_time_ms: int = int32("1+", ignorable=True)
    groups: list[DescribedGroup] = array(DescribedGroup)
