"""Handles brokers that register, disappear, restart, shut down or are suspected dead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.controller import deletions
from ottla.coordinator.controller.brokers import BrokerDifference, compare_brokers
from ottla.coordinator.controller.events import (
    BrokerAnswers,
    BrokersRead,
    BrokerSuspected,
    ControllerDecision,
    ControlRequest,
    ShutdownAsked,
)
from ottla.coordinator.controller.settlement import Settlement
from ottla.coordinator.controller.specs import ShutdownResult
from ottla.coordinator.controller.writes import WriteList
from ottla.coordinator.metadata.changes import BrokerChanged, BrokerGone, Change
from ottla.coordinator.metadata.delta import next_image
from ottla.coordinator.metadata.image import NO_LEADER
from ottla.coordinator.store import paths
from ottla.coordinator.store.store import Create, Operation, Replace
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.coordinator.controller.context import ControllerContext
    from ottla.coordinator.controller.events import Write
    from ottla.coordinator.metadata.image import MetadataImage
    from ottla.protocol.ids import TopicPartition


def on_brokers(context: ControllerContext, event: BrokersRead, now_ms: float) -> ControllerDecision:
    """Registrations differ: fail the gone brokers, start the new ones, both for restarted ones."""
    difference = compare_brokers(context.image.brokers, event.brokers, context.seen)
    changes: list[Change] = [BrokerGone(node_id) for node_id in difference.gone]
    changes += [BrokerChanged(one) for one in (*difference.started, *difference.moved)]
    if not changes:
        return ControllerDecision(reason="the same brokers")
    context.joined_ms |= dict.fromkeys(difference.restarted_ids, now_ms)
    image = next_image(context.image, changes)
    assert image.brokers.keys().isdisjoint(difference.gone)
    writes = WriteList()
    affected = context.held_by(difference.restarted_ids | set(difference.gone), image)
    changed = Settlement(context).settle(writes, image, affected, difference)
    # Last: while a part is refused, the next reading must find the difference again.
    writes.add([], changes)
    mark_seen(context, writes, difference)
    done = writes.finish()
    assert ends_with_marks(done, difference)
    writer = context.writer(context.after(done), difference.restarted_ids)
    messages = [
        request
        for request in writer.announce(changed, context.new(changed))
        if request.node_id not in difference.restarted_ids
    ]
    for node_id in sorted(difference.restarted_ids):
        messages += deletions.remind(context, writer, node_id)
        messages += writer.welcome(node_id)
    return ControllerDecision(done, tuple(messages), reason="brokers changed")


def mark_seen(context: ControllerContext, writes: WriteList, difference: BrokerDifference) -> None:
    """Record the generations as the last write: a controller that dies before repeats the rest."""
    for broker in difference.started:
        path = paths.seen_generation(broker.node_id)
        data = paths.build_number(broker.generation)
        operation: Operation = Create(path, data)
        if broker.node_id in context.seen:
            operation = Replace(path, data)
        writes.add([operation])


def ends_with_marks(writes: Sequence[Write], difference: BrokerDifference) -> bool:
    """Whether no write follows the marks: a broker that is marked is not handled again (C-15)."""
    if not difference.started:
        return True
    last = paths.seen_generation(difference.started[-1].node_id)
    return writes[-1].operations[-1].path == last


def on_suspected(context: ControllerContext, event: BrokerSuspected) -> ControllerDecision:
    """Have other ISR members take over, as if the broker's session had ended.

    Safe even if it is alive: it is fenced by the epochs, as after any election."""
    broker = context.image.brokers.get(event.node_id)
    if broker is None or broker.generation != event.generation:
        return ControllerDecision(reason="not the broker that is registered")
    context.suspected[event.node_id] = event.generation
    return _take_over(context, event.node_id, f"broker {event.node_id} seems to be dead")


def on_answers(context: ControllerContext, event: BrokerAnswers) -> ControllerDecision:
    """Return to the broker the roles that no other broker could take over."""
    context.suspected.pop(event.node_id, None)
    return _take_over(context, event.node_id, f"broker {event.node_id} answers again")


def _take_over(context: ControllerContext, node_id: int, reason: str) -> ControllerDecision:
    writes = WriteList()
    held = context.held_by([node_id], context.image)
    changed = Settlement(context).settle(writes, context.image, held, None)
    done = writes.finish()
    if not changed:
        return ControllerDecision(reason=reason)
    messages = context.writer(context.after(done)).announce(changed, context.new(changed))
    return ControllerDecision(done, tuple(messages), reason=reason)


def on_shutdown(context: ControllerContext, event: ShutdownAsked) -> ControllerDecision:
    """Move all roles off a broker that is about to stop; it gets none until it restarts.

    It keeps those for which it is the last ISR member."""
    broker = context.image.brokers.get(event.node_id)
    if broker is None:
        return _refused(ErrorCode.BROKER_NOT_AVAILABLE, "a broker that is not registered")
    if event.generation not in (-1, broker.generation):
        return _refused(ErrorCode.STALE_BROKER_EPOCH, "a shutdown of another life of the broker")
    node_id = event.node_id
    context.leaving[node_id] = broker.generation
    assert node_id in context.away(context.image), "a stopping broker would get its roles back"
    held = context.held_by([node_id], context.image)
    writes = WriteList()
    changed = Settlement(context).settle(writes, context.image, held, None)
    done = writes.finish()
    image = context.after(done)
    writer = context.writer(image)
    messages: list[ControlRequest] = [*writer.announce(changed, context.new(changed))]
    messages += writer.stop(node_id, _relieved(image, node_id, held), delete=False)
    remaining = tuple(item for item in held if _is_needed(image, node_id, item))
    reply = ShutdownResult(ErrorCode.NONE, remaining)
    return ControllerDecision(done, tuple(messages), reply, f"broker {node_id} shuts down")


def _relieved(
    image: MetadataImage, node_id: int, held: Sequence[TopicPartition]
) -> list[TopicPartition]:
    """Followers outside the ISR there; if they kept fetching, they would rejoin it (R-24)."""
    return [
        item
        for item in held
        if (state := image.topics[item.topic].partitions[item.partition]).has_state
        and node_id not in state.isr
        and state.leader not in (node_id, NO_LEADER)
    ]


def _is_needed(image: MetadataImage, node_id: int, item: TopicPartition) -> bool:
    state = image.topics[item.topic].partitions[item.partition]
    return state.leader == node_id and len(state.replicas) > 1


def _refused(error_code: ErrorCode, reason: str) -> ControllerDecision:
    return ControllerDecision(reply=ShutdownResult(error_code), reason=reason)
