"""Verifies that a batch may open a transaction in this partition (KIP-890).

    guard of this producer and epoch          a batch that would open a transaction
    none, or none that its coordinator has    INVALID_TXN_STATE
    confirmed
    confirmed, a lower sequence was seen      OUT_OF_ORDER_SEQUENCE_NUMBER
    confirmed                                 append

A delayed produce can arrive after its transaction has ended, and open another one that is never
ended (hazard T-13). So the partition asks the coordinator before the first batch. It sets a guard
before the question; the producer's next batch or marker removes it. An answer counts only while its
guard is set: then no transaction has ended since the question, and the answer is still valid.
Guards last for one leadership.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.replica.producer import SEQUENCE_MASK, AppendAction, AppendVerdict
from ottla.protocol.errors import ErrorCode
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.records.batch import NO_SEQUENCE

if TYPE_CHECKING:
    from ottla.broker.replica.producer import ProducerState
    from ottla.broker.replica.producers import ProducerTable
    from ottla.protocol.records.batch import RecordBatch

_NONE = ErrorCode.NONE


class TransactionClaim(NamedTuple):
    """A producer's claim to be in a transaction.

    ``adds``: the same question adds the partition to the transaction, whose end bumps the
    producer's epoch (transaction version 2)."""

    producer_id: int
    producer_epoch: int
    base_sequence: int = NO_SEQUENCE
    adds: bool = False
    transactional_id: str = ""


class Guard:
    """One question to a coordinator, while its answer is valid."""

    __slots__ = ("adds", "is_confirmed", "is_standing", "lowest_sequence", "since_ms")

    def __init__(self, claim: TransactionClaim, now_ms: float) -> None:
        # While no batch of the transaction is in the log, none above this sequence may be appended.
        self.lowest_sequence = claim.base_sequence
        self.adds = claim.adds
        self.since_ms = now_ms
        self.is_standing = True
        self.is_confirmed = False

    def confirm(self) -> bool:
        """Apply the coordinator's confirmation; returns whether it is still valid."""
        self.is_confirmed = self.is_standing
        return self.is_confirmed


class _Owner(NamedTuple):
    """Whose transaction a coordinator has confirmed."""

    producer_epoch: int
    transactional_id: str
    since_ms: float


class Verifications:
    """The guards of one leader epoch; owned by the leading replica."""

    __slots__ = ("_guards", "_owners")

    def __init__(self) -> None:
        # By producer id: owners that were confirmed in this leader epoch.
        self._owners: dict[int, _Owner] = {}
        # By producer id and epoch.
        self._guards: dict[int, dict[int, Guard]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._guards.values()))

    def begin(
        self, claim: TransactionClaim, state: ProducerState | None, now_ms: float
    ) -> Guard | ErrorCode | None:
        """The guard for a question to the coordinator; None if none is needed; an error if refused.

        None is needed if the transaction is open here, or was confirmed and has not ended since.
        ``state`` is the producer's state in this partition."""
        if state is not None and claim.producer_epoch < state.producer_epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if self._is_other(claim):
            # Checked before it can change the owner's state.
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if state is not None and is_open(state, claim.producer_epoch):
            return None
        guards = self._guards.setdefault(claim.producer_id, {})
        guard = guards.get(claim.producer_epoch)
        if guard is None:
            guard = guards[claim.producer_epoch] = Guard(claim, now_ms)
        if _is_before(claim.base_sequence, guard.lowest_sequence):
            guard.lowest_sequence = claim.base_sequence
        guard.adds = claim.adds
        assert guard.is_standing, "the coordinator's answer would be void for ever"
        return None if guard.is_confirmed else guard

    def own(self, claim: TransactionClaim, now_ms: float) -> None:
        """The coordinator has confirmed that the producer id belongs to this transactional id."""
        owner = _Owner(claim.producer_epoch, claim.transactional_id, now_ms)
        self._owners[claim.producer_id] = owner

    def _is_other(self, claim: TransactionClaim) -> bool:
        """Whether the claim's transactional id differs from the confirmed owner of its producer
        id."""
        owner = self._owners.get(claim.producer_id)
        return (
            owner is not None
            and owner.producer_epoch == claim.producer_epoch
            and owner.transactional_id != claim.transactional_id
        )

    def judge(self, batch: RecordBatch, state: ProducerState | None) -> ErrorCode:
        """Whether this transactional batch may be appended."""
        if state is not None and is_open(state, batch.producer_epoch):
            return _NONE
        guard = self._guards.get(batch.producer_id, {}).get(batch.producer_epoch)
        if guard is None or not guard.is_confirmed:
            return ErrorCode.INVALID_TXN_STATE
        assert guard.is_standing, "the answer to a guard that was removed is void (T-13)"
        # After a later batch was appended, a retry of the earlier one could never succeed.
        is_late = _is_before(guard.lowest_sequence, batch.base_sequence)
        # With a new epoch for each transaction, each begins with sequence 0.
        if is_late or (guard.adds and state is None and batch.base_sequence > 0):
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        return _NONE

    def forget(self, producer_id: int, guard: Guard) -> None:
        """Remove a guard that was not confirmed.

        Later batches need not wait for it, and repeated claims leave no state behind."""
        guards = self._guards.get(producer_id, {})
        for producer_epoch, known in list(guards.items()):
            if known is guard and not guard.is_confirmed:
                del guards[producer_epoch]
                guard.is_standing = False
        if not guards:
            self._guards.pop(producer_id, None)

    def drop(self, producer_id: int) -> None:
        """Remove a producer's guards, which makes pending answers void; called after an append."""
        for guard in self._guards.pop(producer_id, {}).values():
            guard.is_standing = guard.is_confirmed = False

    def expire(self, now_ms: float, expiration_ms: float) -> None:
        """Remove the guards of producers whose guards are all older than that."""
        for producer_id, guards in list(self._guards.items()):
            if all(now_ms - guard.since_ms >= expiration_ms for guard in guards.values()):
                self.drop(producer_id)
        for producer_id, owner in list(self._owners.items()):
            if now_ms - owner.since_ms >= expiration_ms:
                del self._owners[producer_id]


def judge_batch(
    producers: ProducerTable, verifications: Verifications, batch: RecordBatch
) -> AppendVerdict:
    """The verdict on a batch with a producer id, by its sequence and its transaction.

    Duplicates are detected first, since their transaction may have ended."""
    verdict = producers.judge(batch)
    if (
        not batch.is_transactional
        or verdict.action is AppendAction.DUPLICATE
        or verdict.error is ErrorCode.INVALID_PRODUCER_EPOCH
    ):
        return verdict
    error = verifications.judge(batch, producers.get(batch.producer_id))
    return verdict if error is _NONE else AppendVerdict(AppendAction.REFUSE, error)


def is_open(state: ProducerState, producer_epoch: int) -> bool:
    """Whether a transaction of that producer epoch is open here."""
    return state.has_open_transaction and state.producer_epoch == producer_epoch


def _is_before(sequence: int, other: int) -> bool:
    """Of two sequences on the circle of 2^31, whether the first is the older one (T-03)."""
    return 0 < (other - sequence) & SEQUENCE_MASK <= SEQUENCE_MASK >> 1
