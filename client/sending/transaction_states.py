"""The states of a transactional producer, and which of the application's calls each allows. Pure.

state           it goes on to
UNINITIALIZED   INITIALIZING by init_transactions
INITIALIZING    READY when the coordinator has given a producer id and epoch
READY           OPEN by begin_transaction, which asks nobody
OPEN            COMMITTING, ABORTING; BROKEN by an error that only this transaction dies of
COMMITTING      RENEWING or READY when the coordinator has promised it; BROKEN
BROKEN          ABORTING; nothing else is left to do with the transaction
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
    """See above."""

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
    """What an application may want, by the name of the function."""

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


class Trouble(NamedTuple):
    """Why a transaction, or the producer with ``is_fatal``, can do nothing more.

    With ``is_in_doubt`` the transaction may have been committed."""

    step: NextStep
    code: ErrorCode
    is_fatal: bool
    is_in_doubt: bool = False
