"""What kafka_exporter tells about a cluster, under its names, so that its dashboards work.

Each figure is told by one broker: that of a partition by its leader (by the controller while there
is none), that of the cluster by the controller, that of a group by its coordinator (groups.py).
Scraping all brokers then gives what one exporter gives, and sums are right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.metrics.exposition import GAUGE, Family, gauge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ottla.broker.metadata.metadata import MetadataCache
    from ottla.broker.metrics.exposition import Sample
    from ottla.broker.partitions.partition import PartitionRuntime
    from ottla.broker.partitions.partitions import Partitions
    from ottla.coordinator.metadata.image import MetadataImage, PartitionState

_LABELS = ("topic", "partition")

# A row is a gauge of every partition: name, meaning, and where its figure is in the image.
_OF_STATE: tuple[tuple[str, str, Callable[[PartitionState], float]], ...] = (
    (
        "kafka_topic_partition_leader",
        "Node id of the partition's leader, -1 without one.",
        lambda state: state.leader,
    ),
    (
        "kafka_topic_partition_leader_is_preferred",
        "1 if the partition is led by its preferred replica.",
        lambda state: int(state.leader == state.replicas[0]),
    ),
    (
        "kafka_topic_partition_replicas",
        "Replicas that the partition is assigned to.",
        lambda state: len(state.replicas),
    ),
    (
        "kafka_topic_partition_in_sync_replica",
        "Replicas of the partition that are in sync.",
        lambda state: len(state.isr),
    ),
    (
        "kafka_topic_partition_under_replicated_partition",
        "1 if some replica of the partition is not in sync.",
        lambda state: int(len(state.isr) < len(state.replicas)),
    ),
)
# A row is a gauge of every partition that is led here, read from the partition itself.
_OF_LEADER: tuple[tuple[str, str, Callable[[PartitionRuntime], float]], ...] = (
    (
        "kafka_topic_partition_current_offset",
        "The partition's high watermark: the offset of the next record that is committed.",
        lambda partition: partition.replica.high_watermark,
    ),
    (
        "kafka_topic_partition_oldest_offset",
        "The partition's log start offset.",
        lambda partition: partition.log_start_offset,
    ),
)


def cluster_families(
    node_id: int, metadata: MetadataCache, partitions: Partitions
) -> Iterator[Family]:
    """The figures that this broker tells for the cluster."""
    image = metadata.image
    is_controller = image.controller_id == node_id
    if is_controller:
        yield gauge("kafka_brokers", "Live brokers of the cluster.", len(image.brokers))
        yield Family(
            GAUGE,
            "kafka_broker_info",
            "1 for each live broker, with its id and its first address.",
            ("id", "address"),
            (
                ((str(one.node_id), f"{one.endpoints[0].host}:{one.endpoints[0].port}"), 1)
                for one in image.brokers.values()
                if one.endpoints
            ),
        )
        yield Family(
            GAUGE,
            "kafka_topic_partitions",
            "Partitions of the topic.",
            ("topic",),
            (((name,), len(topic.partitions)) for name, topic in image.topics.items()),
        )
    for name, documentation, figure in _OF_STATE:
        samples = _states(node_id, image, figure, of_nobody=is_controller)
        yield Family(GAUGE, name, documentation, _LABELS, samples)
    for name, documentation, read in _OF_LEADER:
        yield Family(GAUGE, name, documentation, _LABELS, _led(partitions, read))


def _states(
    node_id: int,
    image: MetadataImage,
    figure: Callable[[PartitionState], float],
    *,
    of_nobody: bool,
) -> Iterator[Sample]:
    # An image never changes, so this may walk over it however long the scrape takes.
    for name, topic in image.topics.items():
        for index, state in topic.partitions.items():
            if state.leader == node_id or (of_nobody and state.leader not in image.brokers):
                yield (name, str(index)), figure(state)


def _led(partitions: Partitions, read: Callable[[PartitionRuntime], float]) -> Iterator[Sample]:
    for one in partitions:
        if one.replica.is_leader:
            yield (one.partition.topic, str(one.partition.partition)), read(one)
