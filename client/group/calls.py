"""What an application does with its group; the part of ``Consumer`` that is about it.

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
from ottla.client.fetching.handout import Handout
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
    """Without a ``group_id`` most of these calls raise ValueError."""

    def __init__(self, router: Router, fetcher: Fetcher, config: ConsumerConfig) -> None:
        super().__init__(fetcher, config.isolation)
        self._router = router
        self._handout = Handout(fetcher)
        self._group: GroupMember | None = None
        if config.group_id is not None:
            self._group = GroupMember(router.cluster, config, fetcher, self._handout)

    async def subscribe(
        self,
        topics: Iterable[str] | re.Pattern[str],
        listener: RebalanceListener | None = None,
    ) -> None:
        """Read these topics together with the other members of the group, instead of what was
        subscribed before. Returns at once; partitions come while the application polls.

        Of a pattern: all topics whose names begin with a match, also those to come."""
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
        """Leave the group and read nothing any more. What was handed out counts as read."""
        if self._group is not None and self._group.is_subscribed:
            await self._group.leave(is_closing=False)
        self.assign([])

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        group = self._group
        if group is not None and group.is_subscribed:
            raise ValueError("the group assigns the partitions; unsubscribe first")
        self._leave_behind(())
        self._assign(partitions, is_awaiting=group is not None)
        if group is not None:
            group.offsets.find()

    async def commit(self, offsets: Mapping[TopicPartition, int | Committed] | None = None) -> None:
        """Store where the group goes on: after all that was handed out, or at these offsets, which
        are those of the next records to read.

        Raises CommitFailed if the partitions are another member's meanwhile, and RequestRefused or
        TransportError."""
        group = self._member()
        positions = None if offsets is None else positions_of("offsets to commit", offsets)
        self._router.cluster.home.check()
        await group.offsets.commit(positions, group.identity)

    async def committed(
        self, group_id: str | None = None, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, Committed]:
        """Where this group stands, or another; partitions without a position are left out.

        It waits for transactions that are about to move a position (KIP-447): what they have read
        would be read again otherwise. Raises RequestRefused."""
        if group_id is None:
            group_id = self._member().identity.group_id
        check_text("a group", group_id)
        if partitions is not None:
            partitions = partitions_of(partitions)
        return await GroupAdmin(self._router).offsets(group_id, partitions, require_stable=True)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """For ``send_offsets_to_transaction``: who we are in the group, so that a member that has
        lost its partitions is refused (KIP-447)."""
        group_id, member_id, generation, instance_id = self._member().identity
        return ConsumerGroupMetadata(group_id, generation, member_id, instance_id)

    def position(self, partition: TopicPartition) -> int | None:
        offset = super().position(partition)
        return self._handout.handed.waiting().get(partition, offset)

    @abstractmethod
    def _check_running(self) -> None:
        """Raise ClientClosed unless the consumer runs."""

    def _leave_behind(self, partitions: Iterable[TopicPartition]) -> None:
        self._handout.interrupt()

    def _member(self) -> GroupMember:
        if self._group is None:
            raise ValueError("this needs a group_id")
        return self._group
