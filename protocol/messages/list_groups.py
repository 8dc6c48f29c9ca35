"""ListGroups (key 16), versions 0-5: the groups this broker coordinates.

1 adds the throttle time, 3 is flexible, 4 filters by state (KIP-518), 5 by type (KIP-848).
"""

from ottla.protocol.schema import WireType, array, int16, int32, message, string, struct


@message("0-5", flexible="3+")
class ListGroupsRequest:
    states_filter: list[str] = array(WireType.STRING, "4+")
    types_filter: list[str] = array(WireType.STRING, "5+")


@struct
class ListedGroup:
    group_id: str = string()
    protocol_type: str = string()
    group_state: str = string("4+", ignorable=True)
    group_type: str = string("5+", ignorable=True)


@message("0-5", flexible="3+")
class ListGroupsResponse:
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16()
    groups: list[ListedGroup] = array(ListedGroup)
