"""What an assignor is: the leader of a classic group asks one who gets which partition. Pure.

Every member offers the assignors it knows, by name, each with a subscription; the group takes one
that all offer, and its leader alone computes. The bytes are those of the consumer protocol, so
clients of any language may be in one group. Own assignors only need the shape of ``Assignor``.
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
    """What a leader knows beside subscriptions; all of it may be missing.

    ``instance_ids`` of the static members. ``racks``: per topic and partition number the racks of
    its replicas, for assignors that keep reading near (KIP-881)."""

    instance_ids: Mapping[str, str] = MappingProxyType({})
    racks: Mapping[str, Sequence[frozenset[str]]] = MappingProxyType({})


NO_DETAILS = GroupDetails()


class Assignor(Protocol):
    """One way to divide partitions; it belongs to one member, since it may remember what it had.

    An eager one needs everybody to have given up everything before they join; with a cooperative
    one they keep what they have, and what moves is free for one generation (KIP-429)."""

    @property
    def name(self) -> str:
        """What members compare; never two ways under one name."""

    @property
    def protocol(self) -> RebalanceProtocol: ...

    def subscription(
        self,
        topics: Sequence[str],
        owned: Sequence[TopicPartition],
        generation: int,
        rack: str | None,
    ) -> bytes:
        """The metadata of a JoinGroup request. ``generation`` is that of ``owned``, or -1."""

    def assign(
        self,
        members: Mapping[str, bytes],
        partitions: Mapping[str, int],
        details: GroupDetails = NO_DETAILS,
    ) -> dict[str, bytes]:
        """Members' subscriptions and topics' partition counts to members' assignments.

        Topics that do not exist are left out of ``partitions``. The answer has every member."""

    def on_assignment(self, assignment: bytes, generation: int) -> list[TopicPartition]:
        """Read what this member was given in that generation, and remember it if need be.

        Raises RemoteProtocolError."""
