"""What a log loses while it is copied, and what is known of it besides its records."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ottla.broker.directories.replica_copy import ReplicaCopy
from ottla.broker.log.storage.checkpoints import decode_leader_epochs, read_file
from ottla.broker.log.storage.names import LEADER_EPOCHS
from ottla.broker.log.storage.txn_index import AbortedTransaction
from ottla.broker.replica.history import ReplicaHistory
from ottla.broker.testing.faulty_disk import DiskFault
from ottla.protocol.errors import CorruptLogError, ErrorCode, KafkaError
from ottla.protocol.records.batch import parse_batch
from ottla.protocol.records.builder import BatchOptions
from ottla.protocol.records.control import ControlType, TransactionMarker, encode_marker
from tests.broker.log.log_under_test import batch_at
from tests.broker.support.moved_log import PARTITION, MovedLog

if TYPE_CHECKING:
    from ottla.broker.log.partition_log import PartitionLog
    from ottla.protocol.records.batch import RecordBatch


def append_batch(log: PartitionLog, batch: RecordBatch) -> None:
    """As the partition does: the abort's entry follows its marker."""
    log.append([batch], 0)
    aborted = log.observer.observe(batch)
    if aborted is not None:
        log.append_aborted(AbortedTransaction(*aborted))


async def filled() -> MovedLog:
    one = MovedLog()
    await one.start()
    await one.fill()
    return one


async def finished(one: MovedLog, copying: ReplicaCopy) -> None:
    """The copy takes the log's place."""
    found = next(iter(one.logs.futures))
    while not copying.is_near:
        await copying.copy_slice()
    assert await one.logs.futures.exchange(found, copying)
    assert one.directory == "/d2"


async def copied() -> tuple[MovedLog, ReplicaCopy]:
    """A log whose copy has everything, and is not in its place yet."""
    one = await filled()
    copying = ReplicaCopy(await one.begin())
    while not copying.is_complete:
        await copying.copy_slice()
    return one, copying


@pytest.mark.parametrize("regrown", [0, 1, 8, 30])
async def test_what_is_cut_off_the_log_is_cut_off_its_copy(regrown: int) -> None:
    """A follower's log is cut and grows again: the same offsets, other records."""
    one, copying = await copied()
    await one.log.truncate_to(6)
    one.epoch = 5
    for _ in range(regrown):
        one.append()
    before = one.content
    await finished(one, copying)

    assert one.content == before
    assert list(one.log.observer.leader_epochs())[-1:] == [(5, 6) if regrown else (0, 0)]


async def test_a_cut_while_a_slice_is_read_makes_the_slice_worthless() -> None:
    """It was read from the disk before, and would bring back what the leader does not have."""
    one = await filled()
    future = await one.begin()
    copying = ReplicaCopy(future)
    offload = one.log.home.offload
    run = offload.run

    async def cut_then_answer(function, *arguments):  # type: ignore[no-untyped-def]  # as run
        content = await run(function, *arguments)
        offload.run = run  # type: ignore[method-assign]  # once
        await one.log.truncate_to(4)
        one.epoch = 3
        one.append(4)
        return content

    offload.run = cut_then_answer  # type: ignore[method-assign]  # a slow disk
    first = await copying.copy_slice()
    before = one.content
    await finished(one, copying)

    assert first == 0
    assert one.content == before


@pytest.mark.parametrize("offset", [0, 6, 100])
async def test_a_log_that_starts_over_elsewhere_takes_its_copy_along(offset: int) -> None:
    """A follower that shares no records with its leader continues, empty, at the leader's start."""
    one, copying = await copied()
    await one.log.truncate_fully_and_start_at(offset)
    one.append(2)
    before = one.content
    await finished(one, copying)

    assert one.content == before
    assert (one.log.log_start_offset, one.log.log_end_offset) == (offset, offset + 2)


@pytest.mark.parametrize("while_copying", [True, False])
async def test_deleted_records_do_not_come_back_with_a_move(while_copying: bool) -> None:
    """Neither now nor after a restart: the new directory's checkpoint knows where the log starts,
    which is within a batch here."""
    one = await filled()
    one.append(6)
    start = one.log.log_end_offset - 3
    copying = None
    if while_copying:
        copying = ReplicaCopy(await one.begin())
        while not copying.is_complete:
            await copying.copy_slice()
    await one.log.delete_records_before(start)
    if copying is None:
        copying = ReplicaCopy(await one.begin())
    await finished(one, copying)
    next_life = one.restarted("ordered", 5)
    await next_life.start()

    assert one.log.log_start_offset == start
    assert next_life.directory == "/d2"
    assert next_life.log.log_start_offset == start
    assert next_life.log.log_end_offset == start + 3


async def test_an_empty_log_is_moved_to_where_it_starts() -> None:
    """All its records were deleted, and their offsets must not be given out again."""
    one = await filled()
    end = one.log.log_end_offset
    await one.log.delete_records_before(end)
    copying = ReplicaCopy(await one.begin())
    await finished(one, copying)
    one.append()

    assert (one.log.log_start_offset, one.log.log_end_offset) == (end, end + 1)


async def test_aborted_transactions_and_producers_are_known_after_a_move_and_a_restart() -> None:
    """Without the list of aborted transactions readers would be shown what was aborted; without
    the producers a repeated batch would be written again."""
    one = MovedLog()
    await one.start()
    await one.fill()
    options = BatchOptions(
        producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True, leader_epoch=0
    )
    append_batch(one.log, batch_at(one.log.log_end_offset, 2, options=options))
    marker = parse_batch(bytearray(encode_marker(TransactionMarker(7, 0, ControlType.ABORT, 0), 0)))
    marker.stamp(one.log.log_end_offset, 0)
    append_batch(one.log, marker)
    end = one.log.log_end_offset
    before = one.log.aborted_transactions(0, end)
    copying = ReplicaCopy(await one.begin())
    await finished(one, copying)
    moved = one.log.aborted_transactions(0, end)
    next_life = one.restarted("ordered", 3)
    await next_life.start()
    history = next_life.log.observer

    assert len(before) == 1
    assert moved == next_life.log.aborted_transactions(0, end) == before
    assert isinstance(history, ReplicaHistory)
    assert [producer_id for producer_id, _ in history.producers] == [7]


async def test_a_leader_epoch_without_records_is_moved_along() -> None:
    """It is in no batch, and a replica that has lost it could lead it twice."""
    one, copying = await copied()
    epochs = [*one.log.observer.leader_epochs(), (9, one.log.log_end_offset)]
    one.log.observer.load_leader_epochs(epochs)
    await one.log.save_leader_epochs()
    await finished(one, copying)
    content = read_file(one.disk, f"{one.log.directory}/{LEADER_EPOCHS}")

    assert decode_leader_epochs(content) == one.log.saved_leader_epochs == epochs


async def test_readers_of_the_old_files_finish_what_they_have_begun() -> None:
    """A reply that is being sent keeps its file, whatever becomes of the file's name."""
    one, copying = await copied()
    found = one.log.read(0, 1 << 20, one.log.log_end_offset, at_least_one=True)
    assert found.region is not None
    before = found.region.read()
    await finished(one, copying)
    await one.logs.tidy(1e9)

    assert found.region.read() == before
    assert one.names() == ["/d2/orders-0"]


UNREADABLE = DiskFault(frozenset({"pread"}), path_part="/d1/orders-0/")


@pytest.mark.parametrize("readable", range(4))
async def test_a_log_that_cannot_be_read_takes_its_directory_offline(readable: int) -> None:
    """The task of a move that failed on an error of the disk would stop the broker."""
    one = await filled()
    copying = ReplicaCopy(await one.begin())
    one.disk.faults.add(UNREADABLE._replace(after=readable))

    async def copy_all() -> None:
        while not copying.is_complete:
            await copying.copy_slice()

    with pytest.raises(KafkaError) as caught:
        await copy_all()

    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert one.log.home.health.failure is not None


async def test_an_exchange_whose_last_read_fails_leaves_one_log_of_the_name() -> None:
    """Two logs of one name must not live on: at the next start either could be served."""
    one, copying = await copied()

    def append_and_fail() -> None:
        if one.disk.exists("/d2/orders-0") and not one.disk.faults.hits:
            one.append()
            one.disk.faults.add(UNREADABLE)

    one.disk.before_change = append_and_fail
    with pytest.raises(KafkaError):
        await one.logs.futures.exchange(next(iter(one.logs.futures)), copying)

    assert one.disk.faults.hits
    assert one.disk.exists("/d1/orders-0")
    assert not one.disk.exists("/d2/orders-0")


async def test_a_damaged_log_ends_its_move() -> None:
    """Reading the same file again finds the same damage, and no leader has sent it."""
    one = await filled()
    copying = ReplicaCopy(await one.begin())
    damaged = one.disk.files.file(one.log.segments[0].path)
    damaged.data[70] ^= 1

    with pytest.raises(CorruptLogError, match="a damaged batch from offset 0"):
        await copying.copy_slice()


async def test_a_deletion_waits_until_a_move_has_begun() -> None:
    """Half a directory cannot be removed, and the new disk would be taken for failed."""
    one = await filled()
    await one.log.lock.acquire()
    begin = asyncio.ensure_future(one.begin())
    await asyncio.sleep(0)
    drop = asyncio.ensure_future(one.logs.futures.drop(PARTITION))
    await asyncio.sleep(0)
    one.log.lock.release()
    await asyncio.gather(begin, drop)

    assert one.logs.offline_paths == []
    assert list(one.logs.futures) == []
    assert not [name for name in await one.disk.scan("/d2") if name.endswith("-future")]
