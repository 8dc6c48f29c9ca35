"""What a broker that is not ready yet lets in: the controller, and nobody else.

It must be reachable for the controller, which gives it its partitions. A client that asked it
meanwhile would learn of a cluster without topics; it is sent away, and tries the next broker.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any

from ottla.protocol.apis import ApiKey

if TYPE_CHECKING:
    from ottla.broker.context import Dispatch, Peer, Reply

_OPEN_TO = frozenset(
    {
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.API_VERSIONS,
        ApiKey.CONTROLLED_SHUTDOWN,
    }
)
_key_of = Struct(">h").unpack_from
_KEY_BYTES = 2


def gated(behind: Dispatch) -> Dispatch:
    """The dispatcher with the gate before it, for as long as the broker is starting."""

    def dispatch(peer: Peer, frame: memoryview, reply: Reply) -> Any:
        if len(frame) < _KEY_BYTES or _key_of(frame)[0] not in _OPEN_TO:
            reply.close("the broker is starting")
            return None
        return behind(peer, frame, reply)

    return dispatch
