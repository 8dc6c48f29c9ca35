"""What all transactional ids of one shard share."""

from __future__ import annotations

from dataclasses import field
from enum import Enum, auto
from typing import TYPE_CHECKING

from ottla.coordinator.deadlines import Deadlines
from ottla.coordinator.effects import Moment
from ottla.coordinator.failures import Skipped, answer_to
from ottla.coordinator.outbox import Continuation
from ottla.coordinator.transaction.outbox import TransactionOutbox
from ottla.coordinator.transaction.records import (
    state_record,
)
from ottla.coordinator.transaction.transitions import check_move
from ottla.protocol.data_classes import dataclass
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.coordinator.transaction.metadata import TransactionMetadata
    from ottla.coordinator.transaction.settings import TransactionSettings
    from ottla.coordinator.transaction.states import TransactionState
    from ottla.protocol.errors import ErrorCode

_BEFORE_ALL = Moment(0.0, 0)


class Alarm(Enum):
    """What a deadline is about."""

    # The transaction has been open for its timeout.
    TIMEOUT = auto()
    # A request that was held for the id has been held for long enough.
    WAITING = auto()
    # Markers were refused, or the record after them was not written: again.
    COMPLETION = auto()
    # The next sweep for ids that nobody uses; belongs to no id.
    EXPIRY = auto()


@dataclass(slots=True)
class TransactionEntry:
    """One transactional id. ``metadata`` is what is committed, None before its first record is.

    ``pending`` is the state whose record is on its way, None when there is none: with one at a
    time nobody decides on what another has not yet written. ``spare_producer_id`` was drawn for
    this id and is not in use, because the record that says so was not written (hazard T-10).
    ``ended_over`` is the connection over which a classic producer ended the transaction whose
    verdict stands."""

    transactional_id: str
    metadata: TransactionMetadata | None = None
    pending: TransactionState | None = None
    spare_producer_id: int = -1
    ended_over: str = ""

    @property
    def is_moving(self) -> bool:
        """Whether it will be in another state soon: a record is on its way, or markers are.

        Its producer may have heard already of the producer id and epoch that come with the end of
        that, and must not be taken for a stranger meanwhile."""
        known = self.metadata
        return self.pending is not None or (known is not None and known.state.is_prepared)


class PendingTransition(NamedTuple):
    """Where an id goes to. ``then`` hears of it after the id has moved, or after it has turned out
    to stay: whatever the outcome, it is on no way any more (hazard T-19)."""

    after: TransactionMetadata
    then: Continuation


def _ignore(moved: TransactionEntry) -> None:
    """Nobody needs to know."""


def _nothing(ended: TransactionEntry, after: TransactionMetadata) -> None:
    """Nobody waits for the end."""


@dataclass(slots=True)
class TransactionScope:
    """Keys of ``deadlines`` are (transactional id, alarm). ``moment`` is that of the call the
    shard is in. ``batch_limit`` tells what the log takes as one batch at that moment, ``on_moved``
    hears of every id that has moved, or has turned out to stay. ``next_after`` says where an id
    goes to at once when it has come to the end of its transaction, if somebody waits for that."""

    settings: TransactionSettings
    transactions: dict[str, TransactionEntry] = field(default_factory=dict)
    outbox: TransactionOutbox = field(default_factory=TransactionOutbox)
    deadlines: Deadlines[tuple[str, Alarm]] = field(default_factory=Deadlines)
    skipped: Skipped = field(default_factory=Skipped)
    moment: Moment = _BEFORE_ALL
    batch_limit: Callable[[], int] | None = None
    on_moved: Callable[[TransactionEntry], object] = _ignore
    next_after: Callable[[TransactionEntry, TransactionMetadata], PendingTransition | None] = (
        _nothing
    )

    @property
    def batch_bytes_max(self) -> int:
        """The largest batch that may be appended now."""
        limit = self.batch_limit
        bytes_max = self.settings.max_record_bytes
        return bytes_max if limit is None else min(bytes_max, limit())

    def find(self, transactional_id: str) -> TransactionEntry | None:
        """An id that a producer has been given for, or was once."""
        found = self.transactions.get(transactional_id)
        return None if found is None or found.metadata is None else found

    def move(self, transaction: TransactionEntry, *moves: PendingTransition) -> None:
        """Write where the id goes to, step by step; it is there when that is committed. Several
        steps are one batch, of which the log has all or nothing. Errors come as clients are
        told."""
        assert transaction.pending is None
        before, pending = transaction.metadata, None
        for after, _ in moves:
            check_move(before, after)
            before, pending = after, after.state
        assert pending is not None
        transaction.pending = pending

        def on_committed() -> None:
            assert transaction.pending is pending
            transaction.pending = None
            for after, then in moves:
                transaction.metadata = after
                then.on_committed()
            self.on_moved(transaction)

        def on_failed(error: ErrorCode) -> None:
            transaction.pending = None
            for _, then in moves:
                then.on_failed(answer_to(error))
            self.on_moved(transaction)

        def on_overdue() -> None:
            for _, then in moves:
                then.on_overdue()

        records = [state_record(transaction.transactional_id, after) for after, _ in moves]
        self.outbox.append(records, Continuation(on_committed, on_failed, on_overdue))

    def draw(
        self,
        transaction: TransactionEntry,
        pending: TransactionState,
        then: Callable[[], object],
        on_failed: Callable[[ErrorCode], object],
    ) -> None:
        """Have a spare producer id, then go on; until then the id is on its way to ``pending``."""
        assert transaction.pending is None
        if transaction.spare_producer_id >= 0:
            then()
            return
        transaction.pending = pending

        def on_drawn(producer_id: int, error: ErrorCode) -> None:
            transaction.pending = None
            if producer_id < 0:
                on_failed(answer_to(error))
            else:
                transaction.spare_producer_id = producer_id
                then()

        self.outbox.draw(on_drawn)
