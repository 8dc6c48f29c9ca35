"""FindCoordinator (key 10), versions 0-6: who coordinates a group or a transaction.

1 adds the kind of key (KIP-98), 3 is flexible, 4 asks for many keys at once (KIP-699), 5 allows
TRANSACTION_ABORTABLE (KIP-890), 6 finds share coordinators (KIP-932).
"""

from ottla.protocol.schema import WireType, array, int8, int16, int32, message, string, struct


@message("0-6", flexible="3+")
class FindCoordinatorRequest:
    key: str = string("0-3")
    key_type: int = int8("1+")
    coordinator_keys: list[str] = array(WireType.STRING, "4+")


@struct
class Coordinator:
    key: str = string("4+")
    node_id: int = int32("4+")
    host: str = string("4+")
    port: int = int32("4+")
    error_code: int = int16("4+")
    error_message: str | None = string("4+", nullable="4+", ignorable=True)


@message("0-6", flexible="3+")
class FindCoordinatorResponse:
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0-3")
    error_message: str | None = string("1-3", nullable="1-3", ignorable=True)
    node_id: int = int32("0-3")
    host: str = string("0-3")
    port: int = int32("0-3")
    coordinators: list[Coordinator] = array(Coordinator, "4+")
