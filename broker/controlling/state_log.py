"""The log of state changes: brokers, topics and elections, one line for simultaneous changes.

At debug level it also logs the states of each replica.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING

from ottla.broker.engine.log_summary import counted, named
from ottla.coordinator.controller.states import StateChanges
from ottla.coordinator.metadata.changes import (
    BrokerChanged,
    BrokerGone,
    Change,
    PartitionChanged,
    TopicChanged,
    TopicGone,
)
from ottla.coordinator.metadata.image import NO_LEADER
from ottla.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ottla.coordinator.controller.events import Write
    from ottla.coordinator.metadata.image import MetadataImage

logger = logging.getLogger("ottla.state_change")


class StateLog:
    """Owned by one controllership; follows what the store has accepted."""

    def __init__(self, image: MetadataImage) -> None:
        # Following every replica costs memory and time: only with debug logging.
        wanted = logger.isEnabledFor(logging.DEBUG)
        self._changes = StateChanges(image) if wanted else None

    def take(self, before: MetadataImage, write: Write) -> None:
        """Log a write that changed that image."""
        for sentence in _events(before, write.changes):
            logger.info("%s", sentence)
        leaderless = _without_leader(before, write.changes)
        if leaderless:
            logger.warning(
                "no replica leads %s any more: %s",
                counted(len(leaderless), "partition"),
                named(leaderless),
            )
        for change in write.changes:
            if isinstance(change, PartitionChanged) and change.state.is_recovering:
                self._warn(before, change)
            if self._changes is not None:
                for one in self._changes.take(change):
                    who = "" if one.node_id is None else f" on broker {one.node_id}"
                    logger.debug(
                        "%s-%d%s: %s -> %s", *one.item, who, one.before.value, one.after.value
                    )

    def _warn(self, before: MetadataImage, change: PartitionChanged) -> None:
        old, new = before.partition(change.topic, change.partition), change.state
        if old is None or old.leader_epoch == new.leader_epoch or new.leader in old.isr:
            return
        logger.warning(
            "%s-%d: broker %d leads with epoch %d though it was not in sync; "
            "records that only %s had are lost",
            change.topic,
            change.partition,
            new.leader,
            new.leader_epoch,
            ", ".join(str(node_id) for node_id in old.isr) or "others",
        )


def _events(before: MetadataImage, changes: Sequence[Change]) -> Iterator[str]:
    """Yield a sentence for each broker and topic, and one for all elections."""
    elected: Counter[int] = Counter()
    for change in changes:
        match change:
            case BrokerChanged(broker):
                if broker.node_id not in before.brokers:
                    yield f"broker {broker.node_id} has joined the cluster"
            case BrokerGone(node_id):
                yield f"broker {node_id} has left the cluster"
            case TopicChanged(topic):
                if topic.name not in before.topics:
                    count = counted(len(topic.partitions), "partition")
                    yield f"topic {topic.name} was created with {count}"
            case TopicGone(name):
                yield f"topic {name} was deleted"
            case PartitionChanged(topic_name, partition, state):
                old = before.partition(topic_name, partition)
                if old is not None and state.leader not in (old.leader, NO_LEADER):
                    elected[state.leader] += 1
    if elected:
        shares = ", ".join(
            f"broker {node_id} leads {elected[node_id]}" for node_id in sorted(elected)
        )
        verb = "has" if elected.total() == 1 else "have"
        yield f"{counted(elected.total(), 'partition')} {verb} a new leader: {shares}"


def _without_leader(before: MetadataImage, changes: Sequence[Change]) -> list[TopicPartition]:
    return [
        TopicPartition(change.topic, change.partition)
        for change in changes
        if isinstance(change, PartitionChanged)
        and change.state.leader == NO_LEADER
        and (old := before.partition(change.topic, change.partition)) is not None
        and old.leader != NO_LEADER
    ]
