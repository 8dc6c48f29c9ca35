"""What a member has read, what it wants stored, and what is being stored. Pure.

One request is under way at a time, and what is asked meanwhile waits and is merged: the later wish
for a partition replaces the earlier one, also when the earlier one would have to be tried again. So
an older position is never sent after a newer one.

Every wish keeps the identity under which it was asked for. A member that is given another identity
takes the wishes along whose partitions it has kept all the time (``renew``); those of partitions it
has given up fail, for somebody else may have stored a later position since (G-02).
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

# Whoever commits; only ever compared.
Member = TypeVar("Member")

# A coordinator may not have heard of a fresh topic. One that is deleted would be tried for ever,
# and whoever closes its consumer would wait for it.
DENIALS_MAX = 5
# What a wish fails with whose partition was given up.
OUTDATED = ErrorCode.ILLEGAL_GENERATION
# Of several reasons to try again the first counts: it says what has to be done before.
TROUBLES = (CommitVerdict.ELSEWHERE, CommitVerdict.AGAIN, CommitVerdict.REBALANCING)


@dataclass(slots=True, eq=False)
class Ticket:
    """One call that wants positions stored. ``failed`` says for which partitions it was in vain."""

    left: set[TopicPartition]
    failed: dict[TopicPartition, ErrorCode] = field(default_factory=dict)

    @property
    def is_done(self) -> bool:
        return not self.left

    def settle(self, partition: TopicPartition, code: ErrorCode) -> None:
        """Nothing more will be tried for this partition."""
        self.left.discard(partition)
        if code is not ErrorCode.NONE:
            self.failed[partition] = code


@dataclass(slots=True)
class PendingCommit(Generic[Member]):
    """The position that a partition shall have, and the calls that wait for that or an earlier."""

    position: Committed
    member: Member
    tickets: list[Ticket]
    last_answer: ErrorCode = ErrorCode.NONE
    denials: int = 0

    def judge(self, code: ErrorCode) -> CommitVerdict:
        """What the answer means here."""
        self.last_answer = code
        self.denials += code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return CommitVerdict.REFUSED if self.denials > DENIALS_MAX else judge_commit(code)

    def settle(self, partition: TopicPartition, code: ErrorCode) -> None:
        """Tell all that wait; nobody waits for it afterwards."""
        for ticket in self.tickets:
            ticket.settle(partition, code)


class Flight(NamedTuple, Generic[Member]):
    """One request."""

    member: Member
    offsets: dict[TopicPartition, Committed]


class CommitLedger(Generic[Member]):
    """Owned by one member for its life. The shell sends what ``depart`` returns, reports the answer
    with ``arrived``, and only then asks for the next."""

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
        """``interval_ms`` None means that nothing is committed unless somebody asks."""
        self._interval_ms = interval_ms
        self._next_ms: float | None = None
        self._consumed: dict[TopicPartition, Committed] = {}
        # The last position that was asked for and has not failed.
        self._asked: dict[TopicPartition, Committed] = {}
        self._wishes: dict[TopicPartition, PendingCommit[Member]] = {}
        self._flying: dict[TopicPartition, PendingCommit[Member]] = {}
        # Of what is under way, what was given up since: it must not be tried again.
        self._forgotten: set[TopicPartition] = set()

    # What was read.

    def consumed(self, partition: TopicPartition, next_offset: int, leader_epoch: int = -1) -> None:
        """The application has everything before that offset. It may go back by a seek."""
        assert next_offset >= 0
        self._consumed[partition] = Committed(next_offset, leader_epoch)

    def uncommitted(self) -> dict[TopicPartition, Committed]:
        """What was read since the last position that was asked for."""
        return {
            partition: position
            for partition, position in self._consumed.items()
            if partition not in self._asked or self._asked[partition].offset != position.offset
        }

    def due(self, now_ms: float) -> bool:
        """Whether the interval has passed; it begins anew then. Never before one interval."""
        if self._interval_ms is None:
            return False
        is_due = self._next_ms is not None and now_ms >= self._next_ms
        if self._next_ms is None or is_due:
            self._next_ms = now_ms + self._interval_ms
        return is_due

    # Who we are and what we have.

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """These are not ours any more: what waits for them fails, now or with its answer."""
        for partition in partitions:
            self._consumed.pop(partition, None)
            self._asked.pop(partition, None)
            wish = self._wishes.pop(partition, None)
            if wish is not None:
                wish.settle(partition, OUTDATED)
            if partition in self._flying:
                self._forgotten.add(partition)

    def renew(self, member: Member) -> None:
        """We go on under this identity with all partitions that were not forgotten."""
        for wish in self._wishes.values():
            wish.member = member
        for partition, wish in self._flying.items():
            if partition not in self._forgotten:
                wish.member = member

    # Requests.

    def ask(self, offsets: Mapping[TopicPartition, Committed], member: Member) -> Ticket:
        """Store these; what waited for the same partitions is replaced."""
        ticket = Ticket(set(offsets))
        for partition, position in offsets.items():
            older = self._wishes.get(partition)
            tickets = [*older.tickets, ticket] if older is not None else [ticket]
            self._wishes[partition] = PendingCommit(position, member, tickets)
            self._asked[partition] = position
        return ticket

    def join(self, ticket: Ticket) -> None:
        """Let the ticket wait for all that waits or is under way now: the latest of each."""
        for partition, wish in (self._flying | self._wishes).items():
            if partition not in ticket.left and partition not in self._forgotten:
                wish.tickets.append(ticket)
                ticket.left.add(partition)

    def abandon(self, ticket: Ticket) -> dict[TopicPartition, ErrorCode]:
        """Nobody waits for it any more: what nobody else waits for is not tried (again).

        Returns what was left, each with the last answer that was had, or NONE."""
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
        """The next request, if there is anything to store and nothing under way."""
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
        """The answer to what has departed; partitions that it leaves out were not stored.

        Returns AGAIN, ELSEWHERE or REBALANCING if something has to be tried again, else DONE."""
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
                # A later position waits already; whoever waits for this one waits for that one.
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
        """It is not stored: it counts as uncommitted again, unless a later wish has replaced it."""
        if self._asked.get(partition) == wish.position:
            del self._asked[partition]
