"""The partitions that one fetcher follows: which are due, paused or busy. Pure.

A ``Followed`` grants the right to change a partition's log. It belongs to one leader epoch and
becomes invalid when the fetcher gets another one, or none, for the partition (hazards R-06, R-07).
The fetch offset is not stored here: the replica returns it, because it knows its log.
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
    """The pause of a partition after a refusal: doubled each time, up to the limit.

    Usually the leader has not yet learned of its election, which takes milliseconds; only repeated
    refusals need the whole ``replica.fetch.backoff.ms``."""

    first_ms: float = 20.0
    limit_ms: float = 1_000.0

    def after(self, failure_count: int) -> float:
        """Return the pause after that many consecutive refusals."""
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
        # The log is being truncated; it is not requested until that is done.
        self.is_busy = False
        # The log must be flushed before a request tells the leader that its records are stored
        # here. Stays set after a failed flush, which cannot be repeated safely (S-09).
        self.awaits_flush = False
        self.not_before_ms = 0.0
        self.failure_count = 0
        # Lag in records at the leader's last answer; None before the first answer.
        self.lag: int | None = None

    def __repr__(self) -> str:
        return f"Followed({self.partition}, epoch {self.leader_epoch}, {self.replica})"

    @property
    def is_free(self) -> bool:
        """Whether an answer about the partition can be applied: a new epoch may have begun that the
        fetcher learns of only after the epoch is on the disk."""
        is_settled = not self.is_busy and not self.awaits_flush
        return is_settled and self.replica.follows(self.leader_epoch)

    def ask(self) -> FetchPosition:
        """Return the partition's entry in the next request."""
        # A fetch offset promises that the records before it are stored here and stay stored.
        assert not self.is_busy
        assert not self.awaits_flush
        replica = self.replica
        assert replica.follows(self.leader_epoch), "another epoch's request (R-06)"
        end = replica.log_end_offset
        assert replica.log_start_offset <= end, replica
        # The epoch of the last record, not the newest known one: an epoch without records cannot
        # diverge.
        last_epoch = replica.history.epochs.epoch_at(end - 1)
        return FetchPosition(self.leader_epoch, end, last_epoch, replica.log_start_offset)


class FetchChanges(NamedTuple):
    """Content of a session's next request. ``gone``: partitions that it removes."""

    asked: list[Asked]
    gone: list[TopicPartition]


class Following:
    """Owned by one fetcher.

    Only a few of thousands of partitions have changes for a request. These are ``stirred``: by
    their replica, by a change of their log, or because their pause is over."""

    def __init__(self, pauses: Pauses) -> None:
        self._pauses = pauses
        # In the order of the requests: leaders serve the first ones first.
        self._followed: dict[TopicPartition, Followed] = {}
        # Partitions with a change since the last request that may matter for the next one.
        self._stirred: dict[Followed, None] = {}
        # Paused partitions, with the end of their pause.
        self._resting: dict[Followed, None] = {}
        # Partitions no longer followed that may still be in the session.
        self._gone: dict[TopicPartition, None] = {}

    def __len__(self) -> int:
        return len(self._followed)

    def __iter__(self) -> Iterator[Followed]:
        return iter(self._followed.values())

    def get(self, partition: TopicPartition) -> Followed | None:
        """Return the partition's token, None if it is not followed here."""
        return self._followed.get(partition)

    def add(self, followed: Followed) -> None:
        """Follow a partition, or follow it in a new epoch; answers in flight for it become
        invalid."""
        known = self._followed.pop(followed.partition, None)
        assert known is not followed, "an answer to the earlier epoch would count"
        self._followed[followed.partition] = followed
        if known is not None:
            self._forget(known)
        followed.replica.on_position = partial(self.stir, followed)
        self.stir(followed)

    def remove(self, partition: TopicPartition) -> bool:
        """Stop following the partition; return whether it was followed."""
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
        """The partition's entry in the next request may have changed, or may be removed."""
        if self.holds(followed):
            self._stirred[followed] = None

    def holds(self, followed: Followed) -> bool:
        """Whether the token is still valid."""
        return self._followed.get(followed.partition) is followed

    def ready(self, now_ms: float) -> list[Followed]:
        """Return the partitions of the next request, in order."""
        return [
            one for one in self._followed.values() if one.not_before_ms <= now_ms and one.is_free
        ]

    def everything(self, now_ms: float) -> list[Asked]:
        """Return the entries of a session's first request, and clear the recorded changes."""
        asked = [(one, one.ask()) for one in self.ready(now_ms)]
        self._stirred.clear()
        self._gone.clear()
        self._resting = {one: None for one in self._followed.values() if one.not_before_ms > now_ms}
        return asked

    def changes(self, now_ms: float) -> FetchChanges:
        """Return the next request of a session whose last request was answered. HOT."""
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
        """Return when the first pause ends; None if no partition is paused.

        As of the last ``changes`` or ``everything``."""
        resting = (
            one.not_before_ms for one in self._resting if one.not_before_ms > now_ms and one.is_free
        )
        return min(resting, default=None)

    def taken(self, followed: Followed, step: FollowerStep, now_ms: float) -> None:
        """The step was decided: pause the partition, or move it to the end of the order.

        Leaders fill an answer in the order of the request up to its limit. A partition that got
        records must move to the end, or the last ones would starve."""
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
        """The leader refused the partition: pause it."""
        self.hold(followed, now_ms + self._pauses.after(followed.failure_count))
        followed.failure_count += 1

    def hold(self, followed: Followed, until_ms: float) -> None:
        """Do not request the partition before that time."""
        followed.not_before_ms = until_ms
        self.stir(followed)
