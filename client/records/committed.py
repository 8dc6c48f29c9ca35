"""Committed positions, and the group member that commits them. Pure."""

from __future__ import annotations

from ottla.protocol.named_tuples import NamedTuple


class Committed(NamedTuple):
    """A committed position.

    Attributes:
        offset: The offset of the next record to read.
        leader_epoch: The leader epoch of the last record read; -1 if unknown.
        metadata: A text that is stored with the position.
    """

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class ConsumerGroupMetadata(NamedTuple):
    """The identity of a member that commits offsets.

    With more than the group's name, the coordinator refuses a member whose partitions have been
    given to another member (KIP-447, hazard T-22).

    Attributes:
        group_id: The group's name.
        generation_id: The generation, or the member epoch in groups of the consumer protocol; -1
            for none.
        member_id: The member's id; empty for none.
        group_instance_id: The static member's id (KIP-345); None for none.
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None

    @property
    def names_a_member(self) -> bool:
        """Whether it holds more than the group's name."""
        return self != ConsumerGroupMetadata(self.group_id)
