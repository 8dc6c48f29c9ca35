"""Six brokers and a partition to move: what the store shows, write by write, and deaths between."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.controller.events import AlterMoves
from ottla.coordinator.controller.specs import MoveSpec, TopicSpec
from ottla.coordinator.store import paths
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from ottla.protocol.messages.stop_replica import StopReplicaRequest
from tests.coordinator.controller.scene import Scene, broker, partition_errors, requests_to

if TYPE_CHECKING:
    from ottla.coordinator.controller.events import ControllerDecision
    from ottla.coordinator.store.tree import Step
    from ottla.protocol.errors import ErrorCode

T0 = TopicPartition("t", 0)
ALL = (1, 2, 3, 4, 5, 6)
MOVED = MoveSpec(T0, (4, 5, 6))


class Watched(Scene):
    """Six brokers; every write to the store is followed by a look at one partition.

    ``crash_after``: how many writes of a move a controller does before it dies and another one
    reads the world."""

    def __init__(self) -> None:
        self.rows: list[tuple[set[int], int, set[int]]] = []
        self.crash_after: int | None = None
        self.is_dead = False
        super().__init__(*(broker(node_id) for node_id in ALL))
        self.create(TopicSpec("t", assignment={0: [1, 2, 3]}))

    def apply(self, steps: tuple[Step, ...]) -> None:
        super().apply(steps)
        if self.tree.exists(paths.state("t", 0)) is not None:
            self.look()

    def look(self) -> None:
        state = self.read_topic("t").partitions[0]
        row = (set(state.replicas), state.leader, set(state.isr))
        if not self.rows or self.rows[-1] != row:
            self.rows.append(row)

    def carry_out(self, decision: ControllerDecision) -> ControllerDecision:
        if not self.rows:
            return super().carry_out(decision)
        for write in decision.records:
            if self.crash_after == 0 and write.operations:
                self.is_dead = True
            if self.is_dead:
                return decision
            if write.operations:
                self.apply(write.operations)
            self.replay(write)
            if self.crash_after is not None and write.operations:
                self.crash_after -= 1
        if not self.is_dead:
            self.sent.append(decision)
        return decision

    def advance(self) -> None:
        while not self.is_dead and (decision := self.controller.advance()) is not None:
            self.carry_out(decision)

    def succeed(self) -> None:
        """The dead controller gets a successor, which lives."""
        self.is_dead, self.crash_after = False, None
        self.elect()

    def ask(self, *moves: MoveSpec) -> list[ErrorCode]:
        return partition_errors(self.handle(AlterMoves(moves)))

    def answers_to(self, node_id: int) -> list[tuple[int, int, list[int], list[int], bool]]:
        """Of each role that a broker was told: leader, epoch, ISR, replicas, whether it is new."""
        return [
            (role.leader, role.leader_epoch, sorted(role.isr), sorted(role.replicas), role.is_new)
            for decision in self.sent
            for request in requests_to(decision, node_id, LeaderAndIsrRequest)
            for topic in request.topic_states
            for role in topic.partition_states
        ]

    def deleted_on(self, node_id: int) -> list[tuple[int, bool]]:
        return [
            (state.leader_epoch, state.delete_partition)
            for decision in self.sent
            for request in requests_to(decision, node_id, StopReplicaRequest)
            for topic in request.topic_states
            for state in topic.partition_states
        ]
