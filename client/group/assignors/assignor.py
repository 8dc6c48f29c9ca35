"""Defines assignors, with which the leader of a classic group divides partitions. Pure.

Every member offers its assignors by name, each with a subscription; the group picks one that all
offer, and only its leader computes. The bytes are those of the consumer protocol, so clients of any
language may share a group. A custom assignor only needs the shape of ``Assignor``.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, Protocol

from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ottla.protocol.ids import TopicPartition

RebalanceProtocol = Literal["eager", "cooperative"]


class GroupDetails(NamedTuple):
    """What a leader knows besides subscriptions; any of it may be missing.

    ``instance_ids`` of the static members. ``racks``: the racks of the replicas, by topic and
    partition number, for assignors that prefer near replicas (KIP-881)."""

    instance_ids: Mapping[str, str] = MappingProxyType({})
    racks: Mapping[str, Sequence[frozenset[str]]] = MappingProxyType({})


NO_DETAILS = GroupDetails()


class Assignor(Protocol):
    """One way to divide partitions; owned by one member, since it may remember its last assignment.

    With an eager assignor all members give up all partitions before they join. With a cooperative
    one they keep them, and a partition that moves is unassigned for one generation (KIP-429)."""

    @property
    def name(self) -> str:
        """What members compare; two different assignors must not share a name."""

    @property
    def protocol(self) -> RebalanceProtocol: ...

    def subscription(
        self,
        topics: Sequence[str],
        owned: Sequence[TopicPartition],
        generation: int,
        rack: str | None,
    ) -> bytes:
        """Return the metadata for JoinGroup. ``generation`` is that of ``owned``, or -1."""

    def assign(
        self,
        members: Mapping[str, bytes],
        partitions: Mapping[str, int],
        details: GroupDetails = NO_DETAILS,
    ) -> dict[str, bytes]:
        """Map members' subscriptions and topics' partition counts to members' assignments.

        Topics that do not exist are missing from ``partitions``. The result has every member."""

    def on_assignment(self, assignment: bytes, generation: int) -> list[TopicPartition]:
        """Read this member's assignment, and remember it if needed. Raises RemoteProtocolError."""
