"""Groups store operations with their image changes into writes of bounded size."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ottla.coordinator.controller.events import Write
from ottla.coordinator.metadata.changes import Change, PartitionChanged
from ottla.coordinator.metadata.image import NO_LEADER
from ottla.coordinator.store import paths
from ottla.coordinator.store.store import Check, Create, Operation, Replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ottla.coordinator.metadata.image import (
        BrokerRegistration,
        PartitionState,
        TopicImage,
    )

# A ZooKeeper server accepts a megabyte in one request and drops the connection at more (C-16).
OPERATIONS_PER_WRITE_MAX = 1000
BYTES_PER_WRITE_MAX = 900_000
# What is written in the same group as a topic's assignment: its settings, or states that change
# with it (``PARTITIONS_PER_UNIT`` of them).
OVERHEAD_BYTES = 200_000
# Besides path and data: the operation's header, lengths, version and access list.
_BYTES_PER_OPERATION = 80


class WriteList:
    """Collects units that must stay together; ``finish`` distributes them to writes in order.

    A crash between two writes leaves a prefix: every prefix must be a state from which the next
    controller can continue."""

    def __init__(self) -> None:
        self._writes: list[Write] = []
        self._operations: list[Operation] = []
        self._changes: list[Change] = []
        self._bytes = 0
        # Of the group that is being collected: lives of brokers that it relies on.
        self._relied_on: set[Check] = set()

    def add(
        self,
        operations: Sequence[Operation],
        changes: Sequence[Change] = (),
        relied_on: Sequence[Check] = (),
    ) -> None:
        """Add a unit; its group has each of the checks once."""
        unit = [*(one for one in relied_on if one not in self._relied_on), *operations]
        size_bytes = sum(_size_of(operation) for operation in unit)
        if (
            len(self._operations) + len(unit) > OPERATIONS_PER_WRITE_MAX
            or self._bytes + size_bytes > BYTES_PER_WRITE_MAX
        ):
            self._close()
            unit = [*relied_on, *operations]
            size_bytes = sum(_size_of(operation) for operation in unit)
        assert len(unit) <= OPERATIONS_PER_WRITE_MAX
        self._bytes += size_bytes
        self._operations += unit
        assert len(self._operations) <= OPERATIONS_PER_WRITE_MAX
        self._changes += changes
        self._relied_on.update(relied_on)

    def add_state(
        self,
        topic: str,
        partition: int,
        state: PartitionState,
        brokers: Mapping[int, BrokerRegistration],
    ) -> PartitionState:
        """Write a partition's state over the one it was derived from.

        Returns the state with the partition epoch that the write will give it. ``brokers``: those
        that the decision was based on."""
        assert state.leader == NO_LEADER or state.leader in state.isr
        path, data = paths.state(topic, partition), paths.build_state(payload_of(state))
        operation: Operation = Create(path, data)
        if state.has_state:
            operation = Replace(path, data, state.partition_epoch)
        written = replace(state, partition_epoch=state.partition_epoch + 1)
        self.add(
            [operation],
            [PartitionChanged(topic, partition, written)],
            lives_of_leaders([state], brokers),
        )
        return written

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self._writes or self._operations or self._changes)

    def finish(self) -> tuple[Write, ...]:
        """All writes."""
        self._close()
        return tuple(self._writes)

    def _close(self) -> None:
        if self._operations or self._changes:
            self._writes.append(Write(tuple(self._operations), tuple(self._changes)))
        self._operations, self._changes, self._bytes = [], [], 0
        self._relied_on = set()


def lives_of_leaders(
    states: Iterable[PartitionState], brokers: Mapping[int, BrokerRegistration]
) -> list[Check]:
    """Checks that the leaders still have their known generations (R-23).

    A later generation may have lost records and have registered unknown to this controller. As the
    last ISR member by an outdated decision, it would lead without them for good, though other
    replicas had them all; and replicas left behind by a move would be deleted."""
    leaders = dict.fromkeys(state.leader for state in states if state.has_state)
    known = [brokers[node_id] for node_id in leaders if node_id in brokers]
    return [Check(paths.generation(one.node_id), one.generation) for one in known]


def _size_of(operation: Operation) -> int:
    data = operation.data if isinstance(operation, Create | Replace) else b""
    return len(operation.path) + len(data) + _BYTES_PER_OPERATION


def find_size_fault(topic: TopicImage) -> str | None:
    """Why a topic's assignment cannot be stored; None if it can.

    Writing it anyway would end the writer's session (C-16)."""
    size_bytes = len(topic_data(topic))
    if size_bytes + OVERHEAD_BYTES <= BYTES_PER_WRITE_MAX:
        return None
    return f"an assignment of {size_bytes} bytes is more than the metadata store takes at once"


def payload_of(state: PartitionState) -> paths.StatePayload:
    """The payload of the state znode."""
    return paths.StatePayload(
        state.leader,
        state.leader_epoch,
        state.isr,
        state.controller_epoch,
        state.is_recovering,
        state.eligible_leaders,
    )


def topic_data(topic: TopicImage) -> bytes:
    """The data of the topic znode."""
    partitions = topic.partitions
    return paths.build_topic(
        paths.TopicPayload(
            topic.topic_id,
            {index: state.replicas for index, state in partitions.items()},
            {index: state.adding for index, state in partitions.items() if state.adding},
            {index: state.removing for index, state in partitions.items() if state.removing},
        )
    )
