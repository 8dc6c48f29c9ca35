"""Handles brokers' reports about replicas: lost with a disk, back again, refused roles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.controller.events import (
    ControllerDecision,
    DirectoryFailed,
    ReplicasBack,
    ReplicasFailed,
    RoomRead,
)
from ottla.coordinator.controller.settlement import Settlement
from ottla.coordinator.controller.writes import WriteList

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.coordinator.controller.context import ControllerContext
    from ottla.protocol.ids import TopicPartition

# How long a broker whose disk has room again may take to come back into the ISRs.
RELIEVED_FOR_MS = 120_000.0


def on_failed(context: ControllerContext, event: ReplicasFailed) -> ControllerDecision:
    """Have other replicas take over what a failed disk held."""
    offline = context.offline.setdefault(event.node_id, set())
    # Known losses are not announced: the broker would refuse that as well, without end. But a
    # decision that the store refused is repeated.
    news = [
        item
        for item in event.partitions
        if context.has(item) and (item not in offline or _is_needed(context, event.node_id, item))
    ]
    offline.update(event.partitions)
    return _settled(context, news, f"broker {event.node_id} lost replicas")


def _is_needed(context: ControllerContext, node_id: int, item: TopicPartition) -> bool:
    """Whether the broker still has a role that other replicas could take over."""
    state = context.image.topics[item.topic].partitions[item.partition]
    return state.leader == node_id or (node_id in state.isr and len(state.isr) > 1)


def on_back(context: ControllerContext, event: ReplicasBack) -> ControllerDecision:
    """Replicas that were offline can be served again."""
    back = context.offline_on(event.node_id).intersection(event.partitions)
    context.offline.get(event.node_id, set()).difference_update(back)
    items = [item for item in sorted(event.partitions) if context.has(item)]
    decision = _settled(context, items, f"broker {event.node_id} has replicas back")
    # Known replicas are not announced, but a decision that the store refused is repeated.
    return (
        decision if back or decision.records else ControllerDecision(reason="nothing was missing")
    )


def on_directory_failed(context: ControllerContext, event: DirectoryFailed) -> ControllerDecision:
    """Ask the broker about all its replicas: the report does not say which are lost."""
    lost = context.offline_on(event.node_id)
    held = context.held_by([event.node_id], context.image)
    return ask(context, event.node_id, [item for item in held if item not in lost])


def ask(
    context: ControllerContext, node_id: int, items: Iterable[TopicPartition]
) -> ControllerDecision:
    """Send one broker its roles again, for the sake of its answer."""
    if node_id not in context.image.brokers:
        return ControllerDecision(reason="the broker has gone")
    known = [item for item in items if context.has(item)]
    messages = tuple(context.writer(context.image).ask(node_id, known))
    return ControllerDecision(messages=messages, reason=f"what can broker {node_id} serve")


def on_room(context: ControllerContext, event: RoomRead, now_ms: float) -> ControllerDecision:
    """Disks are full, or no longer: brokers with room take over and keep leading for now.

    Settles even without news: a decision that the store refused is repeated, and so is one whose
    outcome a leader has undone. A controller that has just begun finds in a report of room that
    there was none a short time ago."""
    until_ms = now_ms + RELIEVED_FOR_MS + context.settings.balance_after_in_sync_ms
    full = {one: report for one, report in event.reports.items() if report.is_full}
    with_room = event.reports.keys() - full.keys()
    for node_id in (context.full.keys() - full.keys()) | (with_room - context.room_noted):
        context.relieved[node_id] = until_ms
        # Room that does not last must not make leaderships flap.
        context.joined_ms[node_id] = now_ms
    for node_id in full:
        context.relieved.pop(node_id, None)
    context.full, context.room_noted = full, frozenset(with_room)
    assert context.relieved.keys().isdisjoint(context.full)
    held = context.held_by(context.full.keys(), context.image)
    writes = WriteList()
    changed = Settlement(context).settle(writes, context.image, held, None)
    if not changed:
        return ControllerDecision(reason="no in-sync replica with room can take over")
    done = writes.finish()
    messages = context.writer(context.after(done)).announce(changed, context.new(changed))
    return ControllerDecision(done, tuple(messages), reason="disks are full")


def _settled(
    context: ControllerContext, items: list[TopicPartition], reason: str
) -> ControllerDecision:
    writes = WriteList()
    changed = Settlement(context).settle(writes, context.image, items, None)
    done = writes.finish()
    # Also those whose leadership stays are told about: their list of offline replicas changed.
    messages = context.writer(context.after(done)).announce(items, context.new(changed))
    return ControllerDecision(done, tuple(messages), reason=reason)
