"""Heartbeat (key 12), versions 0-4: a member of a group is alive.

1 adds the throttle time, 3 static members (KIP-345), 4 is flexible.
"""

from ottla.protocol.schema import int16, int32, message, string


@message("0-4", flexible="4+")
class HeartbeatRequest:
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None)


@message("0-4", flexible="4+")
class HeartbeatResponse:
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16()
