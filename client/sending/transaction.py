"""Decides what a transactional producer may send, and its next request (KIP-98, 890). Pure.

The states are in ``transaction_states``, the meaning of errors in ``transaction_verdict``.

Version 1 announces partitions and groups before they are written to, and keeps its epoch; after an
error it takes the next one, so that no request in flight can join a later transaction. In version 2
brokers announce partitions, and each end of a transaction brings the next epoch.

A requested commit can only become a commit or remain unknown: this module never follows a doubtful
commit with an abort.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.sending.coordinator_requests import (
    NO_IDENTITY,
    Ask,
    AskEnd,
    AskGroup,
    AskIdentity,
    AskOffsets,
    AskPartitions,
)
from ottla.client.sending.transaction_contents import Parts
from ottla.client.sending.transaction_states import ProducerTransactionState, TransactionFailure
from ottla.client.sending.transaction_verdict import Judgement, NextStep, judge_error
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.client.sending.sequences import ProducerIdentity
    from ottla.protocol.ids import TopicPartition

VERSION_IMPLICIT = 2
STEPS: dict[type[Ask], NextStep] = {
    AskPartitions: NextStep.ADD_PARTITIONS,
    AskGroup: NextStep.ADD_OFFSETS,
    AskOffsets: NextStep.COMMIT_OFFSETS,
}

# The outcome may be written all the same: the coordinator has stopped waiting for replicas, or was
# replaced.
OUTCOME_OPEN = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NETWORK_EXCEPTION,
    }
)


class ProducerTransaction:
    """Owned by one producer for its whole life; there is one transaction at a time.

    The caller of ``advance`` reports the answer to the returned request before it calls again."""

    __slots__ = (
        "_is_forgotten",
        "_may_have_ended",
        "_needs_renewal",
        "can_renew",
        "failure",
        "identity",
        "level",
        "outcome",
        "parts",
        "serial",
        "state",
        "version",
    )

    def __init__(self) -> None:
        self.state = ProducerTransactionState.UNINITIALIZED
        self.failure: TransactionFailure | None = None
        self.identity = NO_IDENTITY
        # The protocol version of this transaction, and the one for the next: a newly found level of
        # the cluster does not change an open transaction.
        self.version = 1
        self.level = 1
        # Whether the coordinator can raise the epoch of a living producer.
        self.can_renew = False
        # How many transactions have begun, and how the last one ended: True is committed.
        self.serial = 0
        self.outcome: bool | None = None
        self.parts = Parts()
        # A request to end it was lost, or its answer left the outcome open.
        self._may_have_ended = False
        # The coordinator does not know the producer id any more.
        self._is_forgotten = False
        self._needs_renewal = False

    @property
    def is_draining(self) -> bool:
        """Whether records that are not in flight must not be sent any more."""
        return self.state in (
            ProducerTransactionState.BROKEN,
            ProducerTransactionState.ABORTING,
            ProducerTransactionState.FATAL,
        )

    # The application's calls. Each needs a state that ``LEGAL`` has for it.

    def initialize(self) -> None:
        """Become the only producer with the transactional id."""
        assert self.state is ProducerTransactionState.UNINITIALIZED
        self.state = ProducerTransactionState.INITIALIZING

    def resume(self, identity: ProducerIdentity, version: int) -> None:
        """Take over a transaction that another producer has left open, to end it."""
        assert self.state is ProducerTransactionState.UNINITIALIZED
        self.identity = identity
        self.version = self.level = version
        self.state = ProducerTransactionState.READY
        self.begin()
        self.parts.is_known = True

    def begin(self) -> None:
        """Open a transaction. The coordinator learns of it with the first request in it."""
        assert self.state is ProducerTransactionState.READY
        self.state = ProducerTransactionState.OPEN
        self.serial += 1
        self.outcome = None
        self._may_have_ended = False
        self.parts.begin(is_implicit=self.version >= VERSION_IMPLICIT)

    def commit(self) -> None:
        """Commit the transaction, once everything in it is acknowledged."""
        assert self.state is ProducerTransactionState.OPEN
        self.state = ProducerTransactionState.COMMITTING

    def abort(self) -> None:
        """Abort the transaction."""
        assert self.state in (ProducerTransactionState.OPEN, ProducerTransactionState.BROKEN)
        self.state = ProducerTransactionState.ABORTING
        self.failure = None
        self.parts.drop_waiting()

    # Records.

    def may_go(self, partition: TopicPartition) -> bool:
        """Return whether batches of the partition may be sent (again)."""
        return self.state in (
            ProducerTransactionState.OPEN,
            ProducerTransactionState.COMMITTING,
        ) and self.parts.has(partition)

    def dropped(self, *, was_numbered: bool) -> None:
        """Record that a batch was given up. Its number is spent, and it may be in the log all the
        same: no batch may follow under this epoch (hazard T-09)."""
        self._needs_renewal = self._needs_renewal or was_numbered

    def batch_failed(self, code: ErrorCode) -> None:
        """Record that a broker refused a batch for good, or time ran out (REQUEST_TIMED_OUT).

        While a transaction is given up anyway, gaps of this producer's making are ignored."""
        if self.is_draining and code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            return
        self._judged(judge_error(NextStep.PRODUCE, code), NextStep.PRODUCE, code)

    # Requests.

    def has_work(self, *, unresolved: bool) -> bool:
        """Whether ``advance`` would do anything; ``unresolved``: some batch is unresolved."""
        if self.state in (ProducerTransactionState.INITIALIZING, ProducerTransactionState.RENEWING):
            return True
        if (
            self.state in (ProducerTransactionState.OPEN, ProducerTransactionState.COMMITTING)
            and self.parts.is_waiting
        ):
            return True
        return (
            self.state in (ProducerTransactionState.COMMITTING, ProducerTransactionState.ABORTING)
            and not unresolved
        )

    def advance(self, *, unresolved: bool) -> Ask | None:
        """Return the next request; None if there is none for the moment.

        A transaction that no coordinator knows ends here, without a request."""
        if not self.has_work(unresolved=unresolved):
            return None
        if self.state is ProducerTransactionState.INITIALIZING:
            return AskIdentity(NO_IDENTITY)
        if self.state is ProducerTransactionState.RENEWING:
            return AskIdentity(self.identity if self.can_renew else NO_IDENTITY)
        if self.parts.is_waiting:
            return self.parts.next_ask()
        is_commit = self.state is ProducerTransactionState.COMMITTING
        if (self.parts.is_known or self.parts.may_be_known) and not self._is_forgotten:
            return AskEnd(is_commit)
        self._ended(is_commit)
        return self.advance(unresolved=unresolved)

    # Answers.

    def initialized(self, code: ErrorCode, identity: ProducerIdentity) -> Judgement:
        """Take the answer to ``AskIdentity``."""
        assert self.state in (
            ProducerTransactionState.INITIALIZING,
            ProducerTransactionState.RENEWING,
        )
        judgement = judge_error(NextStep.INITIALIZE, code)
        if judgement is Judgement.DONE:
            assert identity.producer_id >= 0
            self.identity = identity
            self.version = self.level
            self.state = ProducerTransactionState.READY
            self._is_forgotten = self._needs_renewal = False
        return self._judged(judgement, NextStep.INITIALIZE, code)

    def added(self, ask: Ask, codes: Iterable[ErrorCode]) -> tuple[Judgement, ErrorCode]:
        """Take the answer to a request about ``parts``, which may have several codes.

        The request took effect as a whole or not at all, or can be repeated without harm."""
        step = STEPS[type(ask)]
        judgement, code = worst(step, codes)
        if judgement is Judgement.DONE:
            self.parts.added(ask)
        return self._judged(judgement, step, code), code

    def ended(self, ask: AskEnd, code: ErrorCode, identity: ProducerIdentity) -> Judgement:
        """Take the answer to ``AskEnd``, from version 5 on with the next identity."""
        assert self.state is (
            ProducerTransactionState.COMMITTING
            if ask.is_commit
            else ProducerTransactionState.ABORTING
        )
        step = NextStep.COMMIT if ask.is_commit else NextStep.ABORT
        judgement = judge_error(step, code)
        if not ask.is_commit and self._says_unknown(judgement, code):
            self._needs_renewal = True
            judgement = Judgement.DONE
        if ask.is_commit and self._may_have_ended and judgement >= Judgement.ABORTABLE:
            judgement = Judgement.FATAL
        if code in OUTCOME_OPEN:
            self._may_have_ended = True
        if judgement is Judgement.DONE:
            if identity.producer_id >= 0:
                self.identity = identity
                self._needs_renewal = False
            self._ended(ask.is_commit)
        return self._judged(judgement, step, code)

    def _says_unknown(self, judgement: Judgement, code: ErrorCode) -> bool:
        """Return whether a refused abort means that there is nothing to abort.

        1. The request that would have begun the transaction is lost.
        2. The application aborts, not knowing whether there is anything to abort.
        3. The coordinator refuses, since it has no open transaction.

        The lost request does no harm if it arrives late: its epoch has passed."""
        if judgement is Judgement.FORGOTTEN:
            self._is_forgotten = True
            return True
        return not self.parts.is_known and code is ErrorCode.INVALID_TXN_STATE

    def refused(self, code: ErrorCode) -> Judgement:
        """Record that no coordinator can be asked, or that none supports the request
        (UNSUPPORTED_VERSION)."""
        return self._judged(judge_error(NextStep.FIND, code), NextStep.FIND, code)

    def lost(self, ask: Ask) -> None:
        """Record that the request was sent and no answer will come: it may have taken effect."""
        if isinstance(ask, AskIdentity):
            return
        if isinstance(ask, AskEnd):
            self._may_have_ended = True
        else:
            self.parts.lost(ask)
        if self.version < VERSION_IMPLICIT and self.can_renew:
            # It may arrive after this transaction and end the next one, replace newer positions by
            # these, or begin a transaction that no request ends. Under a past epoch it is refused
            # (hazards T-12, T-13).
            self._needs_renewal = True

    def _ended(self, is_commit: bool) -> None:
        """Record the end of the transaction, and prepare the next one."""
        self.outcome = is_commit
        # Partitions that version 1 has announced must not seem to belong to the first transaction
        # of version 2, so that begins under an epoch of its own.
        needs_renewal = self._needs_renewal or (self.level > self.version and self.can_renew)
        if self._is_forgotten or (needs_renewal and self.can_renew):
            self.state = ProducerTransactionState.RENEWING
        elif needs_renewal:
            self.state = ProducerTransactionState.FATAL
            self.failure = TransactionFailure(
                NextStep.INITIALIZE, ErrorCode.UNSUPPORTED_VERSION, is_fatal=True
            )
        else:
            self.version = self.level
            self.state = ProducerTransactionState.READY

    def _judged(self, judgement: Judgement, step: NextStep, code: ErrorCode) -> Judgement:
        """Apply the consequences of an error."""
        if judgement < Judgement.ABORTABLE or self.state is ProducerTransactionState.FATAL:
            return judgement
        self._is_forgotten = self._is_forgotten or judgement is Judgement.FORGOTTEN
        self.parts.drop_waiting()
        if judgement is Judgement.FATAL:
            in_doubt = self.state is ProducerTransactionState.COMMITTING and self._may_have_ended
            self.state = ProducerTransactionState.FATAL
            self.failure = TransactionFailure(step, code, is_fatal=True, is_in_doubt=in_doubt)
        elif self.state in (ProducerTransactionState.OPEN, ProducerTransactionState.COMMITTING):
            self._needs_renewal = self._needs_renewal or self.version < VERSION_IMPLICIT
            self.state = ProducerTransactionState.BROKEN
            self.failure = TransactionFailure(step, code, is_fatal=False)
        return judgement


def worst(step: NextStep, codes: Iterable[ErrorCode]) -> tuple[Judgement, ErrorCode]:
    """Return the decisive one of several codes for one request."""
    judged = [(judge_error(step, code), code) for code in codes]
    # OPERATION_NOT_ATTEMPTED only says that another one failed.
    judged.sort(key=lambda one: (one[0], one[1] is not ErrorCode.OPERATION_NOT_ATTEMPTED))
    return judged[-1] if judged else (Judgement.DONE, ErrorCode.NONE)
