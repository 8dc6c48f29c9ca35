"""A follower's fetch session with one leader. Pure."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

from ottla.protocol.fetch_session import FIRST_EPOCH, FetcherSession
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.broker.following.fetcher_state import Followed
    from ottla.broker.following.steps import FetchPosition
    from ottla.protocol.ids import TopicPartition, Uuid

Asked = tuple["Followed", "FetchPosition"]


class Delta(NamedTuple):
    """What one request says. A full request (epoch 0) asks for everything in ``asked``."""

    session_id: int
    session_epoch: int
    asked: Sequence[Asked]
    forgotten: Sequence[tuple[TopicPartition, Uuid]] = ()


class FollowerFetchSession(FetcherSession[tuple["FetchPosition", "Uuid"]]):
    """Owned by one fetcher, for one connection to the leader."""

    __slots__ = ("_asked",)

    def __init__(self) -> None:
        super().__init__(itemgetter(1))
        self._asked: dict[TopicPartition, Asked] = {}

    def next_request(self, asked: Sequence[Asked]) -> Delta:
        """Return the request that makes the leader answer for exactly these partitions."""
        self._asked = {pair[0].partition: pair for pair in asked}
        told = {}
        for one, position in asked:
            one.asked = position
            told[one.partition] = position, one.topic_id
        assert len(told) == len(asked), "a partition would be answered once, and asked twice"
        delta = self.next(told)
        if delta.session_epoch == FIRST_EPOCH:
            return Delta(delta.session_id, FIRST_EPOCH, asked)
        changed = [self._asked[partition] for partition in delta.changed]
        return Delta(delta.session_id, delta.session_epoch, changed, tuple(delta.forgotten))

    def repeats(self, count: int) -> bool:
        """Whether a request without changes would ask for exactly so many partitions."""
        return self._epoch != FIRST_EPOCH and len(self._asked) == count

    def same_request(self) -> Delta:
        """Return the request when nothing has changed since the last one of this session."""
        assert self.is_incremental, "a full request without partitions asks for none"
        return Delta(self._session_id, self._epoch, ())

    def asked_for(self, partition: TopicPartition) -> Asked | None:
        """What the request in flight says of a partition, itself or an earlier one."""
        return self._asked.get(partition)
