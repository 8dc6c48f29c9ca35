"""A consumer's fetch session with one broker. Pure."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode
from ottla.protocol.fetch_session import FIRST_EPOCH, FetcherSession, SessionDelta
from ottla.protocol.ids import ZERO_UUID
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.protocol.ids import TopicPartition, Uuid

SESSION_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


class RequestedPartition(NamedTuple):
    """A request's fields for one partition."""

    offset: int
    limit_bytes: int
    leader_epoch: int
    topic_id: Uuid


class ConsumerFetchSession(FetcherSession[RequestedPartition]):
    """Names topics by id if the consumer knows all of their ids, else all by name."""

    __slots__ = ("_uses_ids",)

    def __init__(self) -> None:
        super().__init__(attrgetter("topic_id"))
        self._uses_ids = True

    def next(self, asked: Mapping[TopicPartition, RequestedPartition]) -> SessionDelta:
        uses_ids = all(one.topic_id != ZERO_UUID for one in asked.values())
        if uses_ids is not self._uses_ids:
            # One session must not mix names and ids (FETCH_SESSION_TOPIC_ID_ERROR).
            self._epoch, self._uses_ids = FIRST_EPOCH, uses_ids
        return super().next(asked)
