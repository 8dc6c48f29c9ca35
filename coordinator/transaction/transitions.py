"""Computes a transactional id's metadata after each transition.

It decides and changes nothing: a transition takes effect when its record is committed.
``check_move`` asserts the rules for every transition before it is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.transaction.metadata import (
    EPOCH_MAX,
    LAST_USABLE_EPOCH,
    NO_PRODUCER_ID,
    TransactionMetadata,
)
from ottla.coordinator.transaction.states import VALID_PREVIOUS, TransactionState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.protocol.ids import TopicPartition

_COMPLETE = {
    TransactionState.PREPARE_COMMIT: TransactionState.COMPLETE_COMMIT,
    TransactionState.PREPARE_ABORT: TransactionState.COMPLETE_ABORT,
}


def initialised(
    before: TransactionMetadata,
    producer_epoch: int,
    last_producer_epoch: int,
    timeout_ms: int,
    wall_ms: int,
) -> TransactionMetadata:
    """Assign that epoch of the same producer id."""
    # The largest epoch stays free: the coordinator fences the last producer with it.
    assert 0 <= producer_epoch <= LAST_USABLE_EPOCH
    after = before._replace(
        producer_epoch=producer_epoch,
        last_producer_epoch=last_producer_epoch,
        timeout_ms=timeout_ms,
        state=TransactionState.EMPTY,
        partitions=frozenset(),
        start_wall_ms=-1,
        last_update_wall_ms=wall_ms,
    )
    # A producer that gets the same epoch again may ask a third time, with its previous one.
    return after if producer_epoch == before.producer_epoch else _remembering(before, after)


def rotated(
    before: TransactionMetadata,
    producer_id: int,
    last_producer_epoch: int,
    timeout_ms: int,
    wall_ms: int,
) -> TransactionMetadata:
    """Assign another producer id, at epoch 0."""
    after = initialised(before, 0, last_producer_epoch, timeout_ms, wall_ms)
    return _remembering(before, after._replace(producer_id=producer_id))


def added(
    before: TransactionMetadata,
    partitions: Iterable[TopicPartition],
    client_version: int,
    wall_ms: int,
) -> TransactionMetadata:
    """Add partitions to the transaction, which begins with the first of them."""
    is_begun = before.state is TransactionState.ONGOING
    return _remembering(
        before,
        before._replace(
            state=TransactionState.ONGOING,
            partitions=before.partitions.union(partitions),
            client_version=client_version,
            start_wall_ms=before.start_wall_ms if is_begun else wall_ms,
            last_update_wall_ms=wall_ms,
        ),
    )


def prepared_classic(
    before: TransactionMetadata, *, is_commit: bool, wall_ms: int
) -> TransactionMetadata:
    """Set the verdict; the next transaction has the same epoch."""
    after = before._replace(
        state=_prepared_state(is_commit),
        client_version=0,
        next_producer_id=NO_PRODUCER_ID,
        last_update_wall_ms=wall_ms,
    )
    return _remembering(before, after)


def prepared(
    before: TransactionMetadata,
    *,
    is_commit: bool,
    next_producer_id: int,
    client_version: int,
    wall_ms: int,
) -> TransactionMetadata:
    """Set the verdict and raise the epoch, so that nothing that was sent before can reach the next
    transaction (hazard T-12).

    An abort may come without added partitions: the transaction then begins and ends now."""
    is_begun = before.state is TransactionState.ONGOING
    assert (next_producer_id != NO_PRODUCER_ID) == before.is_exhausted
    after = before._replace(
        state=_prepared_state(is_commit),
        # Only a record written by another implementation can be at the limit already: it is
        # completed with the epoch it has.
        producer_epoch=min(before.producer_epoch + 1, EPOCH_MAX),
        last_producer_epoch=before.producer_epoch,
        client_version=client_version,
        next_producer_id=next_producer_id,
        start_wall_ms=before.start_wall_ms if is_begun else wall_ms,
        last_update_wall_ms=wall_ms,
    )
    return _remembering(before, after)


def completed(before: TransactionMetadata, wall_ms: int) -> TransactionMetadata:
    """All partitions have their marker. If the epochs are used up, the producer continues with the
    producer id drawn when the transaction was prepared, which it was already given."""
    after = before._replace(
        state=_COMPLETE[before.state],
        partitions=frozenset(),
        next_producer_id=NO_PRODUCER_ID,
        last_update_wall_ms=wall_ms,
    )
    if before.bumps_epochs and before.next_producer_id != NO_PRODUCER_ID:
        after = after._replace(producer_id=before.next_producer_id, producer_epoch=0)
    return _remembering(before, after)


def check_move(before: TransactionMetadata | None, after: TransactionMetadata) -> None:
    """Assert that a transition is legal, before it is written to the log."""
    assert after.producer_id >= 0
    assert 0 <= after.producer_epoch <= EPOCH_MAX
    if before is None:
        assert after.state is TransactionState.EMPTY, f"begins as {after.state.label}"
        assert after.producer_epoch == 0
        return
    states = f"{before.state.label} to {after.state.label}"
    assert before.state in VALID_PREVIOUS[after.state], f"illegal move: {states}"
    if after.producer_id != before.producer_id:
        assert after.producer_epoch == 0, f"{states}: a new producer id begins with epoch 0"
    else:
        bump = after.producer_epoch - before.producer_epoch
        assert bump in (0, 1), f"{states}: the epoch moves by {bump}"
    if after.state is TransactionState.ONGOING:
        assert after.partitions >= before.partitions, f"{states}: a partition is lost"
    elif after.state.is_prepared:
        assert after.partitions == before.partitions, f"{states}: other partitions"
    else:
        assert not after.partitions
    if before.state is TransactionState.ONGOING:
        assert after.start_wall_ms == before.start_wall_ms, f"{states}: another transaction"
    if not after.state.is_prepared:
        # Only a verdict names the next producer id, and the end of its transaction uses it.
        kept = NO_PRODUCER_ID if after.state.is_complete else before.next_producer_id
        assert after.next_producer_id == kept, f"{states}: the next producer id changes"


def _prepared_state(is_commit: bool) -> TransactionState:
    return TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT


def _remembering(before: TransactionMetadata, after: TransactionMetadata) -> TransactionMetadata:
    """Add the previous producer id if the record has tags, as after a reload."""
    after = after._replace(previous_producer_id=before.producer_id)
    if after.needs_tags:
        return after
    return after._replace(previous_producer_id=NO_PRODUCER_ID)
