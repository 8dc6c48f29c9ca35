"""The pages about brokers and topics, as JSON documents. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.protocol.ids import ZERO_UUID, uuid_to_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from ottla.client.admin import ClusterDescription
    from ottla.client.administration.brokers import LogDirView
    from ottla.client.cluster.config_requests import ConfigEntry
    from ottla.client.cluster.metadata import PartitionView, TopicView
    from ottla.client.console.views.asked import Document
    from ottla.client.fetching.offsets import OffsetAt
    from ottla.protocol.ids import TopicPartition
    from ottla.wire.errors import ClientError

    LogDirs = Mapping[int, list[LogDirView] | ClientError]
    Offsets = Mapping[TopicPartition, OffsetAt | ClientError]

TROUBLES_SHOWN = 200


def is_under_replicated(part: PartitionView) -> bool:
    """Whether not all replicas are in sync."""
    return len(part.isr) < len(part.replicas)


def cluster_document(
    cluster: ClusterDescription,
    topics: Sequence[TopicView],
    log_dirs: LogDirs,
    unreachable: Collection[int],
) -> Document:
    """Return the brokers, the controller, and the partitions with problems."""
    led: dict[int, int] = {}
    held: dict[int, int] = {}
    troubles: list[Document] = []
    under_replicated = leaderless = partitions = 0
    for view in topics:
        for part in view.partitions.values():
            partitions += 1
            led[part.leader_id] = led.get(part.leader_id, 0) + 1
            for replica in part.replicas:
                held[replica] = held.get(replica, 0) + 1
            under_replicated += is_under_replicated(part)
            leaderless += part.leader_id < 0
            if (is_under_replicated(part) or part.leader_id < 0) and (
                len(troubles) < TROUBLES_SHOWN
            ):
                troubles.append({"topic": view.name, **_partition(part)})
    brokers = [
        {
            "broker": one.node_id,
            "address": str(one.address),
            "rack": one.rack,
            "is_controller": one.node_id == cluster.controller_id,
            "is_reachable": one.node_id not in unreachable,
            "leaders": led.get(one.node_id, 0),
            "replicas": held.get(one.node_id, 0),
            **_disk(log_dirs.get(one.node_id)),
        }
        for one in cluster.brokers
    ]
    return {
        "cluster_id": cluster.cluster_id,
        "controller": cluster.controller_id if cluster.controller_id >= 0 else None,
        "brokers": brokers,
        "topics": sum(not view.is_internal for view in topics),
        "internal_topics": sum(view.is_internal for view in topics),
        "partitions": partitions,
        "under_replicated": under_replicated,
        "leaderless": leaderless,
        "troubles": troubles,
    }


def _disk(found: list[LogDirView] | ClientError | None) -> Document:
    """Return the size of the replicas and the free space of the disks; None if unknown."""
    if not isinstance(found, list):
        return {"size_bytes": None, "total_bytes": None, "usable_bytes": None, "failed_dirs": []}
    totals = [one.total_bytes for one in found if one.error is None]
    usable = [one.usable_bytes for one in found if one.error is None]
    return {
        "size_bytes": sum(replica.size_bytes for one in found for replica in one.replicas),
        "total_bytes": sum(totals) if totals and min(totals) >= 0 else None,
        "usable_bytes": sum(usable) if usable and min(usable) >= 0 else None,
        "failed_dirs": [one.path for one in found if one.error is not None],
    }


def topic_row(view: TopicView, sizes: Mapping[str, int]) -> Document:
    """Return one row of the list of topics."""
    parts = view.partitions.values()
    return {
        "topic": view.name,
        "is_internal": view.is_internal,
        "partitions": len(parts),
        "replication_factor": max((len(part.replicas) for part in parts), default=0),
        "under_replicated": sum(map(is_under_replicated, parts)),
        "leaderless": sum(part.leader_id < 0 for part in parts),
        "size_bytes": sizes.get(view.name),
    }


def sizes_of(log_dirs: LogDirs) -> dict[str, int]:
    """Return the bytes of each topic on all brokers."""
    sizes: dict[str, int] = {}
    for replica in _replicas(log_dirs):
        topic = replica.partition.topic
        sizes[topic] = sizes.get(topic, 0) + replica.size_bytes
    return sizes


def _replicas(log_dirs: LogDirs) -> Iterable[Any]:
    for found in log_dirs.values():
        if isinstance(found, list):
            for directory in found:
                yield from (one for one in directory.replicas if not one.is_future)


def _partition(part: PartitionView) -> Document:
    return {
        "partition": part.partition,
        "leader": part.leader_id if part.leader_id >= 0 else None,
        "leader_epoch": part.leader_epoch,
        "replicas": list(part.replicas),
        "isr": list(part.isr),
        "offline": list(part.offline),
        "is_under_replicated": is_under_replicated(part),
    }


def topic_document(
    view: TopicView, firsts: Offsets, lasts: Offsets, log_dirs: LogDirs, configs: list[Document]
) -> Document:
    """One topic with its partitions and settings."""
    largest: dict[int, int] = {}
    for replica in _replicas(log_dirs):
        if replica.partition.topic == view.name:
            number = replica.partition.partition
            largest[number] = max(largest.get(number, 0), replica.size_bytes)
    first = {where.partition: _offset(found) for where, found in firsts.items()}
    last = {where.partition: _offset(found) for where, found in lasts.items()}
    partitions = [
        {
            **_partition(part),
            "first_offset": first.get(number),
            "end_offset": last.get(number),
            "size_bytes": largest.get(number),
        }
        for number, part in sorted(view.partitions.items())
    ]
    return {
        **topic_row(view, sizes_of(log_dirs)),
        "topic_id": None if view.topic_id == ZERO_UUID else uuid_to_text(view.topic_id),
        "partition_list": partitions,
        "configs": configs,
    }


def _offset(found: OffsetAt | ClientError) -> int | None:
    return None if isinstance(found, Exception) else found.offset


def config_rows(entries: Iterable[ConfigEntry]) -> list[Document]:
    """Return the settings: first those set for this topic or broker, then by name."""
    rows = [
        {
            "name": entry.name,
            "value": entry.value,
            "source": entry.source.name,
            "is_default": entry.source.name == "DEFAULT",
            "is_read_only": entry.is_read_only,
            "is_sensitive": entry.is_sensitive,
            "documentation": entry.documentation or None,
        }
        for entry in entries
    ]
    return sorted(rows, key=lambda row: (row["is_default"], row["name"]))
