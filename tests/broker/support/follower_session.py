"""A follower's fetch session at a leader, played by the test."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.partitions.follower_reads import QuietPartitions
from ottla.broker.partitions.partition_read import FetchPlan
from ottla.broker.replica.fetch_sessions import FetchSession, SessionAsk

if TYPE_CHECKING:
    from ottla.broker.engine.purgatory import Purgatory
    from ottla.broker.partitions.fetch_session import PartitionKey, Session
    from ottla.broker.partitions.follower_reads import FollowerPoll, FollowerReads
    from ottla.broker.partitions.partition import PartitionRuntime
    from ottla.broker.partitions.partition_read import PartitionFetch


class FollowerSession:
    """The session of one broker, which asks for one partition."""

    def __init__(self, waiting: Purgatory, wanted: PartitionFetch, node_id: int) -> None:
        self.node_id = node_id
        self.wanted = wanted
        ask = SessionAsk(1, 1, node_id, is_follower=True, uses_topic_ids=False)
        self.session: Session = FetchSession(1, ask, 0.0)
        self.session.merge([(self.key, wanted)], ())
        self.memory = QuietPartitions(self.session, waiting)
        self.session.memory = self.memory

    @property
    def key(self) -> PartitionKey:
        return self.wanted.topic, self.wanted.partition

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is to be said of the partition."""
        return self.key in self.memory.quiet

    def say(self, wanted: PartitionFetch) -> None:
        """The next request says this of the partition."""
        self.wanted = wanted
        self.session.merge([(self.key, wanted)], ())

    def ask(
        self, reads: FollowerReads, partition: PartitionRuntime, broker_epoch: int, at: object
    ) -> FollowerPoll:
        """A request that says nothing new comes on that connection."""
        wanted = self.session.unsettled()
        plan = FetchPlan(wanted, 500, 1, 1 << 20, False, self.node_id, True, broker_epoch)
        plan.quietness = self.memory
        return reads.begin(plan, lambda _wanted: partition, at)
