"""JoinGroup (key 11), versions 0-9: enter a group or its next generation.

1 has a rebalance timeout of its own (KIP-62), 4 first hands out a member id (KIP-394), 5 knows
static members (KIP-345), 6 is flexible, 7 names the protocol type (KIP-559), 8 carries a reason
(KIP-800), 9 lets a returning static leader skip the assignment (KIP-814).
"""

from ottla.protocol.schema import array, blob, boolean, int16, int32, message, string, struct


@struct
class JoinGroupRequestProtocol:
    name: str = string()
    metadata: bytes = blob()


@message("0-9", flexible="6+")
class JoinGroupRequest:
    group_id: str = string()
    session_timeout_ms: int = int32()
    rebalance_timeout_ms: int = int32("1+", default=-1, ignorable=True)
    member_id: str = string()
    group_instance_id: str | None = string("5+", nullable="5+", default=None)
    protocol_type: str = string()
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol)
    reason: str | None = string("8+", nullable="8+", default=None, ignorable=True)


@struct
class JoinGroupResponseMember:
    member_id: str = string()
    group_instance_id: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    metadata: bytes = blob()


@message("0-9", flexible="6+")
class JoinGroupResponse:
    throttle_time_ms: int = int32("2+", ignorable=True)
    error_code: int = int16()
    generation_id: int = int32(default=-1)
    protocol_type: str | None = string("7+", nullable="7+", default=None, ignorable=True)
    protocol_name: str | None = string(nullable="7+")
    leader: str = string()
    skip_assignment: bool = boolean("9+")
    member_id: str = string()
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember)
