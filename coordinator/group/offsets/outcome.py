"""Answers requests to commit or delete offsets when the outcome of their append is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator import failures
from ottla.coordinator.outbox import Continuation
from ottla.protocol.data_classes import dataclass
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.offset_commit import OffsetCommitResponse
from ottla.protocol.messages.offset_delete import OffsetDeleteResponse
from ottla.protocol.messages.txn_offset_commit import TxnOffsetCommitResponse

if TYPE_CHECKING:
    from ottla.coordinator.effects import Ticket
    from ottla.coordinator.group.offsets.ledger import OffsetLedger, PendingOffset
    from ottla.coordinator.outbox import Outbox

CommitResponse = OffsetCommitResponse | TxnOffsetCommitResponse

# Errors for which a commit's response differs from a member's.
_OF_COMMITS = {
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    # From the check that the transaction is open; older clients do not expect it.
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}


def answer_to(error: ErrorCode) -> ErrorCode:
    """The error code for a client whose commit or deletion failed to append with ``error``."""
    return _OF_COMMITS.get(error) or failures.answer_to(error)


@dataclass(slots=True)
class CommitOutcome:
    """One commit, transactional or not; ``response`` has the errors found on receipt."""

    outbox: Outbox
    ticket: Ticket
    response: CommitResponse
    is_answered: bool = False

    def continuation(self, ledger: OffsetLedger, changes: list[PendingOffset]) -> Continuation:
        """Callbacks for the outcome of these changes' append."""
        assert changes, "nothing would be appended, and the client never answered"

        def on_committed() -> None:
            ledger.on_committed(changes)
            self.answer(ErrorCode.NONE)

        def on_failed(error: ErrorCode) -> None:
            ledger.on_failed(changes)
            self.answer(answer_to(error))

        return Continuation(on_committed, on_failed, self._on_overdue)

    def answer(self, error: ErrorCode) -> None:
        """Answer, with that error for every partition that has none yet."""
        if self.is_answered:
            return
        self.is_answered = True
        assert error is not ErrorCode.REQUEST_TIMED_OUT, "clients do not know it as an answer"
        for topic in self.response.topics:
            for partition in topic.partitions:
                if partition.error_code == ErrorCode.NONE:
                    partition.error_code = error
        self.outbox.answer(self.ticket, self.response)

    def _on_overdue(self) -> None:
        # Clients look up the coordinator and retry. The first commit may still take effect, which
        # is harmless: the second one is later in the log.
        self.answer(answer_to(ErrorCode.REQUEST_TIMED_OUT))


@dataclass(slots=True)
class DeletionOutcome:
    """One OffsetDelete, which fails as a whole."""

    outbox: Outbox
    ticket: Ticket
    response: OffsetDeleteResponse
    is_answered: bool = False

    def continuation(self) -> Continuation:
        """Callbacks for the outcome of the deletions' append."""
        return Continuation(
            lambda: self._answer(self.response),
            self._on_failed,
            lambda: self._on_failed(ErrorCode.REQUEST_TIMED_OUT),
        )

    def _on_failed(self, error: ErrorCode) -> None:
        self._answer(OffsetDeleteResponse(answer_to(error)))

    def _answer(self, response: OffsetDeleteResponse) -> None:
        if not self.is_answered:
            self.is_answered = True
            self.outbox.answer(self.ticket, response)
