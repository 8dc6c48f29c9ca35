"""One image and some changes give the next image and the list of what is different in it."""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

from ottla.coordinator.metadata.changes import (
    BrokerChanged,
    BrokerGone,
    Change,
    ConfigChanged,
    ConfigGone,
    ControllerChanged,
    PartitionChanged,
    TopicChanged,
    TopicGone,
)
from ottla.protocol.data_classes import dataclass
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ottla.coordinator.metadata.image import (
        BrokerRegistration,
        Entity,
        MetadataImage,
        PartitionState,
        TopicImage,
    )
    from ottla.protocol.ids import Uuid


class PartitionDelta(NamedTuple):
    """A partition that came (no ``before``), went (no ``after``) or is different."""

    topic: str
    partition: int
    before: PartitionState | None
    after: PartitionState | None


@dataclass(slots=True)
class MetadataDelta:
    """What differs between two images. A topic that was made again under its name is in both
    lists, with its old id in ``gone_topics``."""

    before: MetadataImage
    after: MetadataImage
    brokers: list[BrokerRegistration] = field(default_factory=list)
    gone_brokers: list[int] = field(default_factory=list)
    made_topics: list[TopicImage] = field(default_factory=list)
    gone_topics: list[TopicImage] = field(default_factory=list)
    partitions: list[PartitionDelta] = field(default_factory=list)
    configs: list[Entity] = field(default_factory=list)
    has_new_controller: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether the two images say the same."""
        return not (
            self.brokers
            or self.gone_brokers
            or self.made_topics
            or self.gone_topics
            or self.partitions
            or self.configs
            or self.has_new_controller
        )


def next_image(image: MetadataImage, changes: Iterable[Change]) -> MetadataImage:
    """The image after the changes, made in their order."""
    drawing = _Drawing(image)
    for change in changes:
        drawing.take(change)
    return drawing.finish()


def apply_changes(image: MetadataImage, changes: Iterable[Change]) -> MetadataDelta:
    """The next image and what differs; a change that changes nothing is not in the result.

    What no change names is not compared: a cluster may have ten thousand topics."""
    drawing = _Drawing(image)
    for change in changes:
        drawing.take(change)
    return _compare(image, drawing.finish(), drawing)


class _Drawing:
    """The next image while it is made; a part of the old one is copied when first written to.

    ``topics`` and ``configs``: what the changes named."""

    def __init__(self, image: MetadataImage) -> None:
        self._before = image
        self._after = image
        self._brokers = dict(image.brokers)
        self._topics: dict[str, TopicImage] | None = None
        self._partitions: dict[str, dict[int, PartitionState]] = {}
        self._configs: dict[Entity, Mapping[str, str]] | None = None
        self.topics: set[str] = set()
        self.configs: set[Entity] = set()

    def take(self, change: Change) -> None:
        match change:
            case ControllerChanged(node_id, epoch):
                self._after = replace(self._after, controller_id=node_id, controller_epoch=epoch)
            case BrokerChanged(broker):
                self._brokers[broker.node_id] = broker
            case BrokerGone(node_id):
                self._brokers.pop(node_id, None)
            case TopicChanged(topic):
                self._partitions.pop(topic.name, None)
                self.topics.add(topic.name)
                self._own_topics()[topic.name] = topic
            case TopicGone(name):
                self._partitions.pop(name, None)
                self.topics.add(name)
                self._own_topics().pop(name, None)
            case PartitionChanged(name, index, state):
                self._own_partitions(name)[index] = state
            case ConfigChanged(entity, values):
                self.configs.add(entity)
                self._own_configs()[entity] = values
            case ConfigGone(entity):
                self.configs.add(entity)
                self._own_configs().pop(entity, None)

    def finish(self) -> MetadataImage:
        after = self._after
        if self._brokers != self._before.brokers:
            after = replace(after, brokers=self._brokers)
        if self._topics is not None:
            for name, partitions in self._partitions.items():
                self._topics[name] = replace(self._topics[name], partitions=partitions)
            after = replace(after, topics=self._topics, names=self._names(self._topics))
        if self._configs is not None:
            after = replace(after, configs=self._configs)
        return after

    def _own_topics(self) -> dict[str, TopicImage]:
        if self._topics is None:
            self._topics = dict(self._before.topics)
        return self._topics

    def _own_configs(self) -> dict[Entity, Mapping[str, str]]:
        if self._configs is None:
            self._configs = dict(self._before.configs)
        return self._configs

    def _own_partitions(self, name: str) -> dict[int, PartitionState]:
        topics = self._own_topics()
        assert name in topics, "a partition's topic comes first"
        if name not in self._partitions:
            self.topics.add(name)
            self._partitions[name] = dict(topics[name].partitions)
        return self._partitions[name]

    def _names(self, topics: Mapping[str, TopicImage]) -> Mapping[Uuid, str]:
        old = self._before.topics
        other = [name for name in self.topics if _id_of(old.get(name)) != _id_of(topics.get(name))]
        if not other:
            return self._before.names
        names = dict(self._before.names)
        for name in other:
            if name in old and names.get(old[name].topic_id) == name:
                del names[old[name].topic_id]
        for name in other:
            if name in topics:
                names[topics[name].topic_id] = name
        return names


def _id_of(topic: TopicImage | None) -> Uuid | None:
    return None if topic is None else topic.topic_id


def _compare(before: MetadataImage, after: MetadataImage, drawing: _Drawing) -> MetadataDelta:
    delta = MetadataDelta(before, after)
    delta.has_new_controller = (before.controller_id, before.controller_epoch) != (
        after.controller_id,
        after.controller_epoch,
    )
    if before.brokers is not after.brokers:
        for node_id in sorted(after.brokers):
            if after.brokers[node_id] != before.brokers.get(node_id):
                delta.brokers.append(after.brokers[node_id])
        delta.gone_brokers = sorted(before.brokers.keys() - after.brokers.keys())
    if before.topics is not after.topics:
        for name in sorted(drawing.topics):
            _compare_topic(delta, before.topics.get(name), after.topics.get(name))
    if before.configs is not after.configs:
        delta.configs = [
            entity
            for entity in sorted(drawing.configs)
            if before.configs.get(entity) != after.configs.get(entity)
        ]
    return delta


def _compare_topic(delta: MetadataDelta, old: TopicImage | None, new: TopicImage | None) -> None:
    if old is new:
        return
    if old is not None and (new is None or old.topic_id != new.topic_id):
        delta.gone_topics.append(old)
        for index in sorted(old.partitions):
            delta.partitions.append(PartitionDelta(old.name, index, old.partitions[index], None))
        old = None
    if new is None:
        return
    if old is None:
        delta.made_topics.append(new)
    known: Mapping[int, PartitionState] = {} if old is None else old.partitions
    for index in sorted(known.keys() | new.partitions.keys()):
        pair = known.get(index), new.partitions.get(index)
        if pair[0] != pair[1]:
            delta.partitions.append(PartitionDelta(new.name, index, *pair))
