"""Blocking GroupAdmin: ``client/group/administration.py`` on a shared loop thread.

Written by ``python -m tests.sync_faces``, not by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.sync.face import Face

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from ottla.client.group.administration import GroupAdmin as AsyncGroupAdmin
    from ottla.client.group.requests import GroupListing, GroupView
    from ottla.client.process.loop_thread import LoopThread
    from ottla.client.records.committed import Committed
    from ottla.protocol.ids import TopicPartition
    from ottla.wire.errors import RequestRefused


class GroupAdmin(Face):
    """What an Admin does with groups; every call is about groups that exist in the cluster."""

    def __init__(self, inner: AsyncGroupAdmin, loop: LoopThread) -> None:
        super().__init__(loop)
        self._inner = inner

    def list_all(self, states: Iterable[str] = (), kinds: Iterable[str] = ()) -> list[GroupListing]:
        """All groups, by name, or those in some states or of some kinds ("classic", "consumer")."""
        return self._run(self._inner.list_all(states, kinds))

    def describe(self, group_id: str) -> GroupView:
        """One group."""
        return self._run(self._inner.describe(group_id))

    def offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
    ) -> dict[TopicPartition, Committed]:
        """The group's positions, all or some."""
        return self._run(self._inner.offsets(group_id, partitions, require_stable=require_stable))

    def commit(
        self, group_id: str, offsets: Mapping[TopicPartition, Committed]
    ) -> dict[TopicPartition, RequestRefused | None]:
        """Set positions from outside; None for each that was set."""
        return self._run(self._inner.commit(group_id, offsets))

    def delete_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, RequestRefused | None]:
        """Forget positions; None for each that is forgotten."""
        return self._run(self._inner.delete_offsets(group_id, partitions))

    def delete(self, group_id: str) -> None:
        """Delete an empty group with its positions."""
        self._run(self._inner.delete(group_id))

    def timeline(self, group_id: str) -> list[dict[str, Any]]:
        """What has happened in the group lately, oldest first, as its coordinator remembers it."""
        return self._run(self._inner.timeline(group_id))
