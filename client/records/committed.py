"""Committed positions, and the group member that commits them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.protocol.ids import TopicPartition
    from ottla.wire.errors import RequestRefused


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


def refusal_of(
    results: Mapping[TopicPartition, RequestRefused | None], when_busy: Exception
) -> Exception | None:
    """Why positions were not set by ``admin.groups.commit``.

    Args:
        results: What it has returned.
        when_busy: What to return if the group has members, which alone may commit then.

    Returns:
        The first refusal; None if all positions are set.
    """
    for refused in results.values():
        if refused is not None:
            return when_busy if is_busy(refused) else refused
    return None


def is_busy(refused: RequestRefused) -> bool:
    """Whether the group has members, so that others may not set its positions."""
    return refused.code is ErrorCode.UNKNOWN_MEMBER_ID


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
