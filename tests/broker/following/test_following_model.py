"""The model of three replicas once more, now with the follower's own machine deciding.

Rules, oracles and faults are those of test_replication_model.py; what goes over the wire are Ask
and Told, and answers arrive late, twice and in any order. Besides hypothesis, which finds small
examples, long walks by seed get into corners that need many elections.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from ottla.broker.following.fetcher_state import Followed
from ottla.broker.following.steps import FetchPosition, LeaderAnswer, LogAction, step_for
from ottla.broker.replica.progress import FollowerFetch
from ottla.broker.replica.roles import Role
from ottla.protocol.ids import ZERO_UUID, TopicPartition
from tests.broker.replica.test_replication_model import NODES, WHO, Cluster

if TYPE_CHECKING:
    from ottla.broker.replica.partition import Replica
    from tests.broker.replica.support.nodes import Entry, Node

WHERE = TopicPartition("t", 0)


@dataclass(frozen=True)
class Answer:
    """An answer on its way to the replica that asked; the target is ignored after a restart."""

    follower: Node
    replica: Replica
    ask: FetchPosition
    told: LeaderAnswer
    entries: list[Entry]


class FollowingCluster(Cluster):
    """Fetch and receive as the fetchers do them."""

    def __init__(self) -> None:
        super().__init__()
        self.answers_under_way: list[Answer] = []

    @rule(which=WHO, count=st.integers(0, 3))
    def fetch(self, which: int, count: int) -> None:
        follower = self.nodes[which]
        replica = follower.replica
        if replica.role is not Role.FOLLOWER or replica.leadership is None:
            return
        leader = self.nodes[replica.leadership.leader]
        ask = Followed(WHERE, ZERO_UUID, replica).ask()
        assert ask.last_fetched_epoch == follower.last_epoch
        verdict = leader.replica.on_follower_fetch(
            FollowerFetch(
                which,
                follower.broker_epoch,
                ask.fetch_offset,
                ask.last_fetched_epoch,
                ask.leader_epoch,
                ask.log_start_offset,
            ),
            self.now_ms,
        )
        entries = []
        if verdict.is_good:
            entries = leader.log[ask.fetch_offset : ask.fetch_offset + count]
        told = LeaderAnswer(
            verdict.error,
            leader.replica.high_watermark,
            leader.replica.log_start_offset,
            verdict.diverging,
            has_records=bool(entries),
        )
        self.answers_under_way.append(Answer(follower, replica, ask, told, entries))

    @precondition(lambda self: self.answers_under_way)
    @rule(index=st.integers(0, 9), again=st.booleans())
    def receive(self, index: int, again: bool = False) -> None:
        index %= len(self.answers_under_way)
        answer = self.answers_under_way[index]
        if not again:
            del self.answers_under_way[index]
        follower, replica = answer.follower, answer.replica
        if follower.replica is not replica:
            return
        step = step_for(answer.ask, answer.told, replica)
        if step.action is LogAction.TRUNCATE:
            assert step.offset < len(follower.log), "it would ask for ever"
            follower.cut(step.offset)
        elif step.action is LogAction.APPEND:
            follower.write(answer.entries)
            replica.on_replicated(
                len(follower.log), answer.told.high_watermark, answer.ask.leader_epoch
            )
        # Logs here keep their first records, so a follower must never start over.
        assert step.action is not LogAction.RESTART

    def teardown(self) -> None:
        self.fetched = Drain(self)  # type: ignore[assignment]  # what the base class drains
        super().teardown()

    @invariant()
    def logs_are_equal_below_their_watermarks(self) -> None:
        """Compares the logs of the replicas in the present lineage with the stored leader's."""
        for one in self.nodes:
            for other in self.nodes:
                shared = min(one.replica.high_watermark, other.replica.high_watermark)
                assert one.log[:shared] == other.log[:shared]


class Drain:
    """Lets the teardown of the base class receive from our list."""

    def __init__(self, cluster: FollowingCluster) -> None:
        self._cluster = cluster

    def __bool__(self) -> bool:
        return bool(self._cluster.answers_under_way)


TestFollowing = pytest.mark.requirement("REP-03", "REP-17")(FollowingCluster.TestCase)
FollowingCluster.TestCase.settings = settings(
    max_examples=60, stateful_step_count=60, deadline=None
)


@pytest.mark.parametrize("seed", range(40))
def test_nothing_committed_is_lost_on_a_long_walk(seed: int) -> None:
    """R-02, R-03, R-06: divergence needs elections, restarts and late answers in a row."""
    chance = random.Random(seed)
    cluster = FollowingCluster()

    def who() -> int:
        return chance.choice(NODES)

    for _ in range(1500):
        match chance.choices(range(11), weights=(3, 6, 8, 3, 3, 3, 14, 12, 2, 1, 1))[0]:
            case 0:
                cluster.elect(who())
            case 1:
                cluster.hear_the_controller(who(), skip=chance.random() < 0.3)
            case 2:
                cluster.produce(who(), chance.randint(1, 3))
            case 3:
                cluster.propose(who(), who())
            case 4 if cluster.proposals:
                cluster.store_a_proposal(chance.randint(0, 9), chance.random() < 0.3)
            case 5 if cluster.answers:
                cluster.hear_the_store(chance.randint(0, 9))
            case 6:
                cluster.fetch(who(), chance.randint(0, 3))
            case 7 if cluster.answers_under_way:
                cluster.receive(chance.randint(0, 9), chance.random() < 0.2)
            case 8:
                cluster.time(chance.choice([10.0, 60.0, 200.0]))
            case 9:
                cluster.checkpoint(who())
            case 10 if chance.random() < 0.5:
                cluster.restart(who())
            case 10:
                cluster.restart_after_power_loss(who(), chance.randint(1, 4))
        cluster.watermarks_lie_within_their_logs()
        cluster.what_was_committed_stays()
        cluster.every_record_is_known_under_its_epoch()
        cluster.logs_are_equal_below_their_watermarks()
        del cluster.answers_under_way[:-20]
    cluster.teardown()
