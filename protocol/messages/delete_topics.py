"""DeleteTopics (key 20), versions 0-6: remove topics.

1 adds the throttle time, 4 is flexible, 5 has error messages and may be throttled (KIP-599), 6
takes topic ids (KIP-516).
"""

from ottla.protocol.ids import Uuid
from ottla.protocol.schema import WireType, array, int16, int32, message, string, struct, uuid


@struct
class DeleteTopicState:
    name: str | None = string("6+", nullable="6+", default=None)
    topic_id: Uuid = uuid("6+")


@message("0-6", flexible="4+")
class DeleteTopicsRequest:
    topics: list[DeleteTopicState] = array(DeleteTopicState, "6+")
    topic_names: list[str] = array(WireType.STRING, "0-5", ignorable=True)
    timeout_ms: int = int32()


@struct
class DeletableTopicResult:
    name: str | None = string(nullable="6+")
    topic_id: Uuid = uuid("6+", ignorable=True)
    error_code: int = int16()
    error_message: str | None = string("5+", nullable="5+", default=None, ignorable=True)


@message("0-6", flexible="4+")
class DeleteTopicsResponse:
    throttle_time_ms: int = int32("1+", ignorable=True)
    responses: list[DeletableTopicResult] = array(DeletableTopicResult)
