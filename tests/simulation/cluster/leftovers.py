"""Partition directories that a broker should not have when all is calm.

Read from its disk: what is not in the brokers' memory fills the disk all the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.log.storage.checkpoints import decode_partition_metadata
from ottla.broker.log.storage.names import PARTITION_METADATA, mark_of, parse_partition_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.coordinator.store.paths import TopicPayload
    from tests.simulation.world.filesystem import SimFileSystem

DATA = "/data"


def leftovers(files: SimFileSystem, topics: Mapping[str, TopicPayload], node_id: int) -> list[str]:
    """Directories of topics that were deleted, and of partitions that others have by now.

    A directory that a power cut has left without its topic's id certainly has no owner.
    """
    ids = {payload.topic_id: payload for payload in topics.values()}
    found = []
    for name in sorted(files.directory(DATA).entries):
        partition = parse_partition_name(name)
        path = f"{DATA}/{name}/{PARTITION_METADATA}"
        if partition is None or mark_of(name) is not None or files.find(path) is None:
            continue
        topic_id = decode_partition_metadata(bytes(files.file(path).data))
        if topic_id is None:
            continue
        payload = ids.get(topic_id)
        if payload is None:
            found.append(f"broker-{node_id} still has {name} of a deleted topic")
        elif node_id not in payload.partitions.get(partition.partition, ()):
            found.append(f"broker-{node_id} still has {name}, which others have")
    return found
