"""SyncGroup (key 14), versions 0-5: hand out and receive a generation's assignment.

1 adds the throttle time, 3 static members (KIP-345), 4 is flexible, 5 checks the protocol
(KIP-559).
"""

from ottla.protocol.schema import array, blob, int16, int32, message, string, struct


@struct
class SyncGroupRequestAssignment:
    member_id: str = string()
    assignment: bytes = blob()


@message("0-5", flexible="4+")
class SyncGroupRequest:
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    protocol_type: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment)


@message("0-5", flexible="4+")
class SyncGroupResponse:
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16()
    protocol_type: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    assignment: bytes = blob()
