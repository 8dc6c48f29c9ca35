"""What committed offsets and the shard ask of a group, whichever kind it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from ottla.coordinator.effects import LogRecord, Moment
    from ottla.protocol.errors import ErrorCode


class Group(Protocol):
    """One group, alive in memory."""

    group_id: str

    @property
    def group_type(self) -> str:
        """``classic`` or ``consumer``, as ListGroups 5 writes it."""

    @property
    def state_name(self) -> str:
        """As Kafka writes it in ListGroups and the descriptions."""

    @property
    def protocol_type(self) -> str | None:
        """What the members do together: ``consumer``, ``connect``; None before the first one."""

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, is_transactional: bool
    ) -> ErrorCode:
        """Whether that member may commit in that generation (KIP-848: member epoch); -1 and an
        empty id is an application that assigns by itself. NONE or the code to answer (G-02).

        A commit that is let through counts as a sign of life."""

    def needs_member_epochs(self, member_id: str) -> bool:
        """Whether that is a member of the KIP-848 protocol, which has to commit with OffsetCommit 9
        or later."""

    def check_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        """Whether OffsetFetch 9 with that member and epoch may be answered."""

    def is_subscribed(self, topic: str) -> bool:
        """Whether a living member consumes the topic, so that its offsets must stay."""

    def check_delete(self) -> ErrorCode:
        """NONE where the group may be deleted: NON_EMPTY_GROUP while somebody is in it."""

    def check_offset_delete(self) -> ErrorCode:
        """NONE where ``is_subscribed`` tells which offsets may go; NON_EMPTY_GROUP where members
        are there whose topics nobody knows, as with Kafka Connect (KIP-496)."""

    def tombstones(self) -> Iterable[LogRecord]:
        """The records that delete the group's own state (its offsets not among them)."""

    @property
    def empty_since_wall_ms(self) -> int | None:
        """Since when nobody is in it; None while somebody is, or a rebalance goes on (G-01).

        0 for a group that never had members, a simple one: each of its offsets counts from its
        own commit. So it may be wherever the log does not tell."""

    @property
    def has_settled_subscriptions(self) -> bool:
        """Whether members are there, no rebalance goes on, and ``is_subscribed`` knows all their
        topics: committed offsets of other topics may then expire (KIP-211)."""

    def on_unload(self, error: ErrorCode) -> None:
        """The shard ends here: answer everybody who waits in this group."""

    def on_loaded(self, moment: Moment) -> None:
        """All records are read: every session starts anew from now (G-08)."""

    def on_deadline(self, rest: Hashable) -> None:
        """A deadline of this group has come; ``rest`` is its key without the group id."""


Groups = dict[str, Group]
"""All groups of a shard that have, had or await members; one table for both kinds, because a group
may change its kind while its id stays. A group of which only offsets are known is not in it."""
