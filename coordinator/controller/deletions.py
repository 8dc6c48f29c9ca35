"""Tracks which brokers have yet to delete directories of deleted topics.

The record is written in the group that deletes the topic, so that no crash comes between, and
deleted when each of its brokers has answered. A dead broker is asked when it registers again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.controller.events import ControllerDecision, ControlRequest
from ottla.coordinator.controller.specs import UnregisterResult
from ottla.coordinator.controller.writes import WriteList
from ottla.coordinator.store import deleted_topics
from ottla.coordinator.store.deleted_topics import DeletedTopic
from ottla.coordinator.store.store import Create, Delete, Operation, Replace
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.coordinator.controller.context import ControllerContext
    from ottla.coordinator.controller.events import ReplicasDeleted, UnregisterBroker
    from ottla.coordinator.controller.requests import RequestWriter
    from ottla.coordinator.metadata.image import TopicImage


def record(topic: TopicImage) -> list[Operation]:
    """The operations to add to a topic's deletion; none for a topic without replicas."""
    states = topic.partitions.values()
    brokers = {node_id for state in states for node_id in (*state.replicas, *state.isr)}
    if not brokers:
        return []
    deleted = DeletedTopic(
        topic.name, topic.topic_id, max(topic.partitions) + 1, tuple(sorted(brokers))
    )
    return [Create(deleted_topics.path_of(topic.topic_id), deleted_topics.build(deleted))]


def remind(
    context: ControllerContext, writer: RequestWriter, node_id: int
) -> Iterator[ControlRequest]:
    """Ask a newly registered broker for all deletions that it has not answered."""
    return writer.remind(
        node_id,
        [
            one
            for _topic_id, one in sorted(context.deleted.items())
            if node_id in one.brokers and node_id not in context.answered.get(one.topic_id, ())
        ],
    )


def on_deleted(context: ControllerContext, event: ReplicasDeleted) -> ControllerDecision:
    """A broker has deleted all replicas of these topics.

    Written to the store once no live broker owes an answer: usually one write per topic; if the
    controller dies before, the next one asks live brokers again."""
    writes = WriteList()
    for topic_id in event.topic_ids:
        deleted = context.deleted.get(topic_id)
        if deleted is None:
            continue
        assert deleted.topic_id == topic_id, "the record proves nothing about another topic"
        answered = context.answered.setdefault(topic_id, set())
        answered.add(event.node_id)
        left = tuple(node_id for node_id in deleted.brokers if node_id not in answered)
        path = deleted_topics.path_of(topic_id)
        if not left:
            writes.add([Delete(path)])
        elif left != deleted.brokers and context.image.brokers.keys().isdisjoint(left):
            writes.add([Replace(path, deleted_topics.build(deleted._replace(brokers=left)))])
    return ControllerDecision(writes.finish(), reason=f"broker {event.node_id} deleted replicas")


def on_unregistered(context: ControllerContext, event: UnregisterBroker) -> ControllerDecision:
    """An operator says that a broker will not come back: no deletion waits for it any more.

    If it does come back, it keeps its directories of those topics and names them in a warning."""
    node_id = event.node_id
    if node_id in context.image.brokers:
        text = f"broker {node_id} is running; stop it first"
        return _refused(ErrorCode.DUPLICATE_BROKER_REGISTRATION, text)
    records = sorted(context.deleted.values(), key=lambda one: one.topic_id)
    owed = [one for one in records if node_id in one.brokers]
    if not owed:
        text = f"the cluster keeps nothing for broker {node_id}"
        return _refused(ErrorCode.BROKER_ID_NOT_REGISTERED, text)
    writes = WriteList()
    for deleted in owed:
        gone = {node_id, *context.answered.get(deleted.topic_id, ())}
        left = tuple(one for one in deleted.brokers if one not in gone)
        path = deleted_topics.path_of(deleted.topic_id)
        payload = deleted_topics.build(deleted._replace(brokers=left))
        writes.add([Replace(path, payload) if left else Delete(path)])
    return ControllerDecision(
        writes.finish(),
        reply=UnregisterResult(ErrorCode.NONE),
        reason=f"broker {node_id} will not come back: {len(owed)} deletions",
    )


def _refused(code: ErrorCode, text: str) -> ControllerDecision:
    return ControllerDecision(reply=UnregisterResult(code, text), reason=text)
