"""Handles changes of topics by others: assignments, ISRs and settings that were re-read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ottla.coordinator.controller import deletions
from ottla.coordinator.controller.context import every_partition
from ottla.coordinator.controller.events import (
    ConfigRead,
    ControllerDecision,
    ControlRequest,
    StatesRead,
    TopicsRead,
)
from ottla.coordinator.controller.settlement import UNCLEAN_ELECTION, Settlement
from ottla.coordinator.controller.writes import WriteList, topic_data
from ottla.coordinator.metadata.changes import (
    Change,
    ConfigChanged,
    ConfigGone,
    PartitionChanged,
    TopicChanged,
    TopicGone,
)
from ottla.coordinator.metadata.delta import next_image
from ottla.coordinator.store import paths
from ottla.coordinator.store.store import ANY_VERSION, Check, Operation, Replace
from ottla.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from ottla.coordinator.controller.context import ControllerContext
    from ottla.coordinator.metadata.image import MetadataImage, PartitionState, TopicImage


def on_topics(context: ControllerContext, event: TopicsRead) -> ControllerDecision:
    """Topics were created, deleted or have other partitions."""
    image = context.image
    gone = [image.topics[name] for name in sorted(image.topics.keys() - event.names)]
    changes: list[Change] = [TopicGone(topic.name) for topic in gone]
    touched: list[TopicPartition] = []
    writes = WriteList()
    for topic in gone:
        # One by one: an operator may remove more topics at once than fit into a write.
        writes.add(deletions.record(topic), [TopicGone(topic.name)])
    for read in event.topics:
        known = image.topics.get(read.name)
        topic = _not_older(known, read)
        if known == topic:
            continue
        if known is not None and known.topic_id != topic.topic_id:
            gone.append(known)
            writes.add(deletions.record(known))
            known = None
        change = TopicChanged(topic)
        changes.append(change)
        writes.add(_found(topic, event), [change])
        touched += [
            TopicPartition(topic.name, index)
            for index in sorted(topic.partitions)
            if known is None or known.partitions.get(index) != topic.partitions[index]
        ]
    assert not event.without_id - {read.name for read in event.topics}
    if not changes:
        return ControllerDecision(reason="the same topics")
    after = next_image(image, changes)
    changed = Settlement(context).settle(writes, after, touched, None)
    done = writes.finish()
    writer = context.writer(context.after(done))
    messages: list[ControlRequest] = [*writer.forget_topics(gone)] if gone else []
    messages += writer.announce(touched, context.new(changed)) if touched else []
    return ControllerDecision(done, tuple(messages), reason="topics changed")


def _found(topic: TopicImage, event: TopicsRead) -> list[Operation]:
    """Check that the topic is as it was read; write its id if it has none."""
    path, version = paths.topic(topic.name), event.versions.get(topic.name, ANY_VERSION)
    if topic.name in event.without_id:
        return [Replace(path, topic_data(topic), version)]
    return [] if version == ANY_VERSION else [Check(path, version)]


def _not_older(known: TopicImage | None, read: TopicImage) -> TopicImage:
    """The topic that was read, without states known to be outdated (C-21, C-24)."""
    if known is None or known.topic_id != read.topic_id:
        return read
    partitions = dict(read.partitions)
    for index, state in known.partitions.items():
        found = partitions.get(index)
        if found is not None and found.partition_epoch < state.partition_epoch:
            partitions[index] = replace(
                state, replicas=found.replicas, adding=found.adding, removing=found.removing
            )
            assert partitions[index].partition_epoch > found.partition_epoch
    return replace(read, partitions=partitions)


def on_states(context: ControllerContext, event: StatesRead, now_ms: float) -> ControllerDecision:
    """Leaders changed ISRs themselves; roles stay as they are.

    Except that a broker that is shutting down or suspected is removed again (R-24)."""
    image = context.image
    changes: list[Change] = []
    changed: list[TopicPartition] = []
    for item, state in sorted(event.states.items()):
        known = image.partition(item.topic, item.partition)
        if known is not None and state.partition_epoch > known.partition_epoch:
            changes.append(PartitionChanged(item.topic, item.partition, state))
            changed.append(item)
            context.joined_ms |= dict.fromkeys(_joined(known, state), now_ms)
    if not changes:
        return ControllerDecision(reason="the same states")
    writes = WriteList()
    writes.add([], changes)
    away = context.away(image)
    late = [item for item in changed if not away.isdisjoint(event.states[item].isr)]
    again = Settlement(context).settle(writes, next_image(image, changes), late, None)
    done = writes.finish()
    writer = context.writer(context.after(done))
    messages: list[ControlRequest] = []
    if again:
        messages += writer.announce(again)
    rest = sorted(set(changed) - set(again))
    if rest:
        messages += writer.update(rest)
    return ControllerDecision(done, tuple(messages), reason="leaders changed ISRs")


def _joined(before: PartitionState, after: PartitionState) -> set[int]:
    return set(after.isr) - set(before.isr)


def on_config(context: ControllerContext, event: ConfigRead) -> ControllerDecision:
    """An unclean election may have become allowed for a topic without leader, or for all."""
    entity = event.entity
    change: Change = ConfigGone(entity)
    if event.values is not None:
        change = ConfigChanged(entity, event.values)
    image = next_image(context.image, [change])
    writes = WriteList()
    touched = _concerned(context, event, image)
    changed = Settlement(context).settle(writes, image, touched, None)
    # Last: while a part is refused, the next reading must find the difference again.
    writes.add([], [change])
    done = writes.finish()
    messages = context.writer(context.after(done)).announce(changed) if changed else ()
    return ControllerDecision(done, tuple(messages), reason=f"settings of {entity.name} changed")


def _concerned(
    context: ControllerContext, event: ConfigRead, image: MetadataImage
) -> list[TopicPartition]:
    entity = event.entity
    if entity.entity_type == "topics":
        topic = image.topics.get(entity.name)
        indexes = () if topic is None else sorted(topic.partitions)
        return [TopicPartition(entity.name, index) for index in indexes]
    # Brokers are given other settings all the time, such as throttles.
    known, read = context.image.config(*entity), event.values or {}
    is_same = known.get(UNCLEAN_ELECTION) == read.get(UNCLEAN_ELECTION)
    return [] if is_same else every_partition(image)
