"""Whether partitions exist, as the metadata store has it and not as this broker has heard it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.store import paths
from ottla.coordinator.store.store import NoNode

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from ottla.coordinator.store.store import MetadataSession
    from ottla.protocol.ids import TopicPartition


async def missing_partitions(
    session: MetadataSession, partitions: Iterable[TopicPartition]
) -> set[TopicPartition]:
    """Those of the partitions that do not exist. Raises StoreError."""
    wanted = list(partitions)
    # This session's server may not have heard of a topic that another one has made (C-24).
    await session.sync()
    known = {topic: await _indexes(session, topic) for topic in {one.topic for one in wanted}}
    return {
        one
        for one in wanted
        if (indexes := known[one.topic]) is not None and one.partition not in indexes
    }


async def _indexes(session: MetadataSession, topic: str) -> Collection[int] | None:
    """The partitions of a topic; None if the store gives no answer."""
    try:
        found = await session.get(paths.topic(topic))
    except NoNode:
        return ()
    payload = paths.parse_topic(found.data)
    return None if payload is None else payload.partitions.keys()
