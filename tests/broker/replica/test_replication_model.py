"""Three replicas, a store and a controller, all orders of everything: what was committed stays.

The replicas are the real machines; store, controller and wire are a few lines of model. Requests
and answers are late or lost, brokers restart with or without the end of their log, and the leader
of yesterday goes on until it hears that it is one no more.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ottla.broker.replica.isr import ChangeOutcome, IsrChange, eligible_after
from ottla.broker.replica.leading import PartitionLeadership
from ottla.broker.replica.roles import Role
from ottla.protocol.errors import ErrorCode
from tests.broker.replica.support.nodes import Entry, Fetched, Node, fetch, receive

if TYPE_CHECKING:
    from ottla.broker.replica.partition import Replica

NODES = (0, 1, 2)
MIN_INSYNC = 2
WHO = st.sampled_from(NODES)


class Cluster(RuleBasedStateMachine):
    """The model's rules; see the module."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0.0
        self.next_value = 0
        self.nodes = [Node(node_id, min_insync=MIN_INSYNC) for node_id in NODES]
        self.stored = PartitionLeadership(0, 0, 0, NODES, NODES)
        self.said: dict[int, list[PartitionLeadership]] = {node_id: [] for node_id in NODES}
        self.proposals: list[tuple[Replica, IsrChange]] = []
        self.answers: list[tuple[Replica, IsrChange, ChangeOutcome, int]] = []
        self.fetched: list[tuple[Node, Fetched]] = []
        self.committed: list[Entry] = []
        self._announce()

    # ---- the controller ----

    def _announce(self) -> None:
        for words in self.said.values():
            words.append(self.stored)

    def _store(self, leadership: PartitionLeadership) -> None:
        self.stored = replace(leadership, partition_epoch=self.stored.partition_epoch + 1)
        self._announce()

    @rule(which=WHO)
    def elect(self, which: int) -> None:
        if which in self.stored.isr:
            epoch = self.stored.leader_epoch + 1
            self._store(replace(self.stored, leader=which, leader_epoch=epoch))

    @rule(which=WHO, skip=st.booleans())
    def hear_the_controller(self, which: int, skip: bool) -> None:
        """Words arrive in order; some are lost."""
        words = self.said[which]
        if words:
            word = words.pop(0)
            if skip and words:
                word = words.pop(0)
            replica = self.nodes[which].replica
            if word.leader == which:
                replica.become_leader(word, self.now_ms)
            else:
                replica.become_follower(word)
            # Saved before anything is served under the new epoch.
            self.nodes[which].saved_epochs = list(replica.history.leader_epochs())

    # ---- leaders ----

    @rule(which=WHO, count=st.integers(1, 3))
    def produce(self, which: int, count: int) -> None:
        node = self.nodes[which]
        if node.replica.can_append(1) is ErrorCode.NONE:
            node.produce([self.next_value + index for index in range(count)], self.now_ms)
            self.next_value += count

    @rule(which=WHO, asking=WHO)
    def propose(self, which: int, asking: int) -> None:
        """Also on a fetch that is long over, which is more than a leader allows itself."""
        node = self.nodes[which]
        leading = node.replica.leading
        if leading is not None:
            end = len(node.log)
            change = leading.propose(node.replica.high_watermark, end, self.now_ms, asking)
            if change is not None:
                self.proposals.append((node.replica, change))

    @precondition(lambda self: self.proposals)
    @rule(index=st.integers(0, 9), answer_is_lost=st.booleans())
    def store_a_proposal(self, index: int, answer_is_lost: bool) -> None:
        replica, change = self.proposals.pop(index % len(self.proposals))
        stale = change.partition_epoch != self.stored.partition_epoch or any(
            self.nodes[added].broker_epoch != broker_epoch for added, broker_epoch in change.added
        )
        if not stale:
            self._store(
                replace(self.stored, isr=change.isr, eligible_leaders=change.eligible_leaders)
            )
        outcome = ChangeOutcome.REFUSED if stale else ChangeOutcome.APPLIED
        if answer_is_lost:
            outcome = ChangeOutcome.UNKNOWN
        self.answers.append((replica, change, outcome, self.stored.partition_epoch))

    @precondition(lambda self: self.answers)
    @rule(index=st.integers(0, 9))
    def hear_the_store(self, index: int) -> None:
        replica, change, outcome, version = self.answers.pop(index % len(self.answers))
        leading = replica.leading
        if leading is None:
            return
        if outcome is ChangeOutcome.UNKNOWN and leading.in_sync.pending is change:
            # The shell reads the state again: only that tells.
            applied = self.stored.isr == change.isr and self.stored.leader == replica.node_id
            if applied and self.stored.leader_epoch == change.leader_epoch:
                outcome, version = ChangeOutcome.APPLIED, self.stored.partition_epoch
            elif self.stored.partition_epoch > change.partition_epoch:
                outcome = ChangeOutcome.REFUSED
        leading.on_answer(change, outcome, version)
        replica.maybe_raise_watermark(self.now_ms)

    # ---- followers ----

    @rule(which=WHO, count=st.integers(0, 3))
    def fetch(self, which: int, count: int) -> None:
        follower = self.nodes[which]
        replica = follower.replica
        if replica.role is Role.FOLLOWER and replica.leadership is not None:
            leader = self.nodes[replica.leadership.leader]
            answer = fetch(follower, leader, count, self.now_ms)
            if answer is not None:
                self.fetched.append((follower, answer))

    @precondition(lambda self: self.fetched)
    @rule(index=st.integers(0, 9))
    def receive(self, index: int) -> None:
        receive(*self.fetched.pop(index % len(self.fetched)))

    # ---- time and failures ----

    @rule(step_ms=st.sampled_from([10.0, 60.0, 200.0]))
    def time(self, step_ms: float) -> None:
        self.now_ms += step_ms
        for node in self.nodes:
            node.replica.maybe_raise_watermark(self.now_ms)

    @rule(which=WHO)
    def checkpoint(self, which: int) -> None:
        self.nodes[which].save()

    @rule(which=WHO)
    def restart(self, which: int) -> None:
        """The process dies; what it has written is in the page cache of the machine."""
        node = self.nodes[which]
        node.broker_epoch += 1
        node.start()
        self.said[which] = [self.stored]
        if self.stored.leader == which:
            # A leader that was away leads again, if at all, in another epoch.
            self._store(replace(self.stored, leader_epoch=self.stored.leader_epoch + 1))

    @rule(which=WHO, lost=st.integers(1, 4))
    def restart_after_power_loss(self, which: int, lost: int) -> None:
        """The end of the log is gone. Such a broker is neither in sync nor eligible (R-21)."""
        isr = tuple(one for one in self.stored.isr if one != which)
        eligible = eligible_after(
            self.stored.isr, self.stored.eligible_leaders, isr or (which,), MIN_INSYNC
        )
        eligible = tuple(one for one in eligible if one != which)
        if not isr and not eligible:
            return
        if not isr:
            isr, eligible = eligible[:1], eligible[1:]
        leader = self.stored.leader if self.stored.leader in isr else isr[0]
        node = self.nodes[which]
        node.broker_epoch += 1
        node.log = node.log[: max(0, len(node.log) - lost)]
        node.start()
        self.said[which] = []
        self._store(
            PartitionLeadership(leader, self.stored.leader_epoch + 1, 0, isr, NODES, eligible)
        )

    def teardown(self) -> None:
        """Without faults all messages arrive, and everything in a log is committed in the end."""
        self._announce()
        for turn in range(60):
            self.now_ms += 1
            for which in NODES:
                while self.said[which]:
                    self.hear_the_controller(which, skip=False)
            leader = self.nodes[self.stored.leader].replica
            assert leader.leading is not None
            pending = leader.leading.in_sync.pending
            if pending is None:
                self.propose(leader.node_id, NODES[turn % len(NODES)])
            elif (leader, pending) not in self.proposals:
                # The outcome of this proposal is unknown, so it is sent again.
                self.proposals.append((leader, pending))
            while self.proposals:
                self.store_a_proposal(0, answer_is_lost=False)
            while self.answers:
                self.hear_the_store(0)
            for which in NODES:
                self.fetch(which, 100)
            while self.fetched:
                self.receive(0)
            self.what_was_committed_stays()
        longest = self.nodes[self.stored.leader].log
        assert sorted(self.stored.isr) == list(NODES)
        for node in self.nodes:
            assert node.log == longest
            assert node.visible == longest

    # ---- what must hold ----

    @invariant()
    def watermarks_lie_within_their_logs(self) -> None:
        for node in self.nodes:
            replica = node.replica
            assert replica.log_end_offset == len(node.log)
            assert 0 <= replica.high_watermark <= len(node.log)

    @invariant()
    def what_was_committed_stays(self) -> None:
        # Leaders first: only they decide what is committed.
        for node in sorted(self.nodes, key=lambda one: one.replica.role is not Role.LEADER):
            visible = node.visible
            shared = min(len(visible), len(self.committed))
            assert visible[:shared] == self.committed[:shared]
            if len(visible) > shared:
                assert node.replica.role is Role.LEADER
                self.committed = visible

    @invariant()
    def every_record_is_known_under_its_epoch(self) -> None:
        for node in self.nodes:
            epochs = node.replica.history.epochs
            for offset, (epoch, _value) in enumerate(node.log):
                assert epochs.epoch_at(offset) == epoch

    @invariant()
    def a_log_is_one_history(self) -> None:
        for node in self.nodes:
            epochs = [epoch for epoch, _value in node.log]
            assert epochs == sorted(epochs)


TestCluster = pytest.mark.requirement("REP-06", "REP-14")(Cluster.TestCase)
Cluster.TestCase.settings = settings(max_examples=120, stateful_step_count=60, deadline=None)
