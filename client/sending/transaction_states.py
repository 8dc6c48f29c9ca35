"""The states of a transactional producer, and which of the application's calls each allows. Pure.

state           next states
UNINITIALIZED   INITIALIZING by init_transactions
INITIALIZING    READY when the coordinator has given a producer id and epoch
READY           OPEN by begin_transaction, which sends no request
OPEN            COMMITTING, ABORTING; BROKEN by an error that is fatal to this transaction only
COMMITTING      RENEWING or READY when the coordinator has confirmed it; BROKEN
BROKEN          ABORTING
ABORTING        RENEWING or READY
RENEWING        READY with another epoch (KIP-360); the transaction has ended before
FATAL           nothing; from any state
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from ottla.client.sending.transaction_verdict import NextStep
    from ottla.protocol.errors import ErrorCode


class ProducerTransactionState(Enum):
    """State of a transactional producer; the module's docstring has the transitions."""

    UNINITIALIZED = "not initialized: call init_transactions() first"
    INITIALIZING = "being initialized"
    READY = "without a transaction"
    OPEN = "in a transaction"
    COMMITTING = "committing"
    ABORTING = "aborting"
    BROKEN = "in a transaction that has failed"
    RENEWING = "getting its next epoch"
    FATAL = "beyond use"


class Call(Enum):
    """A transactional call of the application, by the name of the function."""

    INITIALIZE = "init_transactions"
    BEGIN = "begin_transaction"
    SEND = "send"
    SEND_OFFSETS = "send_offsets_to_transaction"
    COMMIT = "commit_transaction"
    ABORT = "abort_transaction"


LEGAL: dict[Call, frozenset[ProducerTransactionState]] = {
    Call.INITIALIZE: frozenset({ProducerTransactionState.UNINITIALIZED}),
    Call.BEGIN: frozenset({ProducerTransactionState.READY}),
    Call.SEND: frozenset({ProducerTransactionState.OPEN}),
    Call.SEND_OFFSETS: frozenset({ProducerTransactionState.OPEN}),
    Call.COMMIT: frozenset({ProducerTransactionState.OPEN}),
    Call.ABORT: frozenset({ProducerTransactionState.OPEN, ProducerTransactionState.BROKEN}),
}


class TransactionFailure(NamedTuple):
    """Why a transaction, or the producer with ``is_fatal``, cannot continue.

    With ``is_in_doubt`` the transaction may have been committed."""

    step: NextStep
    code: ErrorCode
    is_fatal: bool
    is_in_doubt: bool = False
