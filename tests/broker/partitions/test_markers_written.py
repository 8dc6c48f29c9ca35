"""The ends of transactions at a partition's leader: what is written, repeated, refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.broker.replica.append import AppendPlan
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records.batch import iterate_batches, parse_batch
from ottla.protocol.records.builder import BatchOptions, encode_batch
from ottla.protocol.records.control import ControlType, TransactionMarker, read_marker
from tests.broker.support.leader_site import open_site
from tests.support.transactions import admit

if TYPE_CHECKING:
    from ottla.broker.partitions.partition import PartitionRuntime

PRODUCER = 7


def marker(epoch: int = 0, coordinator_epoch: int = 0, *, commit: bool = True) -> TransactionMarker:
    control_type = ControlType.COMMIT if commit else ControlType.ABORT
    return TransactionMarker(PRODUCER, epoch, control_type, coordinator_epoch)


def put(one: PartitionRuntime, sequence: int = 0, epoch: int = 0) -> ErrorCode:
    """A transactional batch as its producer sends it."""
    options = BatchOptions(
        producer_id=PRODUCER,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=True,
    )
    batch = parse_batch(bytearray(encode_batch([(1, None, b"x", ())], options)))
    return one.write(AppendPlan(ErrorCode.NONE, None, batch), -1).error_code


def content(one: PartitionRuntime) -> bytes:
    return b"".join(part.file.pread(part.size_bytes, 0) for part in one.log.segments)


@pytest.mark.requirement("TXN-28", "FMT-31")
async def test_a_marker_is_a_control_batch_with_one_offset() -> None:
    """Kafka's own bytes: every client knows by them what to skip."""
    site = await open_site(1, replicas=(1,))
    admit(site.one, PRODUCER)
    assert put(site.one) is ErrorCode.NONE
    written = site.one.write_marker(marker(coordinator_epoch=9), 1)

    last = list(iterate_batches(content(site.one)))[-1]
    assert (written.error_code, written.base_offset, written.next_offset) == (ErrorCode.NONE, 1, 2)
    assert read_marker(last) == marker(coordinator_epoch=9)
    assert (last.is_control, last.is_transactional, last.base_sequence) == (True, True, -1)
    assert site.one.replica.last_stable_offset == 2
    await site.close()


@pytest.mark.requirement("TXN-51")
async def test_a_marker_that_comes_again_is_answered_and_not_written() -> None:
    """Coordinators repeat what they have no answer to (T-16)."""
    site = await open_site(1, replicas=(1,))
    admit(site.one, PRODUCER)
    put(site.one)
    first = site.one.write_marker(marker(), 1)
    again = site.one.write_marker(marker(), 1)

    assert (again.error_code, again.base_offset) == (ErrorCode.NONE, -1)
    assert again.next_offset == first.next_offset == site.one.log.log_end_offset
    await site.close()


@pytest.mark.parametrize(
    ("epoch", "version", "error"),
    [
        (0, 0, ErrorCode.INVALID_PRODUCER_EPOCH),
        (1, 0, ErrorCode.NONE),
        (1, 1, ErrorCode.NONE),
        # In version 2 this is the end of the transaction before, that comes late (KIP-1228).
        (1, 2, ErrorCode.INVALID_PRODUCER_EPOCH),
        (2, 2, ErrorCode.NONE),
    ],
)
async def test_a_late_marker_does_not_end_the_next_transaction(
    epoch: int, version: int, error: ErrorCode
) -> None:
    """With version 2 the end of a transaction has the epoch of the next one (T-12, T-16)."""
    site = await open_site(1, replicas=(1,))
    admit(site.one, PRODUCER)
    put(site.one)
    assert site.one.write_marker(marker(1), 2).error_code is ErrorCode.NONE
    admit(site.one, PRODUCER, 1)
    assert put(site.one, epoch=1) is ErrorCode.NONE

    assert site.one.write_marker(marker(epoch), version).error_code is error
    is_open = site.one.replica.history.producers.transactions.first_unstable_offset is not None
    assert is_open == (error is not ErrorCode.NONE)
    await site.close()


async def test_a_repeated_marker_of_version_2_is_no_error() -> None:
    """A new coordinator goes through all partitions once more (KAFKA-19999)."""
    site = await open_site(1, replicas=(1,))
    admit(site.one, PRODUCER)
    put(site.one)
    site.one.write_marker(marker(1, coordinator_epoch=4), 2)
    same = site.one.write_marker(marker(1, coordinator_epoch=4), 2)
    successor = site.one.write_marker(marker(1, coordinator_epoch=5), 2)

    assert (same.error_code, same.base_offset) == (ErrorCode.NONE, -1)
    # It teaches the partition whom to believe from now on.
    assert (successor.error_code, successor.base_offset) == (ErrorCode.NONE, 2)
    zombie = site.one.write_marker(marker(1, coordinator_epoch=4), 2)
    assert zombie.error_code is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    await site.close()


@pytest.mark.parametrize("commit", [True, False])
async def test_a_zombie_coordinator_ends_nothing(commit: bool) -> None:
    """It sleeps at PREPARE_COMMIT, another one ends the transaction, it wakes up (T-15)."""
    site = await open_site(1, replicas=(1,))
    admit(site.one, PRODUCER)
    put(site.one)
    site.one.write_marker(marker(coordinator_epoch=6), 1)
    admit(site.one, PRODUCER)
    put(site.one, 1)
    end = site.one.log.log_end_offset
    answer = site.one.write_marker(marker(coordinator_epoch=5, commit=commit), 1)

    assert answer.error_code is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert site.one.log.log_end_offset == end
    assert site.one.replica.last_stable_offset == end - 1
    await site.close()


async def test_a_marker_takes_leave_away_even_if_it_need_not_be_written() -> None:
    """The producer was let in, has written nothing, and its transaction is over (T-13)."""
    site = await open_site(1, replicas=(1,))
    admit(site.one, PRODUCER)
    put(site.one)
    site.one.write_marker(marker(), 1)
    admit(site.one, PRODUCER)
    repeated = site.one.write_marker(marker(), 1)

    assert repeated.base_offset == -1
    assert put(site.one, 1) is ErrorCode.INVALID_TXN_STATE
    await site.close()


async def test_markers_are_written_with_acks_all() -> None:
    """With too few replicas it would be forgotten by the next leader; the coordinator repeats."""
    site = await open_site(1, replicas=(1, 2), min_insync=2)

    refused = site.one.write_marker(marker(), 1)

    assert refused.error_code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert site.one.log.log_end_offset == 0
    await site.close()


async def test_leave_to_begin_ends_with_the_leadership() -> None:
    """Markers may have come and gone at another leader meanwhile."""
    site = await open_site(1, replicas=(1,))
    admit(site.one, PRODUCER)
    leadership = site.one.replica.leadership
    assert leadership is not None
    site.one.resign()
    await site.one.become(
        type(leadership)(1, leadership.leader_epoch + 1, 1, (1,), (1,), controller_epoch=3)
    )

    assert put(site.one) is ErrorCode.INVALID_TXN_STATE
    await site.close()


@pytest.mark.requirement("TXN-57")
async def test_after_an_abort_by_timeout_the_old_epoch_is_refused() -> None:
    """The coordinator aborts with the next epoch; the producer that slept must notice."""
    site = await open_site(1, replicas=(1,))
    admit(site.one, PRODUCER)
    put(site.one)
    site.one.write_marker(marker(1, commit=False), 1)

    assert put(site.one, 1) is ErrorCode.INVALID_PRODUCER_EPOCH
    await site.close()
