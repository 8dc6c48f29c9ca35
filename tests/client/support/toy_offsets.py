"""Committed offsets of groups in a toy cluster; only the current member may commit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.client.records.committed import Committed
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)

if TYPE_CHECKING:
    from tests.client.support.toy_broker import Seen

OFFSETS = (ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH)
# In the version of the toy there is one group per request.
VERSIONS = {ApiKey.OFFSET_FETCH: (1, 7)}


@dataclass
class ToyOffsets:
    """``members``: group to member id and generation; an absent group accepts any member."""

    stored: dict[TopicPartition, Committed] = field(default_factory=dict)
    history: list[dict[TopicPartition, int]] = field(default_factory=list)
    members: dict[str, tuple[str, int]] = field(default_factory=dict)

    def serve(self, seen: Seen, error: ErrorCode) -> object:
        """The answer to one of the two requests."""
        if seen.api_key is ApiKey.OFFSET_FETCH:
            return self._fetch(seen.request, error)
        return self._commit(seen.request, error)

    def _commit(self, request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
        error = error or self._judge(request)
        wanted = {
            TopicPartition(topic.name, part.partition_index): Committed(
                part.committed_offset, part.committed_leader_epoch, part.committed_metadata or ""
            )
            for topic in request.topics
            for part in topic.partitions
        }
        if error is ErrorCode.NONE:
            self.stored |= wanted
            self.history.append({where: position.offset for where, position in wanted.items()})
        return OffsetCommitResponse(
            topics=[
                OffsetCommitResponseTopic(
                    topic.name,
                    partitions=[
                        OffsetCommitResponsePartition(part.partition_index, error)
                        for part in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _judge(self, request: OffsetCommitRequest) -> ErrorCode:
        member_id, generation = self.members.get(request.group_id, (request.member_id, None))
        if request.member_id != member_id:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if generation not in (None, request.generation_id_or_member_epoch):
            return ErrorCode.ILLEGAL_GENERATION
        return ErrorCode.NONE

    def _fetch(self, request: OffsetFetchRequest, error: ErrorCode) -> OffsetFetchResponse:
        nothing = Committed(-1)
        return OffsetFetchResponse(
            error_code=error,
            topics=[
                OffsetFetchResponseTopic(
                    topic.name,
                    [
                        OffsetFetchResponsePartition(
                            number, *self.stored.get(TopicPartition(topic.name, number), nothing)
                        )
                        for number in topic.partition_indexes
                    ],
                )
                for topic in request.topics or []
            ],
        )
