"""State that all transactional ids of one shard share, and the transitions of an id."""

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
    """What a deadline is for."""

    # An open transaction reaches its timeout.
    TIMEOUT = auto()
    # A request held for the id reaches its time limit.
    WAITING = auto()
    # Retry after refused markers, or after the final record was not written.
    COMPLETION = auto()
    # The next sweep for unused ids; belongs to no id.
    EXPIRY = auto()


@dataclass(slots=True)
class TransactionEntry:
    """One transactional id. ``metadata`` is what is committed, None before its first record is.

    ``pending`` is the state whose record is being written, or None: only one at a time, so that no
    request is decided on unwritten state. ``spare_producer_id`` was drawn for this id and is
    unused, because its record was not written (hazard T-10). ``ended_over`` is the connection
    over which a classic producer ended the last transaction."""

    transactional_id: str
    metadata: TransactionMetadata | None = None
    pending: TransactionState | None = None
    spare_producer_id: int = -1
    ended_over: str = ""

    @property
    def is_moving(self) -> bool:
        """Whether it will change state soon: a record or markers are being written.

        Its producer may already have the producer id and epoch that follow, and must not be fenced
        meanwhile."""
        known = self.metadata
        return self.pending is not None or (known is not None and known.state.is_prepared)


class PendingTransition(NamedTuple):
    """A transition of an id. ``then`` gets the outcome after the id has moved or the write has
    failed: in either case no record is pending any more (hazard T-19)."""

    after: TransactionMetadata
    then: Continuation


def _ignore(moved: TransactionEntry) -> None:
    """Ignore that the id has moved."""


def _nothing(ended: TransactionEntry, after: TransactionMetadata) -> None:
    """No transition follows."""


@dataclass(slots=True)
class TransactionScope:
    """One per shard. Keys of ``deadlines`` are (transactional id, alarm). ``moment`` is that of the
    shard's current call. ``batch_limit`` returns the current size limit of a batch in the log.
    ``on_moved`` is called with every id that has moved or failed to. ``next_after`` returns the
    transition to write with the end of a transaction if a request waits for it."""

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
        """The size limit of a batch that is appended now."""
        limit = self.batch_limit
        bytes_max = self.settings.max_record_bytes
        return bytes_max if limit is None else min(bytes_max, limit())

    def find(self, transactional_id: str) -> TransactionEntry | None:
        """An id with a committed producer id; None if there is none."""
        found = self.transactions.get(transactional_id)
        return None if found is None or found.metadata is None else found

    def move(self, transaction: TransactionEntry, *moves: PendingTransition) -> None:
        """Write transitions; the id moves when they are committed. Several of them are one batch,
        of which the log has all or nothing. Failures are mapped to error codes for clients."""
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
            assert transaction.pending is pending, "another record of the id is on its way"
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
        """Ensure a spare producer id, then call ``then``; the id is ``pending`` until then."""
        assert transaction.pending is None
        if transaction.spare_producer_id >= 0:
            then()
            return
        transaction.pending = pending

        def on_drawn(producer_id: int, error: ErrorCode) -> None:
            assert transaction.pending is pending
            assert transaction.spare_producer_id < 0, "a producer id would be lost (T-10)"
            transaction.pending = None
            if producer_id < 0:
                on_failed(answer_to(error))
            else:
                transaction.spare_producer_id = producer_id
                then()

        self.outbox.draw(on_drawn)
