"""A follower's fetch session with one leader. Pure."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

from ottla.protocol.fetch_session import FIRST_EPOCH, FetcherSession
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ottla.broker.following.fetcher_state import Followed
    from ottla.broker.following.steps import FetchPosition
    from ottla.protocol.ids import TopicPartition, Uuid

Asked = tuple["Followed", "FetchPosition"]
"""A partition, and what a request says of it."""


class Delta(NamedTuple):
    """Content of one request. A full request (epoch 0) lists all partitions in ``asked``."""

    session_id: int
    session_epoch: int
    asked: Sequence[Asked]
    forgotten: Sequence[tuple[TopicPartition, Uuid]] = ()

    @property
    def continues(self) -> bool:
        """Whether the request contains only changes."""
        return self.session_epoch != FIRST_EPOCH

    @property
    def says_nothing(self) -> bool:
        """Whether the request repeats the last one without changes."""
        return self.continues and not self.asked and not self.forgotten


class FollowerFetchSession(FetcherSession[tuple["FetchPosition", "Uuid"]]):
    """Owned by one fetcher, for one connection to the leader.

    The fetcher passes it the changes, so it need not compare thousands of unchanged partitions."""

    __slots__ = ("_asked",)

    def __init__(self) -> None:
        super().__init__(itemgetter(1))
        self._asked: dict[TopicPartition, Asked] = {}

    @property
    def asks_for_any(self) -> bool:
        """Whether the session contains any partition."""
        return bool(self._asked)

    def first_request(self, asked: Sequence[Asked]) -> Delta:
        """Return the request that begins a session with exactly these partitions."""
        assert not self.is_incremental, "the leader would keep what it was asked before"
        self._asked = {pair[0].partition: pair for pair in asked}
        assert len(self._asked) == len(asked), "a partition would be answered once, and asked twice"
        return Delta(self._session_id, FIRST_EPOCH, asked)

    def next_request(self, asked: Sequence[Asked], gone: Iterable[TopicPartition] = ()) -> Delta:
        """Return the request that adds or updates these partitions and removes those."""
        assert self.is_incremental, "a full request without the others asks for none of them"
        known, changed = self._asked, []
        forgotten: list[tuple[TopicPartition, Uuid]] = []
        ids = {one.partition: one.topic_id for one, _ in asked}
        for partition in (*gone, *ids):
            pair = known.get(partition)
            if pair is not None and ids.get(partition) != pair[0].topic_id:
                del known[partition]
                forgotten.append((partition, pair[0].topic_id))
        for pair in asked:
            partition = pair[0].partition
            told = known.get(partition)
            known[partition] = pair
            if told is None or told[1] != pair[1]:
                changed.append(pair)
        return Delta(self._session_id, self._epoch, changed, tuple(forgotten))

    def asked_for(self, partition: TopicPartition) -> Asked | None:
        """Return the partition's entry in the request in flight or in an earlier one."""
        return self._asked.get(partition)
