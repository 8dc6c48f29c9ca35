"""Which batches may open a transaction in this partition (KIP-890).

    guard of this producer and epoch          a batch that would open a transaction
    none, or none that its coordinator has    INVALID_TXN_STATE
    confirmed
    confirmed, a lower sequence was seen      OUT_OF_ORDER_SEQUENCE_NUMBER
    confirmed                                 append

A produce that was long on its way can arrive when its transaction has ended, and open another one
that nobody will end (hazard T-13). So before the first batch its coordinator is asked. The guard
stands here from before the question; the next batch or marker of the producer takes it away. An
answer counts only for a guard that still stands: nothing has ended since the question then, so
what the coordinator said still holds. Guards belong to one leadership, and vanish with it.
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
    """A producer says that it is in a transaction. ``adds``: that transaction bumps its epoch at
    its end, and is told of the partition by the same question (transaction version 2)."""

    producer_id: int
    producer_epoch: int
    base_sequence: int = NO_SEQUENCE
    adds: bool = False


class Guard:
    """One question to a coordinator, for as long as its answer means anything."""

    __slots__ = ("adds", "is_confirmed", "is_standing", "lowest_sequence", "since_ms")

    def __init__(self, claim: TransactionClaim, now_ms: float) -> None:
        # While nothing of the transaction is in the log, no later batch may come before this.
        self.lowest_sequence = claim.base_sequence
        self.adds = claim.adds
        self.since_ms = now_ms
        self.is_standing = True
        self.is_confirmed = False

    def confirm(self) -> bool:
        """The coordinator says yes; whether it still means anything."""
        self.is_confirmed = self.is_standing
        return self.is_confirmed


class Verifications:
    """Owned by the replica that leads, for one leader epoch."""

    __slots__ = ("_guards",)

    def __init__(self) -> None:
        # By producer id and epoch.
        self._guards: dict[int, dict[int, Guard]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._guards.values()))

    def begin(
        self, claim: TransactionClaim, state: ProducerState | None, now_ms: float
    ) -> Guard | ErrorCode | None:
        """The guard to ask the coordinator for, None if there is no need (the transaction is open
        here, or was found open and has not ended since), or why it is no use to ask. ``state`` is
        what the partition knows of the producer."""
        if state is not None:
            if claim.producer_epoch < state.producer_epoch:
                return ErrorCode.INVALID_PRODUCER_EPOCH
            if is_open(state, claim.producer_epoch):
                return None
        guards = self._guards.setdefault(claim.producer_id, {})
        guard = guards.get(claim.producer_epoch)
        if guard is None:
            guard = guards[claim.producer_epoch] = Guard(claim, now_ms)
        if _is_before(claim.base_sequence, guard.lowest_sequence):
            guard.lowest_sequence = claim.base_sequence
        guard.adds = claim.adds
        return None if guard.is_confirmed else guard

    def judge(self, batch: RecordBatch, state: ProducerState | None) -> ErrorCode:
        """Whether this transactional batch may be appended."""
        if state is not None and is_open(state, batch.producer_epoch):
            return _NONE
        guard = self._guards.get(batch.producer_id, {}).get(batch.producer_epoch)
        if guard is None or not guard.is_confirmed:
            return ErrorCode.INVALID_TXN_STATE
        # Once a later batch is in, the earlier one could never be repeated with success.
        is_late = _is_before(guard.lowest_sequence, batch.base_sequence)
        # With a new epoch for each transaction every one begins with sequence 0.
        if is_late or (guard.adds and state is None and batch.base_sequence > 0):
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        return _NONE

    def forget(self, producer_id: int, guard: Guard) -> None:
        """There will be no yes to this: no later batch has to wait for this one, and whoever asks
        without end leaves nothing behind."""
        guards = self._guards.get(producer_id, {})
        for producer_epoch, known in list(guards.items()):
            if known is guard and not guard.is_confirmed:
                del guards[producer_epoch]
                guard.is_standing = False
        if not guards:
            self._guards.pop(producer_id, None)

    def drop(self, producer_id: int) -> None:
        """The producer has a batch or a marker in the log; no answer from before counts."""
        for guard in self._guards.pop(producer_id, {}).values():
            guard.is_standing = guard.is_confirmed = False

    def expire(self, now_ms: float, expiration_ms: float) -> None:
        """Forget guards so old that nobody comes back for them."""
        for producer_id, guards in list(self._guards.items()):
            if all(now_ms - guard.since_ms >= expiration_ms for guard in guards.values()):
                self.drop(producer_id)


def judge_batch(
    producers: ProducerTable, verifications: Verifications, batch: RecordBatch
) -> AppendVerdict:
    """What to do with a batch that has a producer id: its sequence and its transaction judged.

    A repetition is recognised before its transaction is asked for, which may have ended."""
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
    """Whether that transaction is open here. With a newer epoch than the partition knows it is
    another one."""
    return state.has_open_transaction and state.producer_epoch == producer_epoch


def _is_before(sequence: int, other: int) -> bool:
    """Of two sequences on the circle of 2^31, whether the first is the older one (T-03)."""
    return 0 < (other - sequence) & SEQUENCE_MASK <= SEQUENCE_MASK >> 1
