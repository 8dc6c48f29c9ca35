"""What a controller knows of the whole cluster, under the names of Kafka's JMX exporter.

Brokers that are not the controller say 0, as Kafka's do, so that sums over brokers are right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.metrics.exposition import gauge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ottla.broker.metadata.metadata import MetadataCache
    from ottla.broker.metrics.exposition import Family
    from ottla.coordinator.metadata.image import MetadataImage, PartitionState

_PREFIX = "kafka_controller_kafkacontroller_"


def _count(
    image: MetadataImage, holds: Callable[[MetadataImage, PartitionState], bool] | None = None
) -> int:
    return sum(
        holds is None or holds(image, state)
        for topic in image.topics.values()
        for state in topic.partitions.values()
    )


def _is_offline(image: MetadataImage, state: PartitionState) -> bool:
    return state.leader not in image.brokers


def _is_imbalanced(_image: MetadataImage, state: PartitionState) -> bool:
    return state.leader != state.replicas[0]


# A row is a gauge: name, meaning, and how the controller reads it in its image.
_ROWS: tuple[tuple[str, str, Callable[[MetadataImage], int]], ...] = (
    ("activecontrollercount", "1 on the controller.", lambda _image: 1),
    ("activebrokercount", "Live brokers.", lambda image: len(image.brokers)),
    ("globaltopiccount", "Topics.", lambda image: len(image.topics)),
    ("globalpartitioncount", "Partitions.", _count),
    (
        "offlinepartitionscount",
        "Partitions without a live leader.",
        lambda image: _count(image, _is_offline),
    ),
    (
        "preferredreplicaimbalancecount",
        "Partitions that are not led by their preferred replica.",
        lambda image: _count(image, _is_imbalanced),
    ),
)


def controller_families(node_id: int, metadata: MetadataCache) -> Iterator[Family]:
    """All 0 unless this broker is the controller."""
    image = metadata.image
    is_controller = image.controller_id == node_id
    for name, documentation, read in _ROWS:
        yield gauge(_PREFIX + name, documentation, read(image) if is_controller else 0)
