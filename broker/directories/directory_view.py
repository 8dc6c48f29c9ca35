"""The contents of the data directories as plain values, for the answers to administrators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.broker.partitions.partitions import Partitions
    from ottla.protocol.ids import TopicPartition
    from ottla.protocol.ports import Disk

UNKNOWN = -1


class ReplicaView(NamedTuple):
    """One replica: its size, and how many committed records it has not got yet (UNKNOWN while the
    controller has given it no role). Of a copy that is to take a log's place, how many offsets of
    that log it lacks."""

    partition: TopicPartition
    size_bytes: int
    offset_lag: int
    is_future: bool = False


class DirectoryView(NamedTuple):
    """One directory; one that has failed has no replicas and no space."""

    path: str
    is_online: bool
    replicas: tuple[ReplicaView, ...] = ()
    free_bytes: int = UNKNOWN
    total_bytes: int = UNKNOWN


def view_directories(partitions: Partitions, disk: Disk) -> Iterator[DirectoryView]:
    """All of ``log.dirs``, in their order."""
    for directory in partitions.logs.directories:
        if not directory.home.health.is_online:
            yield DirectoryView(directory.path, is_online=False)
            continue
        replicas = []
        for log in directory:
            runtime = partitions.find(*log.partition)
            lag = UNKNOWN
            if runtime is not None:
                lag = max(0, runtime.replica.high_watermark - log.log_end_offset)
            replicas.append(ReplicaView(log.partition, log.size_bytes, lag))
        for future in partitions.logs.futures:
            if future.target is directory:
                copy = future.copy
                replicas.append(
                    ReplicaView(copy.partition, copy.size_bytes, future.lag, is_future=True)
                )
        try:
            free_bytes = disk.free_bytes(directory.path)
            total_bytes = disk.total_bytes(directory.path)
        except OSError:
            yield DirectoryView(directory.path, is_online=False)
            continue
        found = tuple(sorted(replicas))
        yield DirectoryView(directory.path, True, found, free_bytes, total_bytes)
