"""Any order of heartbeats, losses and growth: no partition is believed in twice."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.coordinator.group.common.settings import GroupSettings
from ottla.coordinator.group.consumer.assignment import pairs_of
from ottla.protocol.errors import ErrorCode
from tests.coordinator.group.consumer.site import Site, beat, join, told

if TYPE_CHECKING:
    from ottla.protocol.messages.consumer_group_heartbeat import (
        ConsumerGroupHeartbeatRequest,
        ConsumerGroupHeartbeatResponse,
    )

NAMES = [f"m{index}" for index in range(5)]
TOPICS = ["t", "u", "v"]
DEEDS = ["beat", "beat", "settle", "settle", "lose", "repeat"]
FENCED = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND)

Owned = dict[str, list[int]]


@dataclass
class Consumer:
    """A client as KIP-848 asks for: it believes what it was told and reports what it believes.

    After a lost answer it says everything again, since it cannot know what arrived."""

    name: str
    instance_id: str | None
    topics: list[str]
    epoch: int = 0
    owned: Owned = field(default_factory=dict)
    must_say_all: bool = True
    # What it was told and has not yet taken up: revoking takes it time, it goes on owning.
    pending: Owned | None = None
    heard_at_ms: float = 0.0

    def request(self) -> ConsumerGroupHeartbeatRequest:
        if self.epoch == 0:
            return join(self.name, *self.topics, instance_id=self.instance_id)
        request = beat(self.name, self.epoch, self.owned, self.instance_id)
        if self.must_say_all:
            request.rebalance_timeout_ms = 60_000
            request.subscribed_topic_names = self.topics
        return request

    def take(self, response: ConsumerGroupHeartbeatResponse, now_ms: float) -> None:
        self.must_say_all = False
        if response.error_code in FENCED:
            self.drop()
            return
        if response.error_code != ErrorCode.NONE:
            self.must_say_all = True
            return
        self.heard_at_ms = now_ms
        self.epoch = response.member_epoch
        assignment = told(response)
        if assignment is not None:
            self.pending = assignment

    def settle(self) -> None:
        """Revoke and take up what it was told."""
        if self.pending is not None:
            self.owned, self.pending = self.pending, None

    def drop(self) -> None:
        self.epoch, self.owned, self.pending, self.must_say_all = 0, {}, None, True

    def believes(self) -> set[tuple[str, int]]:
        return {(topic, index) for topic, parts in self.owned.items() for index in parts}


class GroupMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.counts = {"t": 4, "u": 3}
        self.incarnation = 0
        self.site = Site(self.counts)
        self.consumers: dict[str, Consumer] = {}
        self.silent: set[str] = set()

    @initialize(assignor=st.sampled_from(["uniform", "range"]))
    def begin(self, assignor: str) -> None:
        self.site = Site(self.counts, GroupSettings(consumer_assignors=(assignor,)))
        for name in NAMES[:3]:
            self.start(name, False, {"t", "u"})

    def consumer(self, index: int) -> Consumer | None:
        names = sorted(self.consumers)
        return self.consumers[names[index % len(names)]] if names else None

    def exchange(self, consumer: Consumer, *, is_lost: bool = False) -> None:
        response = self.site.ask(consumer.request())
        if is_lost:
            consumer.must_say_all = True
        else:
            consumer.take(response, self.site.now_ms)

    @rule(
        name=st.sampled_from(NAMES),
        is_static=st.booleans(),
        topics=st.sets(st.sampled_from(TOPICS), min_size=1),
    )
    def start(self, name: str, is_static: bool, topics: set[str]) -> None:
        if name not in self.consumers:
            instance_id = f"i-{name}" if is_static else None
            consumer = Consumer(name, instance_id, sorted(topics))
            self.consumers[name] = consumer
            self.exchange(consumer)

    @rule(seed=st.integers(0, 2**32))
    def heartbeats(self, seed: int) -> None:
        """What consumers do all day, in any order; most of what can go wrong is in here.

        One seed for many steps: as steps of the machine they would be too rare to meet."""
        random = Random(seed)
        for _ in range(40):
            index, deed = random.randrange(10), random.choice(DEEDS)
            consumer = self.consumer(index)
            if consumer is None:
                continue
            if deed == "settle":
                consumer.settle()
            else:
                if deed == "repeat":
                    self.site.ask(consumer.request())
                self.exchange(consumer, is_lost=deed == "lose")
            self.no_partition_is_believed_in_twice()

    @rule(index=st.integers(0, 9), topics=st.sets(st.sampled_from(TOPICS), min_size=1))
    def resubscribe(self, index: int, topics: set[str]) -> None:
        consumer = self.consumer(index)
        if consumer is not None and consumer.epoch > 0:
            consumer.topics = sorted(topics)
            consumer.must_say_all = True
            self.exchange(consumer)

    @rule(index=st.integers(0, 9), is_for_a_while=st.booleans())
    def leave(self, index: int, is_for_a_while: bool) -> None:
        consumer = self.consumer(index)
        if consumer is not None:
            is_for_a_while = is_for_a_while and consumer.instance_id is not None
            epoch = -2 if is_for_a_while else -1
            self.site.ask(beat(consumer.name, epoch, instance_id=consumer.instance_id))
            del self.consumers[consumer.name]

    @rule(index=st.integers(0, 9))
    def begin_anew(self, index: int) -> None:
        """As after a long pause of the application."""
        consumer = self.consumer(index)
        if consumer is not None:
            consumer.drop()
            self.exchange(consumer)

    @rule(topic=st.sampled_from(TOPICS), growth=st.integers(1, 3))
    def grow(self, topic: str, growth: int) -> None:
        self.counts[topic] = self.counts.get(topic, 0) + growth
        self.site.set_topics(self.counts)

    @precondition(lambda self: len(self.counts) > 1)
    @rule()
    def delete_topic(self) -> None:
        del self.counts[max(self.counts)]
        self.site.set_topics(self.counts)

    @rule(seconds=st.sampled_from([1, 10, 44, 61]))
    def pass_time(self, seconds: int) -> None:
        """A consumer that hears nothing for its session gives up its partitions by itself."""
        self.site.pass_time(1_000 * seconds)
        for consumer in self.consumers.values():
            # The client's clock starts when it sent; the coordinator's, later.
            if self.site.now_ms - consumer.heard_at_ms >= 45_000:
                consumer.drop()

    @rule()
    def fail_over(self) -> None:
        """Another coordinator takes over with what is in the log."""
        self.check_replay()
        self.site = self.site.reloaded()

    @invariant()
    def no_partition_is_believed_in_twice(self) -> None:
        owners: dict[tuple[str, int], str] = {}
        for consumer in self.consumers.values():
            for pair in consumer.believes():
                assert pair not in owners, f"{owners[pair]} and {consumer.name} both own {pair}"
                owners[pair] = consumer.name

    @invariant()
    def the_owners_are_those_of_the_members(self) -> None:
        state = self.site.group.state
        held = {
            pair: member.member_id
            for member in state.members.values()
            for part in (member.progress.assigned, member.progress.revoking)
            for pair in pairs_of(part)
        }
        assert held == state.owners

    def check_replay(self) -> None:
        mine, other = self.site.group.state, self.site.reloaded().group.state
        for name in ("group_epoch", "metadata_hash", "assignment_epoch", "targets", "regexes"):
            assert getattr(mine, name) == getattr(other, name), name
        assert mine.owners == other.owners
        assert mine.static_members == other.static_members
        assert {
            member.member_id: (member.subscription, member.progress)
            for member in mine.members.values()
        } == {
            member.member_id: (member.subscription, member.progress)
            for member in other.members.values()
        }

    def teardown(self) -> None:
        """When nothing changes any more, a few rounds of heartbeats reach the target assignment."""
        self.check_replay()
        self.site.pass_time(45_000)
        for consumer in self.consumers.values():
            consumer.drop()
        for _ in range(6):
            for name in sorted(self.consumers):
                consumer = self.consumers[name]
                self.exchange(consumer)
                consumer.settle()
                self.no_partition_is_believed_in_twice()
        if self.consumers:
            assert self.site.group.state_name == "Stable"
            wanted = {topic for consumer in self.consumers.values() for topic in consumer.topics}
            assert {
                pair for consumer in self.consumers.values() for pair in consumer.believes()
            } == {
                (topic, index)
                for topic in wanted & self.counts.keys()
                for index in range(self.counts[topic])
            }


TestGroupMachine = GroupMachine.TestCase
TestGroupMachine.settings = settings(max_examples=150, stateful_step_count=15, deadline=None)
