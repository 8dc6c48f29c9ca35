"""Tracks what a member has read, what it wants stored, and what is being stored. Pure.

One request is in flight at a time; later commits wait and are merged. The later position of a
partition replaces the earlier one, also if the earlier one would have to be retried. So an older
position is never sent after a newer one.

Every pending commit keeps the identity under which it was asked for. A member with a new identity
takes along the commits of partitions that it kept all the time (``renew``); those of partitions
that it gave up fail, because another member may have stored a later position since (G-02).
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Generic, TypeVar

from ottla.client.group.commit_verdict import CommitVerdict, judge_commit
from ottla.client.records.committed import Committed
from ottla.protocol.data_classes import dataclass
from ottla.protocol.errors import ErrorCode
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ottla.protocol.ids import TopicPartition

# The identity that commits; only ever compared.
Member = TypeVar("Member")

# A coordinator may not know a fresh topic yet. Without a limit, a commit for a deleted topic would
# be retried for ever, and closing the consumer would wait for it.
DENIALS_MAX = 5
# The error of a pending commit whose partition was given up.
OUTDATED = ErrorCode.ILLEGAL_GENERATION
# Of several reasons to retry the first counts: it says what has to be done before.
TROUBLES = (CommitVerdict.ELSEWHERE, CommitVerdict.AGAIN, CommitVerdict.REBALANCING)


@dataclass(slots=True, eq=False)
class Ticket:
    """One call that wants positions stored. ``failed`` has the partitions that were not stored."""

    left: set[TopicPartition]
    failed: dict[TopicPartition, ErrorCode] = field(default_factory=dict)

    @property
    def is_done(self) -> bool:
        return not self.left

    def settle(self, partition: TopicPartition, code: ErrorCode) -> None:
        """Record the final result of this partition."""
        self.left.discard(partition)
        if code is not ErrorCode.NONE:
            self.failed[partition] = code


@dataclass(slots=True)
class PendingCommit(Generic[Member]):
    """The position to store for a partition, and the calls that wait for it or an earlier one."""

    position: Committed
    member: Member
    tickets: list[Ticket]
    last_answer: ErrorCode = ErrorCode.NONE
    denials: int = 0

    def judge(self, code: ErrorCode) -> CommitVerdict:
        """Return what the answer means for this commit."""
        self.last_answer = code
        self.denials += code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return CommitVerdict.REFUSED if self.denials > DENIALS_MAX else judge_commit(code)

    def settle(self, partition: TopicPartition, code: ErrorCode) -> None:
        """Report the result to all tickets that wait."""
        for ticket in self.tickets:
            ticket.settle(partition, code)


class Flight(NamedTuple, Generic[Member]):
    """One request in flight."""

    member: Member
    offsets: dict[TopicPartition, Committed]


class CommitLedger(Generic[Member]):
    """Owned by one member for its life.

    The caller sends what ``depart`` returns, reports the answer with ``arrived``, and only then
    asks for the next."""

    __slots__ = (
        "_asked",
        "_consumed",
        "_flying",
        "_forgotten",
        "_interval_ms",
        "_next_ms",
        "_wishes",
    )

    def __init__(self, interval_ms: float | None = None) -> None:
        """``interval_ms`` is the interval of automatic commits; None disables them."""
        self._interval_ms = interval_ms
        self._next_ms: float | None = None
        self._consumed: dict[TopicPartition, Committed] = {}
        # The last position that was asked for and has not failed.
        self._asked: dict[TopicPartition, Committed] = {}
        self._wishes: dict[TopicPartition, PendingCommit[Member]] = {}
        self._flying: dict[TopicPartition, PendingCommit[Member]] = {}
        # Partitions of the request in flight that were given up since: they must not be retried.
        self._forgotten: set[TopicPartition] = set()

    # Positions that were read.

    def consumed(self, partition: TopicPartition, next_offset: int, leader_epoch: int = -1) -> None:
        """Record that the application has all before that offset. A seek may move it back."""
        assert next_offset >= 0
        self._consumed[partition] = Committed(next_offset, leader_epoch)

    def uncommitted(self) -> dict[TopicPartition, Committed]:
        """Return positions that were read and not yet asked to be stored."""
        return {
            partition: position
            for partition, position in self._consumed.items()
            if partition not in self._asked or self._asked[partition].offset != position.offset
        }

    def due(self, now_ms: float) -> bool:
        """Return whether the interval has passed, and restart it then. False on the first call."""
        if self._interval_ms is None:
            return False
        is_due = self._next_ms is not None and now_ms >= self._next_ms
        if self._next_ms is None or is_due:
            self._next_ms = now_ms + self._interval_ms
        return is_due

    # Identity and partitions.

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop partitions given up: their pending commits fail, now or with their answer."""
        for partition in partitions:
            self._consumed.pop(partition, None)
            self._asked.pop(partition, None)
            wish = self._wishes.pop(partition, None)
            if wish is not None:
                wish.settle(partition, OUTDATED)
            if partition in self._flying:
                self._forgotten.add(partition)

    def renew(self, member: Member) -> None:
        """Continue under this identity with all partitions that were not forgotten."""
        for wish in self._wishes.values():
            wish.member = member
        for partition, wish in self._flying.items():
            if partition not in self._forgotten:
                wish.member = member

    # Requests.

    def ask(self, offsets: Mapping[TopicPartition, Committed], member: Member) -> Ticket:
        """Store these positions; they replace pending ones of the same partitions."""
        ticket = Ticket(set(offsets))
        for partition, position in offsets.items():
            older = self._wishes.get(partition)
            tickets = [*older.tickets, ticket] if older is not None else [ticket]
            self._wishes[partition] = PendingCommit(position, member, tickets)
            self._asked[partition] = position
        return ticket

    def join(self, ticket: Ticket) -> None:
        """Let the ticket also wait for everything that is pending or in flight now."""
        for partition, wish in (self._flying | self._wishes).items():
            if partition not in ticket.left and partition not in self._forgotten:
                wish.tickets.append(ticket)
                ticket.left.add(partition)

    def abandon(self, ticket: Ticket) -> dict[TopicPartition, ErrorCode]:
        """Stop waiting with this ticket; commits that no other ticket waits for are not retried.

        Returns the unsettled partitions, each with the last error code received, or NONE."""
        left = {}
        for partition in sorted(ticket.left):
            found = [
                wishes[partition]
                for wishes in (self._flying, self._wishes)
                if partition in wishes and ticket in wishes[partition].tickets
            ]
            for wish in found:
                wish.tickets.remove(ticket)
            left[partition] = found[-1].last_answer if found else ErrorCode.NONE
            waiting = self._wishes.get(partition)
            if waiting is not None and not waiting.tickets:
                self._drop(partition, self._wishes.pop(partition))
        ticket.left.clear()
        return left

    def depart(self) -> Flight[Member] | None:
        """Return the next request; None if there is nothing to store or one is in flight."""
        if self._flying or not self._wishes:
            return None
        member = next(iter(self._wishes.values())).member
        self._flying = {
            partition: wish for partition, wish in self._wishes.items() if wish.member == member
        }
        for partition in self._flying:
            del self._wishes[partition]
        offsets = {partition: wish.position for partition, wish in self._flying.items()}
        return Flight(member, offsets)

    def arrived(self, answers: Mapping[TopicPartition, ErrorCode]) -> CommitVerdict:
        """Take the answer to the request in flight; partitions that it leaves out were not stored.

        Returns AGAIN, ELSEWHERE or REBALANCING if something has to be retried, else DONE."""
        flying, self._flying = self._flying, {}
        forgotten, self._forgotten = self._forgotten, set()
        assert flying, "nothing is under way"
        verdicts = set()
        again: dict[TopicPartition, PendingCommit[Member]] = {}
        for partition, wish in flying.items():
            code = answers.get(partition, ErrorCode.UNKNOWN_SERVER_ERROR)
            verdict = wish.judge(code)
            if verdict.is_final:
                wish.settle(partition, code)
                if verdict is not CommitVerdict.DONE:
                    self._drop(partition, wish)
            elif partition in forgotten:
                wish.settle(partition, OUTDATED)
            elif partition in self._wishes:
                # A later position is pending: the tickets of this one wait for it instead.
                later = self._wishes[partition].tickets
                later[:0] = [ticket for ticket in wish.tickets if ticket not in later]
                verdicts.add(verdict)
            elif wish.tickets:
                again[partition] = wish
                verdicts.add(verdict)
            else:
                self._drop(partition, wish)
        self._wishes = again | self._wishes
        return next((one for one in TROUBLES if one in verdicts), CommitVerdict.DONE)

    def _drop(self, partition: TopicPartition, wish: PendingCommit[Member]) -> None:
        """Count the position as uncommitted again, unless a later one has replaced it."""
        if self._asked.get(partition) == wish.position:
            del self._asked[partition]
