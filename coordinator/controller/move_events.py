"""Moves of replicas: begins, cancels and advances them step by step, many at once.

``advance`` does the next step of every move; the caller repeats it until no step is left. Each
step is its own decision, so that requests are sent in between as documented.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from ottla.coordinator.controller.events import (
    AlterMoves,
    ControllerDecision,
    ControlRequest,
    MovesAsked,
)
from ottla.coordinator.controller.moves import MoveStep, begin, elect, finish, next_step, shrink
from ottla.coordinator.controller.settlement import Settlement
from ottla.coordinator.controller.specs import MoveSpec, PartitionResult
from ottla.coordinator.controller.writes import (
    WriteList,
    find_size_fault,
    lives_of_leaders,
    payload_of,
    topic_data,
)
from ottla.coordinator.metadata.changes import PartitionChanged
from ottla.coordinator.metadata.delta import next_image
from ottla.coordinator.metadata.image import KEEP_FORMAT, keeps_format
from ottla.coordinator.store import paths
from ottla.coordinator.store.store import Delete, Operation, Replace
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ottla.coordinator.controller.context import ControllerContext
    from ottla.coordinator.controller.leadership import Circumstances
    from ottla.coordinator.metadata.image import MetadataImage, PartitionState

# Partitions of one topic that are written together with the topic's znode.
PARTITIONS_PER_UNIT = 400

States = dict[TopicPartition, "PartitionState"]


def alter(context: ControllerContext, event: AlterMoves) -> ControllerDecision:
    """Begin, replace or cancel moves; each partition gets its own result."""
    results: dict[TopicPartition, PartitionResult] = {}
    begun: States = {}
    for spec in event.moves:
        outcome = _alter(context, spec, event.allow_factor_change)
        results[spec.partition] = PartitionResult(spec.partition)
        if isinstance(outcome, PartitionResult):
            results[spec.partition] = outcome
        else:
            begun |= outcome
    for item, fault in _too_large(context.image, begun).items():
        del begun[item]
        results[item] = PartitionResult(item, ErrorCode.POLICY_VIOLATION, fault)
    return _begin(context, begun, tuple(results.values()))


def asked(context: ControllerContext, event: MovesAsked) -> ControllerDecision:
    """Begin or continue the moves that the znode requests."""
    context.asked_moves = dict(event.targets or {})
    context.asked_version = event.version
    begun: States = {}
    for item, target in sorted(context.asked_moves.items()):
        outcome = _alter(context, MoveSpec(item, target), allow_factor_change=True)
        if not isinstance(outcome, PartitionResult):
            begun |= outcome
    for item in _too_large(context.image, begun):
        del begun[item]
    return _begin(context, begun, ())


def _too_large(image: MetadataImage, begun: States) -> dict[TopicPartition, str]:
    """Partitions whose topics would not fit into the store during all these moves."""
    faults: dict[TopicPartition, str] = {}
    for name in {item.topic for item in begun}:
        partitions = dict(image.topics[name].partitions)
        partitions |= {item.partition: state for item, state in begun.items() if item.topic == name}
        fault = find_size_fault(replace(image.topics[name], partitions=partitions))
        if fault is not None:
            faults |= {item: fault for item in begun if item.topic == name}
    return faults


def _begin(
    context: ControllerContext, begun: States, results: tuple[PartitionResult, ...]
) -> ControllerDecision:
    before = context.image
    writes = WriteList()
    _write_with_assignments(writes, context, begun)
    done = writes.finish()
    writer = context.writer(context.after(done))
    messages = [*writer.announce(sorted(begun))] if begun else []
    dropped: dict[int, list[TopicPartition]] = defaultdict(list)
    for item, state in sorted(begun.items()):
        known = before.topics[item.topic].partitions[item.partition]
        # Replicas take another set of replicas only with a higher leader epoch.
        assert state.leader_epoch > known.leader_epoch or not known.has_state
        for node_id in before.topics[item.topic].partitions[item.partition].replicas:
            if node_id not in state.replicas:
                dropped[node_id].append(item)
    for node_id in sorted(dropped):
        messages += writer.stop(node_id, dropped[node_id], delete=True)
    return ControllerDecision(done, tuple(messages), results, f"{len(begun)} moves begin")


def _alter(
    context: ControllerContext, spec: MoveSpec, allow_factor_change: bool
) -> States | PartitionResult:
    """The partition's next state, none if nothing changes, or the error."""
    item = spec.partition
    topic = context.image.topics.get(item.topic)
    state = context.image.partition(item.topic, item.partition)
    if topic is None or state is None or item.topic in context.deleting:
        text = "there is no such partition"
        return PartitionResult(item, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    target = spec.replicas
    if target is None:
        if not state.is_moving:
            return PartitionResult(item, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        target = state.origin
    else:
        fault = _find_fault(context, state, target)
        if fault is None and keeps_format(context.image.config("topics", item.topic)):
            added = sorted(set(target) - set(state.origin))
            text = f"{KEEP_FORMAT} is set: messages of format 1 are not copied to another broker"
            fault = text if added else None
        if fault is not None:
            return PartitionResult(item, ErrorCode.INVALID_REPLICA_ASSIGNMENT, fault)
        if not allow_factor_change and len(target) != len(state.origin):
            text = f"{len(target)} replicas instead of {len(state.origin)}"
            return PartitionResult(item, ErrorCode.INVALID_REPLICATION_FACTOR, text)
        if state.target == target:
            return {}
    settlement = Settlement(context)
    now = settlement.at(item, state, settlement.circumstances(context.image, topic))
    begun = begin(state, target, now)
    if begun is None:
        text = f"no broker of {list(target)} and {list(state.origin)} could lead: none is in sync"
        return PartitionResult(item, ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    return {item: begun}


def _find_fault(
    context: ControllerContext, state: PartitionState, target: Sequence[int]
) -> str | None:
    if not target:
        return "a partition without replicas"
    if len(set(target)) != len(target):
        return f"the same broker twice in {list(target)}"
    # Only added replicas must be alive: moving away from dead ones must be possible.
    unknown = sorted(set(target) - set(state.origin) - context.image.brokers.keys())
    return f"no live broker has id {unknown[0]}" if unknown else None


def advance(context: ControllerContext) -> ControllerDecision | None:
    """The next step of every move that can take one; None when all of them wait."""
    elected: States = {}
    shrunk: States = {}
    over: States = {}
    by_topic: dict[str, Circumstances] = {}
    settlement = Settlement(context)
    for item in sorted(context.moving):
        if item.topic in context.deleting:
            continue
        topic = context.image.topics[item.topic]
        if item.topic not in by_topic:
            by_topic[item.topic] = settlement.circumstances(context.image, topic)
        state = topic.partitions[item.partition]
        assert state.is_moving, "the set of moves follows the image"
        now = settlement.at(item, state, by_topic[item.topic])
        match next_step(state, now):
            case MoveStep.ELECT:
                elected[item] = elect(state, now)
            case MoveStep.SHRINK if context.stopped.get(item) == state.leader_epoch:
                over[item] = finish(state)
            case MoveStep.SHRINK:
                shrunk[item] = shrink(state, now)
            case MoveStep.WAIT:
                pass
    if elected:
        return _elect(context, elected)
    if shrunk:
        return _shrink(context, shrunk)
    return _finish(context, over) if over else _trim_asked(context)


def _elect(context: ControllerContext, elected: States) -> ControllerDecision:
    writes = WriteList()
    _write_states(writes, context, elected)
    done = writes.finish()
    messages = context.writer(context.after(done)).announce(sorted(elected))
    return ControllerDecision(done, tuple(messages), reason=f"{len(elected)} moves: new leaders")


def _shrink(context: ControllerContext, shrunk: States) -> ControllerDecision:
    """Reduce the replicas to the new ones; the old ones are stopped and deleted."""
    writes = WriteList()
    _write_states(writes, context, shrunk)
    done = writes.finish()
    after = context.after(done)
    # Ahead of the store, as the last step will write it: else the leader would let the old
    # replicas back in as long as they fetch.
    ahead = next_image(after, _finished(after, shrunk))
    messages: list[ControlRequest] = [*context.writer(ahead).announce(sorted(shrunk))]
    messages += _removals(context, after, shrunk)
    # Only these writes create states of these epochs: if they are refused, nothing is stopped.
    context.stopped |= {item: state.leader_epoch for item, state in shrunk.items()}
    assert context.stopped.keys() <= context.moving
    return ControllerDecision(done, tuple(messages), reason=f"{len(shrunk)} moves: old replicas go")


def _finished(image: MetadataImage, items: Iterable[TopicPartition]) -> list[PartitionChanged]:
    return [
        PartitionChanged(*item, finish(image.topics[item.topic].partitions[item.partition]))
        for item in items
    ]


def _removals(
    context: ControllerContext, image: MetadataImage, items: Iterable[TopicPartition]
) -> list[ControlRequest]:
    leaving: dict[int, list[TopicPartition]] = defaultdict(list)
    for item in sorted(items):
        for node_id in image.topics[item.topic].partitions[item.partition].removing:
            leaving[node_id].append(item)
    writer = context.writer(image)
    return [
        request
        for node_id in sorted(leaving)
        for request in writer.stop(node_id, leaving[node_id], delete=True)
    ]


def _finish(context: ControllerContext, over: States) -> ControllerDecision:
    writes = WriteList()
    _write_with_assignments(writes, context, over, with_states=False)
    done = writes.finish()
    messages = context.writer(context.after(done)).update(sorted(over))
    return ControllerDecision(done, tuple(messages), reason=f"{len(over)} moves are over")


def _write_states(
    writes: WriteList,
    context: ControllerContext,
    states: Mapping[TopicPartition, PartitionState],
) -> None:
    for item, state in sorted(states.items()):
        writes.add_state(item.topic, item.partition, state, context.image.brokers)


def _write_with_assignments(
    writes: WriteList,
    context: ControllerContext,
    states: Mapping[TopicPartition, PartitionState],
    *,
    with_states: bool = True,
) -> None:
    """The topics' assignments, in the same groups as the states that belong to them."""
    by_topic: dict[str, list[TopicPartition]] = defaultdict(list)
    for item in sorted(states):
        by_topic[item.topic].append(item)
    for name, items in by_topic.items():
        known = context.image.topics[name]
        partitions = dict(known.partitions)
        for count, start in enumerate(range(0, len(items), PARTITIONS_PER_UNIT)):
            operations: list[Operation] = []
            changes = []
            for item in items[start : start + PARTITIONS_PER_UNIT]:
                state = states[item]
                if with_states and state.has_state:
                    path, data = paths.state(*item), paths.build_state(payload_of(state))
                    operations.append(Replace(path, data, state.partition_epoch))
                    state = replace(state, partition_epoch=state.partition_epoch + 1)
                partitions[item.partition] = state
                changes.append(PartitionChanged(*item, state))
            data = topic_data(replace(known, partitions=partitions))
            version = context.topic_version(name, count)
            # The last step changes no state, and relies on nothing that the one before did not.
            led = [states[item] for item in items[start:][:PARTITIONS_PER_UNIT] if with_states]
            lives = lives_of_leaders(led, context.image.brokers)
            writes.add([Replace(paths.topic(name), data, version), *operations], changes, lives)


def _trim_asked(context: ControllerContext) -> ControllerDecision | None:
    """Remove finished moves from the znode that requested them; delete it with the last one.

    Finished includes moves that were refused, cancelled or replaced through the API, or whose topic
    was deleted."""
    if context.asked_version < 0:
        return None
    left = {}
    for item, target in sorted(context.asked_moves.items()):
        state = context.image.partition(item.topic, item.partition)
        if state is not None and state.is_moving and state.target == target:
            left[item] = target
    if left and left == context.asked_moves:
        return None
    operation: Operation = Delete(paths.REASSIGN_PARTITIONS, context.asked_version)
    if left:
        data = paths.build_moves(left)
        operation = Replace(paths.REASSIGN_PARTITIONS, data, context.asked_version)
    writes = WriteList()
    writes.add([operation])
    return ControllerDecision(writes.finish(), reason="moves that were asked for are done")
