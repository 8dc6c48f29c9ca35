"""The follower's side of a fetch session (KIP-227): say everything once, then only what changed.

after                                   the next request
nothing, or an error of the session     is a full one that asks for a new session
a session was given                     has its id, the next epoch, and what differs
the leader gives none (id 0)            is a full one, every time
an answer was lost                      is a full one that replaces the session: what the leader
                                        has made of the lost request is not known Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.broker.following.fetcher_state import Followed
    from ottla.broker.following.steps import FetchPosition
    from ottla.protocol.ids import TopicPartition, Uuid

NO_SESSION = 0
FIRST_EPOCH = 0
_EPOCH_MAX = (1 << 31) - 1

Asked = tuple["Followed", "FetchPosition"]


class Delta(NamedTuple):
    """What one request says. A full request (epoch 0) asks for everything in ``asked``."""

    session_id: int
    session_epoch: int
    asked: Sequence[Asked]
    forgotten: Sequence[tuple[TopicPartition, Uuid]] = ()


class FetchSession:
    """Owned by one fetcher, for one connection to the leader."""

    def __init__(self) -> None:
        self._session_id = NO_SESSION
        self._session_epoch = FIRST_EPOCH
        # What the leader has been told, by the token under which it was told.
        self._told: dict[TopicPartition, Asked] = {}

    @property
    def is_incremental(self) -> bool:
        """Whether the next request leaves out what has not changed."""
        return self._session_epoch != FIRST_EPOCH

    def next_request(self, asked: Sequence[Asked]) -> Delta:
        """What to say so that the leader answers for exactly these."""
        told = self._told
        self._told = {}
        for one, ask in asked:
            self._told[one.partition] = one, ask
            one.asked = ask
        assert len(self._told) == len(asked), "a partition would be answered once, and asked twice"
        if not self.is_incremental:
            return Delta(self._session_id, FIRST_EPOCH, asked)
        changed = [
            (one, ask)
            for one, ask in asked
            if (known := told.get(one.partition)) is None
            or known[1] != ask
            or known[0].topic_id != one.topic_id
        ]
        forgotten = tuple(
            (partition, one.topic_id)
            for partition, (one, _) in told.items()
            if (now := self._told.get(partition)) is None or now[0].topic_id != one.topic_id
        )
        return Delta(self._session_id, self._session_epoch, changed, forgotten)

    def repeats(self, count: int) -> bool:
        """Whether a request that says nothing new would ask for exactly so many partitions."""
        return self._session_epoch != FIRST_EPOCH and len(self._told) == count

    def same_request(self) -> Delta:
        """What to say when nothing has changed since the last request of this session."""
        assert self.is_incremental, "a full request without partitions asks for none"
        return Delta(self._session_id, self._session_epoch, ())

    def asked_for(self, partition: TopicPartition) -> Asked | None:
        """What the request under way says about a partition, here or in an earlier one."""
        return self._told.get(partition)

    def answered(self, error: ErrorCode, session_id: int) -> None:
        """The leader has answered; ``session_id`` as it stands in the answer."""
        if error is not ErrorCode.NONE or session_id == NO_SESSION:
            self._session_id = NO_SESSION
            self._session_epoch = FIRST_EPOCH
        elif self.is_incremental and session_id == self._session_id:
            self._session_epoch = (
                1 if self._session_epoch == _EPOCH_MAX else self._session_epoch + 1
            )
        else:
            self._session_id, self._session_epoch = session_id, 1
        assert self.is_incremental == (self._session_id != NO_SESSION)

    def lost(self) -> None:
        """No answer came, or the connection went."""
        self._session_epoch = FIRST_EPOCH
