"""Committed positions, and the group member that commits them. Pure."""

from __future__ import annotations

from ottla.protocol.named_tuples import NamedTuple


class Committed(NamedTuple):
    """A position: the next record to be read, and what was stored with it."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class ConsumerGroupMetadata(NamedTuple):
    """Who commits offsets of a group: with more than the group's name the group's coordinator
    refuses a member whose partitions have been given to another (KIP-447, hazard T-22).

    ``generation_id`` is the member epoch in groups of the newer protocol."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None

    @property
    def names_a_member(self) -> bool:
        """Whether there is more to it than the group's name."""
        return self != ConsumerGroupMetadata(self.group_id)
