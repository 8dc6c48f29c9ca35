"""What one fetcher follows: partitions of one leader, whose turn it is, and who has to wait. Pure.

A ``Followed`` is the token of the right to change a partition's log: made for one leader epoch,
and void as soon as the fetcher holds another one, or none, for the partition (hazards R-06, R-07).
Where to fetch from is not remembered here but asked of the replica, which knows what its log holds.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.following.steps import FetchPosition, LogAction
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.broker.following.steps import FollowerStep
    from ottla.broker.replica.partition import Replica
    from ottla.protocol.ids import TopicPartition, Uuid

    Asked = tuple["Followed", FetchPosition]

DOUBLINGS_MAX = 10


class Pauses(NamedTuple):
    """How long a partition rests after a refusal: doubling from the first to the limit.

    Mostly the leader has not heard of its election yet, which is a matter of milliseconds; only
    what goes on is worth the whole ``replica.fetch.backoff.ms``."""

    first_ms: float = 20.0
    limit_ms: float = 1_000.0

    def after(self, failure_count: int) -> float:
        """The pause after that many refusals in a row."""
        assert failure_count >= 0
        return float(min(self.limit_ms, self.first_ms * 2.0 ** min(failure_count, DOUBLINGS_MAX)))


class Followed:
    """One partition under one leader epoch. Compared by identity."""

    __slots__ = (
        "awaits_flush",
        "failure_count",
        "is_busy",
        "lag",
        "leader_epoch",
        "not_before_ms",
        "partition",
        "replica",
        "topic_id",
    )

    def __init__(self, partition: TopicPartition, topic_id: Uuid, replica: Replica) -> None:
        self.partition = partition
        self.topic_id = topic_id
        self.replica = replica
        self.leader_epoch = replica.leader_epoch
        # Its log is being cut, and nothing can be said about it until that is done.
        self.is_busy = False
        # What its log holds is to be flushed before the leader hears that it is stored here. Stays
        # so after a failed flush, which nothing can make good (S-09).
        self.awaits_flush = False
        self.not_before_ms = 0.0
        self.failure_count = 0
        # Records that the leader was ahead with at its last answer; None: not heard yet.
        self.lag: int | None = None

    def __repr__(self) -> str:
        return f"Followed({self.partition}, epoch {self.leader_epoch}, {self.replica})"

    @property
    def is_free(self) -> bool:
        """Whether anything said about it could be acted upon: another epoch may have begun, of
        which the fetcher is told only when it is on the disk."""
        is_settled = not self.is_busy and not self.awaits_flush
        return is_settled and self.replica.follows(self.leader_epoch)

    def ask(self) -> FetchPosition:
        """What the next request says about the partition."""
        # A fetch offset is a promise: the records before it are stored here, and stay.
        assert not self.is_busy
        assert not self.awaits_flush
        replica = self.replica
        assert replica.follows(self.leader_epoch), "another epoch's request (R-06)"
        end = replica.log_end_offset
        assert replica.log_start_offset <= end, replica
        # Of the last record and not of the newest epoch known: one without records cannot diverge.
        last_epoch = replica.history.epochs.epoch_at(end - 1)
        return FetchPosition(self.leader_epoch, end, last_epoch, replica.log_start_offset)


class FetchChanges(NamedTuple):
    """What the next request of a session says. ``gone``: it does not ask for these any more."""

    asked: list[Asked]
    gone: list[TopicPartition]


class Following:
    """Owned by one fetcher.

    Of thousands of partitions a few have something new to say in a request. Those are ``stirred``:
    by their replica, by what is done to their log, or because they have rested long enough."""

    def __init__(self, pauses: Pauses) -> None:
        self._pauses = pauses
        # In the order in which they are asked for: the first ones are served first.
        self._followed: dict[TopicPartition, Followed] = {}
        # Changed since the last request in any way that may matter for the next one.
        self._stirred: dict[Followed, None] = {}
        # Not asked for before their time has come.
        self._resting: dict[Followed, None] = {}
        # Followed no more, and perhaps still in the session.
        self._gone: dict[TopicPartition, None] = {}

    def __len__(self) -> int:
        return len(self._followed)

    def __iter__(self) -> Iterator[Followed]:
        return iter(self._followed.values())

    def get(self, partition: TopicPartition) -> Followed | None:
        """The partition's token, if it is followed here."""
        return self._followed.get(partition)

    def add(self, followed: Followed) -> None:
        """Follow a partition, or follow it in another epoch; what was under way for it is void."""
        known = self._followed.pop(followed.partition, None)
        assert known is not followed, "an answer to the earlier epoch would count"
        self._followed[followed.partition] = followed
        if known is not None:
            self._forget(known)
        followed.replica.on_position = partial(self.stir, followed)
        self.stir(followed)

    def remove(self, partition: TopicPartition) -> bool:
        """Follow it no more; whether it was followed."""
        known = self._followed.pop(partition, None)
        if known is None:
            return False
        self._forget(known)
        self._gone[partition] = None
        return True

    def _forget(self, followed: Followed) -> None:
        self._stirred.pop(followed, None)
        self._resting.pop(followed, None)
        followed.replica.on_position = None

    def stir(self, followed: Followed) -> None:
        """The next request may say something else of the partition, or nothing."""
        if self.holds(followed):
            self._stirred[followed] = None

    def holds(self, followed: Followed) -> bool:
        """Whether the token is still good."""
        return self._followed.get(followed.partition) is followed

    def ready(self, now_ms: float) -> list[Followed]:
        """Whom the next request asks for, in order."""
        return [
            one for one in self._followed.values() if one.not_before_ms <= now_ms and one.is_free
        ]

    def everything(self, now_ms: float) -> list[Asked]:
        """What a request says that begins a session: nothing is left of what was changed."""
        asked = [(one, one.ask()) for one in self.ready(now_ms)]
        self._stirred.clear()
        self._gone.clear()
        self._resting = {one: None for one in self._followed.values() if one.not_before_ms > now_ms}
        return asked

    def changes(self, now_ms: float) -> FetchChanges:
        """What the next request of a session says, given that the last one was answered. HOT."""
        for one in [one for one in self._resting if one.not_before_ms <= now_ms]:
            del self._resting[one]
            self._stirred[one] = None
        changes = FetchChanges([], list(self._gone))
        self._gone.clear()
        for one in self._stirred:
            if one.not_before_ms > now_ms:
                self._resting[one] = None
            elif one.is_free:
                changes.asked.append((one, one.ask()))
                continue
            changes.gone.append(one.partition)
        self._stirred.clear()
        return changes

    def next_ready_ms(self, now_ms: float) -> float | None:
        """When the first one that rests may be asked for again; None if none rests.

        As of the last ``changes`` or ``everything``."""
        resting = (
            one.not_before_ms for one in self._resting if one.not_before_ms > now_ms and one.is_free
        )
        return min(resting, default=None)

    def taken(self, followed: Followed, step: FollowerStep, now_ms: float) -> None:
        """The step was decided upon: let the partition rest, or go behind all others.

        Leaders fill an answer in the order of the request up to its limit, so that one which was
        served must go to the end or the last ones would starve."""
        if not self.holds(followed):
            return
        if step.action is LogAction.WAIT:
            self.rest(followed, now_ms)
            return
        followed.failure_count = 0
        if followed.not_before_ms:
            self.hold(followed, 0.0)
        if step.action is LogAction.APPEND and step.has_records:
            del self._followed[followed.partition]
            self._followed[followed.partition] = followed
            assert next(reversed(self._followed)) == followed.partition, "others would starve"

    def rest(self, followed: Followed, now_ms: float) -> None:
        """It was refused: do not ask again at once."""
        self.hold(followed, now_ms + self._pauses.after(followed.failure_count))
        followed.failure_count += 1

    def hold(self, followed: Followed, until_ms: float) -> None:
        """Do not ask for it before that time."""
        followed.not_before_ms = until_ms
        self.stir(followed)
