"""The shorter way of a consumer that asks one partition for what is there.

It knows success only: on anything else it leaves the request to ``fetch.handle``. HOT.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.partitions.reading import read_plain
from ottla.protocol.acls import AclResourceType, Operation
from ottla.protocol.straight_fetch import (
    FETCH_VERSIONS,
    answer_end,
    fetch_answer,
    fetch_reader,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.broker.engine.context import ClientPeer, ReplyPart
    from ottla.broker.handlers.services import Services, Straight

_READ_COMMITTED = 1
_ISOLATION_LEVELS = (0, 1)
_READ = Operation.READ
_TOPIC = AclResourceType.TOPIC
_TOPIC_ID_VERSION = 13


def straight(version: int) -> Straight | None:
    """The shorter way for requests of that version."""
    if version not in FETCH_VERSIONS:
        return None
    read, answer, end = fetch_reader(version), fetch_answer(version), answer_end(version)
    by_id = version >= _TOPIC_ID_VERSION

    def fetch(
        services: Services, peer: ClientPeer, frame: memoryview, body: int, correlation_id: int
    ) -> Sequence[ReplyPart] | None:
        asked = read(frame, body)
        if asked is None:
            return None
        wait_ms, min_bytes, max_bytes, isolation, named, index, epoch, offset, has_rack, again = (
            asked
        )
        if isolation not in _ISOLATION_LEVELS or (has_rack and services.reads.sends_to_racks):
            return None
        topic: str | None = services.metadata.topic_name(named) if by_id else named
        if topic is None:
            return None
        partition = services.partitions.find(topic, index)
        if partition is None or not services.authorizer.is_allowed(peer, _READ, _TOPIC, topic):
            return None
        if by_id and partition.log.topic_id != named:
            return None
        max_bytes = min(max_bytes, services.reads.fetch_max_bytes)
        committed = isolation == _READ_COMMITTED
        found = read_plain(partition, offset, max_bytes, epoch, read_committed=committed)
        if found is None:
            return None
        region, offsets = found
        if region.size_bytes < min_bytes and wait_ms > 0:
            return None
        partition.traffic.fetched_bytes += region.size_bytes
        out = answer(correlation_id, again, index, offsets, region.size_bytes)
        return (out, region, end) if end else (out, region)

    return fetch
