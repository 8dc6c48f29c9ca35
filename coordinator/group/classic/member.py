"""One member of a classic group, and the requests of its own that it waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.consumer_protocol import PROTOCOL_TYPE, read_subscription
from ottla.protocol.data_classes import dataclass
from ottla.protocol.errors import RemoteProtocolError
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from ottla.coordinator.effects import Ticket
    from ottla.protocol.messages.join_group import JoinGroupRequest

Protocols = tuple[tuple[str, bytes], ...]
"""Names with the member's metadata for each, most wanted first."""

# What an entry of the group's record takes beside its strings and bytes, generously.
_ENTRY_BYTES = 64


class ParkedJoin(NamedTuple):
    """A JoinGroup that is answered when the round is complete."""

    ticket: Ticket
    api_version: int


@dataclass(slots=True)
class ClassicGroupMember:
    """``is_new``: it has not been told its id yet, so it cannot show any sign of life.

    The session ends at ``session_deadline_ms``; the timer stands at ``armed_ms``, which is never
    later. A heartbeat only moves the former: the timer, when it fires, looks there first."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False
    parked_join: ParkedJoin | None = None
    parked_sync: Ticket | None = None
    session_deadline_ms: float = 0.0
    armed_ms: float = 0.0

    @property
    def size_bytes(self) -> int:
        """What it takes of the group's record without its assignment, whichever protocol wins."""
        names = (self.member_id, self.instance_id or "", self.client_id, self.client_host)
        return entry_bytes(names, self.protocols)

    @property
    def is_static(self) -> bool:
        """Whether it keeps its place over a restart (KIP-345)."""
        return self.instance_id is not None

    @property
    def is_waiting_here(self) -> bool:
        """Whether the coordinator owes it an answer, so that its silence says nothing."""
        return not self.is_new and (self.parked_join is not None or self.parked_sync is not None)

    def metadata(self, protocol_name: str | None) -> bytes:
        """What it sent for that protocol."""
        return next((data for name, data in self.protocols if name == protocol_name), b"")

    def vote(self, candidates: Container[str]) -> str | None:
        """The one it likes best."""
        return next((name for name, _ in self.protocols if name in candidates), None)


def topics_of(protocol_type: str | None, metadata: bytes) -> frozenset[str] | None:
    """What a member subscribes to; None where only the clients understand the metadata."""
    if protocol_type != PROTOCOL_TYPE:
        return None
    try:
        subscription, _version = read_subscription(metadata)
    except RemoteProtocolError:
        return None
    return frozenset(subscription.topics)


def entry_bytes(names: Iterable[str], protocols: Protocols) -> int:
    """What a member with these names and protocols takes of its group's record at most."""
    subscription = max((len(metadata) for _, metadata in protocols), default=0)
    return _ENTRY_BYTES + subscription + sum(len(name.encode()) for name in names)


def protocols_of(request: JoinGroupRequest) -> Protocols:
    """What the member supports."""
    return tuple((one.name, bytes(one.metadata)) for one in request.protocols)


def rebalance_timeout_ms(request: JoinGroupRequest) -> int:
    """Before version 1 the session timeout had to do for both (KIP-62)."""
    if request.rebalance_timeout_ms < 0:
        return request.session_timeout_ms
    return request.rebalance_timeout_ms
