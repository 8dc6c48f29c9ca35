"""Replicas, logs and directories of this broker, under the names of Kafka's JMX exporter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.metrics.exposition import COUNTER, GAUGE, Family, gauge
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ottla.broker.log.directories.directories import LogDirectories
    from ottla.broker.metrics.exposition import Sample
    from ottla.broker.partitions.partition import PartitionRuntime
    from ottla.broker.partitions.partitions import Partitions
    from ottla.broker.partitions.traffic import Traffic

_MANAGER = "kafka_server_replicamanager_"
_LABELS = ("topic", "partition")


class _Counted(NamedTuple):
    """A gauge that counts partitions."""

    name: str
    documentation: str
    holds: Callable[[PartitionRuntime], bool]


def _is_under_replicated(one: PartitionRuntime) -> bool:
    leading = one.replica.leading
    return leading is not None and leading.insync_count < len(leading.leadership.replicas)


def _is_under_min_isr(one: PartitionRuntime) -> bool:
    leading = one.replica.leading
    return leading is not None and leading.is_under_min_insync


def _is_at_min_isr(one: PartitionRuntime) -> bool:
    leading = one.replica.leading
    return leading is not None and leading.insync_count == leading.min_insync


_COUNTED = (
    _Counted("partitioncount", "Partitions with a replica here.", lambda _one: True),
    _Counted("leadercount", "Partitions that are led here.", lambda one: one.replica.is_leader),
    _Counted(
        "underreplicatedpartitions",
        "Partitions led here with a replica that is not in sync.",
        _is_under_replicated,
    ),
    _Counted(
        "underminisrpartitioncount",
        "Partitions led here with fewer replicas in sync than min.insync.replicas.",
        _is_under_min_isr,
    ),
    _Counted(
        "atminisrpartitioncount",
        "Partitions led here with as many replicas in sync as min.insync.replicas.",
        _is_at_min_isr,
    ),
)

# A row is a gauge of every partition here.
_OF_LOG: tuple[tuple[str, str, Callable[[PartitionRuntime], float]], ...] = (
    ("kafka_log_log_size", "Bytes of the partition's log.", lambda one: one.log.size_bytes),
    (
        "kafka_log_log_logstartoffset",
        "First offset of the partition's log.",
        lambda one: one.log.log_start_offset,
    ),
    (
        "kafka_log_log_logendoffset",
        "Offset of the next record that is appended here.",
        lambda one: one.log.log_end_offset,
    ),
    (
        "kafka_log_log_numlogsegments",
        "Segments of the partition's log.",
        lambda one: len(one.log.segments),
    ),
    (
        "kafka_cluster_partition_underminisr",
        "1 if it is led here with fewer replicas in sync than min.insync.replicas.",
        lambda one: int(_is_under_min_isr(one)),
    ),
    (
        "kafka_cluster_partition_atminisr",
        "1 if it is led here with as many replicas in sync as min.insync.replicas.",
        lambda one: int(_is_at_min_isr(one)),
    ),
)

# A row is a counter of every topic.
_OF_TOPIC: tuple[tuple[str, str, Callable[[Traffic], float]], ...] = (
    ("messagesin", "Records that clients appended here.", lambda topic: topic.appended_count),
    ("bytesin", "Bytes that clients appended here.", lambda topic: topic.appended_bytes),
    ("bytesout", "Bytes that consumers fetched here.", lambda topic: topic.fetched_bytes),
    ("replicationbytesin", "Bytes copied from leaders.", lambda topic: topic.copied_bytes),
    (
        "replicationbytesout",
        "Bytes that followers fetched here.",
        lambda topic: topic.replicated_bytes,
    ),
    (
        "producemessageconversions",
        "Records of older formats that became batches here.",
        lambda topic: topic.raised_count,
    ),
    (
        "fetchmessageconversions",
        "Records that consumers fetched in older formats here.",
        lambda topic: topic.lowered_count,
    ),
)


def replica_families(partitions: Partitions) -> Iterator[Family]:
    """Replicas and their logs."""
    everything = list(partitions)
    for row in _COUNTED:
        count = sum(map(row.holds, everything))
        yield gauge(_MANAGER + row.name, row.documentation, count)
    yield gauge(
        f"{_MANAGER}offlinereplicacount",
        "Replicas on data directories that have failed.",
        partitions.offline_count,
    )
    for name, documentation, read in _OF_LOG:
        samples = ((_labels(one), read(one)) for one in partitions)
        yield Family(GAUGE, name, documentation, _LABELS, samples)
    yield Family(
        GAUGE,
        "ottla_follower_lag_records",
        "Records that a follower has not fetched yet, as its leader here sees it.",
        (*_LABELS, "follower"),
        _follower_lags(partitions),
    )
    yield from _traffic(partitions.traffic)


def directory_families(logs: LogDirectories) -> Iterator[Family]:
    """The data directories."""
    name = "kafka_log_logmanager_"
    offline = len(logs.offline_paths)
    yield gauge(f"{name}offlinelogdirectorycount", "Data directories that have failed.", offline)
    yield Family(
        GAUGE,
        f"{name}logdirectoryoffline",
        "1 if the data directory has failed.",
        ("logdirectory",),
        (((each.path,), int(not each.home.health.is_online)) for each in logs.directories),
    )


def _labels(one: PartitionRuntime) -> tuple[str, str]:
    return one.partition.topic, str(one.partition.partition)


def _follower_lags(partitions: Partitions) -> Iterator[Sample]:
    for one in partitions:
        if one.replica.leading is not None:
            end = one.log.log_end_offset
            for node_id, follower in list(one.replica.leading.followers.items()):
                lag = max(0, end - max(0, follower.log_end_offset))
                yield (*_labels(one), str(node_id)), lag


def _traffic(by_topic: dict[str, Traffic]) -> Iterator[Family]:
    for name, documentation, read in _OF_TOPIC:
        samples = [((topic,), read(traffic)) for topic, traffic in by_topic.items()]
        full_name = f"kafka_server_brokertopicmetrics_{name}_total"
        yield Family(COUNTER, full_name, documentation, ("topic",), samples)
