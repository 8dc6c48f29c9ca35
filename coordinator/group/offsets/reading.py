"""OffsetFetch: builds the response with committed offsets for each version.

Versions up to 7 name one group, those from 8 several, each with its own result (KIP-709).
Before version 2 an error can only be reported for each partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.group.common.records import CommittedOffset, decode_offset
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ottla.coordinator.group.common.membership import Group
    from ottla.coordinator.group.offsets.ledger import OffsetLedger
    from ottla.protocol.messages.offset_fetch import (
        OffsetFetchRequest,
        OffsetFetchRequestTopic,
        OffsetFetchRequestTopics,
    )

_NOTHING = CommittedOffset(-1, -1, "", -1)
_GROUPS_VERSION = 8


class _Wanted(NamedTuple):
    """What the request asks of one group; ``topics`` of None means all."""

    group_id: str
    topics: Sequence[OffsetFetchRequestTopic | OffsetFetchRequestTopics] | None
    is_stable: bool


class _Found(NamedTuple):
    partition: int
    committed: CommittedOffset
    error: ErrorCode


_Topics = list[tuple[str, list[_Found]]]


def read_offsets(
    request: OffsetFetchRequest,
    api_version: int,
    ledger: OffsetLedger,
    groups: Mapping[str, Group],
) -> OffsetFetchResponse:
    """The complete response to a request."""
    if api_version >= _GROUPS_VERSION:
        response = OffsetFetchResponse()
        for asked in request.groups:
            wanted = _Wanted(asked.group_id, asked.topics, request.require_stable)
            group = groups.get(asked.group_id)
            error = ErrorCode.NONE
            if group is not None:
                error = group.check_fetch(asked.member_id, asked.member_epoch)
            topics = _read(wanted, ledger) if error is ErrorCode.NONE else []
            response.groups.append(
                OffsetFetchResponseGroup(asked.group_id, _group_topics(topics), error)
            )
        return response
    wanted = _Wanted(request.group_id, request.topics, request.require_stable)
    return OffsetFetchResponse(topics=_topics(_read(wanted, ledger)))


def _read(wanted: _Wanted, ledger: OffsetLedger) -> _Topics:
    committed = ledger.committed(wanted.group_id)
    unstable = ledger.unstable(wanted.group_id) if wanted.is_stable else frozenset()
    if wanted.topics is None:
        indexes = {name: set(values) for name, values in committed.items()}
        # A first commit in an open transaction must not look like no commit (T-23).
        for topic, partition in unstable:
            indexes.setdefault(topic, set()).add(partition)
        asked = [(name, sorted(indexes[name])) for name in sorted(indexes)]
    else:
        asked = [(topic.name, topic.partition_indexes) for topic in wanted.topics]
    topics: _Topics = []
    for name, partitions in asked:
        values = committed.get(name, {})
        found = []
        for partition in partitions:
            if unstable and TopicPartition(name, partition) in unstable:
                found.append(_Found(partition, _NOTHING, ErrorCode.UNSTABLE_OFFSET_COMMIT))
                continue
            value = values.get(partition)
            offset = _NOTHING if value is None else decode_offset(value)
            assert offset is not None, "only what can be read was taken in"
            found.append(_Found(partition, offset, ErrorCode.NONE))
        topics.append((name, found))
    return topics


def _topics(topics: _Topics) -> list[OffsetFetchResponseTopic]:
    return [
        OffsetFetchResponseTopic(
            name,
            [
                OffsetFetchResponsePartition(index, *committed[:3], error)
                for index, committed, error in found
            ],
        )
        for name, found in topics
    ]


def _group_topics(topics: _Topics) -> list[OffsetFetchResponseTopics]:
    return [
        OffsetFetchResponseTopics(
            name=name,
            partitions=[
                OffsetFetchResponsePartitions(index, *committed[:3], error)
                for index, committed, error in found
            ],
        )
        for name, found in topics
    ]
