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
    """Administers the cluster's groups; ``Admin.groups``."""

    def __init__(self, inner: AsyncGroupAdmin, loop: LoopThread) -> None:
        super().__init__(loop)
        self._inner = inner

    def list_all(self, states: Iterable[str] = (), kinds: Iterable[str] = ()) -> list[GroupListing]:
        """List the groups by name.

        Args:
            states: Only groups in these states; all by default.
            kinds: Only groups of these kinds, ``"classic"`` or ``"consumer"``; all by default.

        Returns:
            The groups of all brokers.

        Raises:
            RequestRefused: A broker did not list its groups.
        """
        return self._run(self._inner.list_all(states, kinds))

    def describe(self, group_id: str) -> GroupView:
        """Describe one group and its members.

        Args:
            group_id: The group's name.

        Returns:
            The group.

        Raises:
            GroupRefused: GROUP_ID_NOT_FOUND if the group does not exist.
        """
        return self._run(self._inner.describe(group_id))

    def offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
    ) -> dict[TopicPartition, Committed]:
        """Return the group's committed positions.

        Args:
            group_id: The group's name.
            partitions: The partitions to ask for; None (default) for all.
            require_stable: Wait for open transactions that would move a position; False by default.

        Returns:
            The position of each partition that has one.

        Raises:
            RequestRefused: The coordinator refused.
        """
        return self._run(self._inner.offsets(group_id, partitions, require_stable=require_stable))

    def commit(
        self, group_id: str, offsets: Mapping[TopicPartition, Committed]
    ) -> dict[TopicPartition, RequestRefused | None]:
        """Set positions of a group that has no members.

        Args:
            group_id: The group's name.
            offsets: The new position of each partition.

        Returns:
            For each partition None, or why it was not set: UNKNOWN_MEMBER_ID if the group has
            members.
        """
        return self._run(self._inner.commit(group_id, offsets))

    def delete_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, RequestRefused | None]:
        """Delete committed positions.

        Args:
            group_id: The group's name.
            partitions: The partitions whose positions to delete.

        Returns:
            For each partition None, or why its position was not deleted: GROUP_SUBSCRIBED_TO_TOPIC
            if a member reads the topic.

        Raises:
            GroupRefused: The coordinator refused the whole request.
        """
        return self._run(self._inner.delete_offsets(group_id, partitions))

    def delete(self, group_id: str) -> None:
        """Delete a group without members, with its positions.

        Args:
            group_id: The group's name.

        Raises:
            GroupRefused: NON_EMPTY_GROUP or GROUP_ID_NOT_FOUND.
        """
        self._run(self._inner.delete(group_id))

    def timeline(self, group_id: str) -> list[dict[str, Any]]:
        """Return the recent events of a group, oldest first, as its coordinator remembers them.

        Args:
            group_id: The group's name.

        Returns:
            One dict for each event.

        Raises:
            GroupRefused: The coordinator refused.
            UnsupportedByBroker: The broker is not one of Ottla's.
        """
        return self._run(self._inner.timeline(group_id))
