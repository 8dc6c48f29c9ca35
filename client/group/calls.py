"""The group calls of ``Consumer``.

    await consumer.subscribe(["orders"], listener=listener)
    async for record in consumer:
        ...
    await consumer.commit()

Guarantees and limits: docs/consumer.md.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from typing import TYPE_CHECKING

from ottla.client.fetching.batch_reading import BatchReading
from ottla.client.fetching.consumed_positions import ConsumedPositions
from ottla.client.group.administration import GroupAdmin
from ottla.client.group.group_member import GroupMember
from ottla.client.group.rebalance_listener import RebalanceListener, check_listener
from ottla.client.records.arguments import (
    check_text,
    check_topic,
    partitions_of,
    positions_of,
    texts,
)
from ottla.client.records.committed import ConsumerGroupMetadata

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ottla.client.cluster.routing import Router
    from ottla.client.fetching.fetcher import Fetcher
    from ottla.client.records.committed import Committed
    from ottla.client.settings.config import ConsumerConfig
    from ottla.protocol.ids import TopicPartition


class GroupCalls(BatchReading):
    """The part of ``Consumer`` that deals with its group. Most calls raise ValueError without a
    ``group_id``."""

    def __init__(self, router: Router, fetcher: Fetcher, config: ConsumerConfig) -> None:
        super().__init__(fetcher, config.isolation)
        self._router = router
        self._consumed = ConsumedPositions(fetcher)
        self._group: GroupMember | None = None
        if config.group_id is not None:
            self._group = GroupMember(router.cluster, config, fetcher, self._consumed)

    async def subscribe(
        self,
        topics: Iterable[str] | re.Pattern[str],
        listener: RebalanceListener | None = None,
    ) -> None:
        """Read topics together with the other members of the group, instead of the previous topics.

        Returns at once; the group assigns partitions while the application polls.

        Args:
            topics: Names of topics, or a compiled pattern: all topics whose names begin with a
                match, including topics that are created later.
            listener: Called when partitions are assigned, revoked or lost; None by default.

        Raises:
            ValueError: There is no ``group_id``, or partitions were assigned with ``assign``.
            TypeError: ``listener`` is no RebalanceListener.
        """
        group = self._member()
        self._check_running()
        if self.assignment and not group.is_subscribed:
            raise ValueError("partitions are assigned by hand; assign none before subscribing")
        if isinstance(topics, re.Pattern):
            if not isinstance(topics.pattern, str):
                raise TypeError(f"a pattern of topics is one of texts, not {topics.pattern!r}")
        else:
            topics = [topics] if isinstance(topics, str) else texts("topics", topics)
            for topic in topics:
                check_topic(topic)
        check_listener(listener)
        group.subscribe(topics, listener)

    async def unsubscribe(self) -> None:
        """Leave the group and stop reading. Returned records count as processed."""
        if self._group is not None and self._group.is_subscribed:
            await self._group.leave(is_closing=False)
        self.assign([])

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions from now on; partitions that are assigned already keep their
        position.

        Without a ``seek`` a partition begins at the group's committed position, or where
        ``offset_reset`` says if there is none.

        Args:
            partitions: All partitions to read; none to stop.

        Raises:
            ValueError: The consumer is subscribed: the group assigns its partitions.
        """
        group = self._group
        if group is not None and group.is_subscribed:
            raise ValueError("the group assigns the partitions; unsubscribe first")
        self._leave_behind(())
        self._assign(partitions, is_awaiting=group is not None)
        if group is not None:
            group.offsets.find()

    async def commit(self, offsets: Mapping[TopicPartition, int | Committed] | None = None) -> None:
        """Store the group's positions.

        Args:
            offsets: For each partition the offset of the next record to read; None (default) for
                the positions after all records that were returned.

        Raises:
            CommitFailed: Another member has the partitions now.
            RequestRefused: The coordinator refused.
            TransportError: The coordinator did not answer.
        """
        group = self._member()
        positions = None if offsets is None else positions_of("offsets to commit", offsets)
        self._router.cluster.check_loop()
        await group.offsets.commit(positions, group.identity)

    async def committed(
        self, group_id: str | None = None, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, Committed]:
        """Return the committed positions of this group or of another one.

        It waits for open transactions that would move a position (KIP-447): without that, a
        consumer would read again what the transaction has read.

        Args:
            group_id: The group's name; None (default) for the consumer's own group.
            partitions: The partitions to ask for; None (default) for all.

        Returns:
            The committed position of each partition that has one.

        Raises:
            RequestRefused: The coordinator refused.
        """
        if group_id is None:
            group_id = self._member().identity.group_id
        check_text("a group", group_id)
        if partitions is not None:
            partitions = partitions_of(partitions)
        return await GroupAdmin(self._router).offsets(group_id, partitions, require_stable=True)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the consumer's identity in its group, for ``send_offsets_to_transaction``: with it
        the coordinator refuses a member that has lost its partitions (KIP-447)."""
        group_id, member_id, generation, instance_id = self._member().identity
        return ConsumerGroupMetadata(group_id, generation, member_id, instance_id)

    def position(self, partition: TopicPartition) -> int | None:
        """Return the offset of the next record that a poll returns; None while it is looked up.

        Args:
            partition: An assigned partition.

        Raises:
            ValueError: The partition is not assigned.
        """
        offset = super().position(partition)
        return self._consumed.returned.waiting().get(partition, offset)

    @abstractmethod
    def _check_running(self) -> None:
        """Raise ClientClosed unless the consumer runs."""

    def _leave_behind(self, partitions: Iterable[TopicPartition]) -> None:
        self._consumed.interrupt()

    def _member(self) -> GroupMember:
        if self._group is None:
            raise ValueError("this needs a group_id")
        return self._group
