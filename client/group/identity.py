"""Identifies a member of a consumer group to its coordinator. Pure."""

from __future__ import annotations

from ottla.protocol.named_tuples import NamedTuple

# What a client without a generation, or without a member id, sends to the coordinator.
NO_GENERATION = -1
NO_MEMBER = ""


class GroupIdentity(NamedTuple):
    """What fences a commit: all of it must match what the coordinator has at that moment (G-02).

    ``generation`` is the member epoch in groups of the newer protocol (KIP-848)."""

    group_id: str
    member_id: str = NO_MEMBER
    generation: int = NO_GENERATION
    instance_id: str | None = None

    @property
    def is_member(self) -> bool:
        """Whether the coordinator knows it; otherwise it may commit in an empty group only."""
        return bool(self.member_id) and self.generation > NO_GENERATION
