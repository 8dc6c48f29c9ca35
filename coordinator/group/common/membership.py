"""The interface of a group, classic or consumer, for committed offsets and the shard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from ottla.coordinator.effects import LogRecord, Moment
    from ottla.protocol.errors import ErrorCode


class Group(Protocol):
    """One group in memory."""

    group_id: str

    @property
    def group_type(self) -> str:
        """``classic`` or ``consumer``, as ListGroups 5 writes it."""

    @property
    def state_name(self) -> str:
        """The state's name in ListGroups and in group descriptions."""

    @property
    def protocol_type(self) -> str | None:
        """``consumer``, ``connect`` or another type; None before the first member."""

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, is_transactional: bool
    ) -> ErrorCode:
        """NONE, or the error code if that member may not commit in that generation (KIP-848:
        member epoch). -1 and an empty id: a consumer that assigns partitions itself (G-02).

        An accepted commit extends the member's session."""

    def needs_member_epochs(self, member_id: str) -> bool:
        """Whether that member uses the KIP-848 protocol, which requires OffsetCommit 9 or later."""

    def check_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        """NONE, or the error code for an OffsetFetch 9 with that member and epoch."""

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member consumes the topic, so that its offsets must stay."""

    def check_delete(self) -> ErrorCode:
        """NONE if the group may be deleted; NON_EMPTY_GROUP while it has members."""

    def check_offset_delete(self) -> ErrorCode:
        """NONE if ``is_subscribed`` decides which offsets may be deleted; NON_EMPTY_GROUP if it has
        members with unknown topics, as with Kafka Connect (KIP-496)."""

    def tombstones(self) -> Iterable[LogRecord]:
        """The records that delete the group's own state, without its offsets."""

    @property
    def empty_since_wall_ms(self) -> int | None:
        """Since when the group has no members; None while it has any or rebalances (G-01).

        0 for a group that never had members: each of its offsets expires by its own commit time.
        Also 0 if the log does not have the time."""

    @property
    def has_settled_subscriptions(self) -> bool:
        """Whether it has members, does not rebalance, and ``is_subscribed`` knows all their topics:
        committed offsets of other topics may then expire (KIP-211)."""

    def on_unload(self, error: ErrorCode) -> None:
        """The shard is unloaded: answer all waiting requests of this group with the error."""

    def on_loaded(self, moment: Moment) -> None:
        """All records are read: every session starts from now (G-08)."""

    def on_deadline(self, rest: Hashable) -> None:
        """A deadline of this group is due; ``rest`` is its key without the group id."""


Groups = dict[str, Group]
"""All groups of a shard that have, had or await members; one table for both kinds, because a group
may change its kind while its id stays. A group of which only offsets are known is not in it."""
