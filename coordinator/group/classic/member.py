"""One member of a classic group and its parked requests."""

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

# Upper bound of what a member's entry takes in the record beside its strings and bytes.
_ENTRY_BYTES = 64


class ParkedJoin(NamedTuple):
    """A JoinGroup request that is answered when the rebalance completes."""

    ticket: Ticket
    api_version: int


@dataclass(slots=True)
class ClassicGroupMember:
    """A member; ``is_new``: it does not know its id yet, so it cannot send heartbeats.

    The session ends at ``session_deadline_ms``; its timer is set to ``armed_ms``, never later.
    A heartbeat moves only the deadline; the timer checks it when it fires."""

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
        """Its largest share of the group's record in bytes, without its assignment."""
        names = (self.member_id, self.instance_id or "", self.client_id, self.client_host)
        return entry_bytes(names, self.protocols)

    @property
    def is_static(self) -> bool:
        """Whether it keeps its membership across a restart (KIP-345)."""
        return self.instance_id is not None

    @property
    def is_waiting_here(self) -> bool:
        """Whether it waits for a response: silence then does not mean that it is gone."""
        assert self.parked_join is None or self.parked_sync is None, "it asks one thing at a time"
        return not self.is_new and (self.parked_join is not None or self.parked_sync is not None)

    def metadata(self, protocol_name: str | None) -> bytes:
        """Its metadata for that protocol; empty if it does not support it."""
        return next((data for name, data in self.protocols if name == protocol_name), b"")

    def vote(self, candidates: Container[str]) -> str | None:
        """The candidate that it prefers; None if it supports none."""
        return next((name for name, _ in self.protocols if name in candidates), None)


def topics_of(protocol_type: str | None, metadata: bytes) -> frozenset[str] | None:
    """The topics a member subscribes to; None if only clients can decode the metadata."""
    if protocol_type != PROTOCOL_TYPE:
        return None
    try:
        subscription, _version = read_subscription(metadata)
    except RemoteProtocolError:
        return None
    return frozenset(subscription.topics)


def entry_bytes(names: Iterable[str], protocols: Protocols) -> int:
    """The largest size in bytes of a member's entry in the group's record."""
    subscription = max((len(metadata) for _, metadata in protocols), default=0)
    return _ENTRY_BYTES + subscription + sum(len(name.encode()) for name in names)


def protocols_of(request: JoinGroupRequest) -> Protocols:
    """The protocols that the member supports, in its order of preference."""
    return tuple((one.name, bytes(one.metadata)) for one in request.protocols)


def rebalance_timeout_ms(request: JoinGroupRequest) -> int:
    """Its rebalance timeout; before version 1 the session timeout serves as both (KIP-62)."""
    if request.rebalance_timeout_ms < 0:
        return request.session_timeout_ms
    return request.rebalance_timeout_ms
