"""After an unclean stop: torn ends are cut, damage is not, and doing it twice changes nothing."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from ottla.broker.log.recovery.loading import Known
from ottla.broker.log.storage.settings import LogSettings
from ottla.broker.log.storage.txn_index import AbortedTransaction
from ottla.protocol.records.builder import BatchOptions
from tests.broker.log.log_under_test import LogUnderTest, batch_at, read_all

if TYPE_CHECKING:
    from ottla.broker.log.partition_log import PartitionLog

NAME = "00000000000000000000.log"
SMALL = LogSettings(segment_bytes=600, index_interval_bytes=100)


async def filled(tested: LogUnderTest, count: int = 6) -> list[tuple[int, int, bytes]]:
    log = await tested.open()
    for number in range(count):
        tested.append(log, 1 + number % 3, options=BatchOptions(leader_epoch=1, producer_id=number))
    return read_all(log)


async def recovered(tested: LogUnderTest, known: Known = Known(0)) -> PartitionLog:  # noqa: B008
    """The log after a start, having checked that a second start finds the same."""
    tested.kill()
    log = await tested.open(known)
    files = {name: bytes(tested.content(name)) for name in tested.names(".log")}
    state = (read_all(log), tested.observer.producers, tested.observer.epochs)
    tested.kill()
    log = await tested.open(known)
    assert (read_all(log), tested.observer.producers, tested.observer.epochs) == state
    assert {name: bytes(tested.content(name)) for name in tested.names(".log")} == files
    return log


@pytest.mark.requirement("LOG-25", "LOG-26", "LOG-27")
async def test_a_file_cut_at_any_byte_of_the_last_two_batches_ends_at_a_batch() -> None:
    """S-01: a power cut may leave any part of the last writes."""
    whole = LogUnderTest()
    batches = await filled(whole)
    content = bytes(whole.content(NAME))
    start = sum(len(batch[2]) for batch in batches[:-2])
    for cut in range(start, len(content)):
        tested = LogUnderTest()
        await filled(tested)
        del tested.content(NAME)[cut:]
        log = await recovered(tested)
        kept = [b for n, b in enumerate(batches) if sum(len(x[2]) for x in batches[: n + 1]) <= cut]
        assert read_all(log) == kept
        assert bytes(tested.content(NAME)) == b"".join(batch[2] for batch in kept)
        assert log.log_end_offset == kept[-1][1] + 1


@pytest.mark.requirement("LOG-25", "LOG-26")
async def test_zeros_from_any_byte_of_the_last_two_batches_on_are_cut() -> None:
    """S-01, S-02: blocks that were allocated and never written read as zeros."""
    whole = LogUnderTest()
    batches = await filled(whole)
    content = bytes(whole.content(NAME))
    start = sum(len(batch[2]) for batch in batches[:-2])
    for cut in range(start, len(content)):
        tested = LogUnderTest()
        await filled(tested)
        tested.content(NAME)[cut:] = bytes(len(content) - cut)
        log = await recovered(tested)
        kept = [b for n, b in enumerate(batches) if sum(len(x[2]) for x in batches[: n + 1]) <= cut]
        # Some last bytes may be zero themselves, and then nothing is missing.
        assert read_all(log) in (kept, batches[: len(kept) + 1])
        assert bytes(tested.content(NAME)) == b"".join(batch[2] for batch in read_all(log))


@pytest.mark.requirement("LOG-28")
@pytest.mark.parametrize("kind", ["random", "zeros", "old", "first", "huge", "text"])
async def test_garbage_behind_the_end_is_cut(kind: str) -> None:
    """S-02: nothing of it is believed, whatever it looks like."""
    tested = LogUnderTest()
    batches = await filled(tested)
    content = tested.content(NAME)
    size = len(content)
    garbage = {
        "random": random.Random(5).randbytes(4096),
        "zeros": bytes(8192),
        "old": batches[2][2] + batches[3][2],
        "first": batches[0][2],
        "huge": (100).to_bytes(8) + (2**31 - 1).to_bytes(4) + bytes(4) + b"\2" + bytes(200),
        "text": b"GET / HTTP/1.1\r\n" * 100,
    }[kind]
    content += garbage
    log = await recovered(tested)
    assert read_all(log) == batches
    assert len(tested.content(NAME)) == size


async def test_only_what_lies_above_the_recovery_point_is_scanned() -> None:
    """S-29: a terabyte must not be read because of the last megabyte."""
    tested = LogUnderTest(settings=LogSettings(index_interval_bytes=200))
    log = await tested.open()
    for _ in range(100):
        tested.append(log, 3)
    await log.flush()
    tested.append(log, 3)
    expected = read_all(log)
    size = log.size_bytes
    tested.kill()
    # What a scan would trip over.
    tested.content(NAME)[1000] ^= 1
    log = await tested.open(Known(300))
    assert log.log_end_offset == 303
    assert read_all(log)[-50:] == expected[-50:]
    assert size - tested.observer.observed[0] > 0


async def test_indexes_are_rebuilt_as_they_were() -> None:
    """A recovered segment must answer like one that was never interrupted."""
    for flushed in (0, 7, 20, 40):
        tested = LogUnderTest(settings=LogSettings(segment_bytes=900, index_interval_bytes=150))
        log = await tested.open()
        for number in range(40):
            tested.append(log, 1, timestamp=1000 + number * 37 % 40)
            if number + 1 == flushed:
                await log.flush()
        rolled = [(s.indexes.offsets_or_raise.encode(), s.indexes.times) for s in log.segments]
        expected = [(offsets, times and times.encode()) for offsets, times in rolled]
        maxima = [segment.largest_timestamp() for segment in log.segments]
        tested.kill()
        log = await tested.open(Known(flushed))
        found = [
            (s.load_indexes().offsets_or_raise.encode(), s.indexes.times) for s in log.segments
        ]
        assert [(offsets, times and times.encode()) for offsets, times in found] == expected
        assert [segment.largest_timestamp() for segment in log.segments] == maxima


async def test_the_observer_learns_what_an_uninterrupted_one_knows() -> None:
    """Idempotence must hold across a crash: same producers, same epochs, from any snapshot."""
    for flushed in (0, 3, 10, 20, 33, 60):
        tested = LogUnderTest(settings=SMALL)
        log = await tested.open()
        for number in range(20):
            options = BatchOptions(leader_epoch=number // 6, producer_id=number % 4)
            tested.append(log, 3, options=options)
            if log.log_end_offset == flushed // 3 * 3:
                await log.flush()
        expected = (tested.observer.producers, tested.observer.epochs)
        tested.kill()
        log = await tested.open(Known(log.recovery_point))
        assert (tested.observer.producers, tested.observer.epochs) == expected
        assert tested.observer.observed == sorted(set(tested.observer.observed))


async def test_aborted_transactions_are_found_again() -> None:
    """Without them a read_committed consumer would see aborted records."""
    for spoil in (False, True):
        tested = LogUnderTest(settings=SMALL)
        log = await tested.open()
        for number in range(12):
            data = BatchOptions(leader_epoch=0, producer_id=5, is_transactional=True)
            marker = data._replace(is_control=True)
            tested.append(log, 1, options=data)
            batch = batch_at(log.log_end_offset, options=marker)
            log.append([batch], 0)
            entry = tested.observer.observe(batch)
            assert entry is not None
            log.append_aborted(AbortedTransaction(*entry))
            if number == 7:
                await log.flush()
        expected = log.aborted_transactions(0, 100)
        assert len(expected) == 12
        if spoil:
            for name in tested.names(".txnindex"):
                del tested.content(name)[-1:]
        tested.kill()
        log = await tested.open(Known(log.recovery_point))
        assert log.aborted_transactions(0, 100) == expected


async def test_a_follower_may_roll_at_a_gap() -> None:
    """A compacted leader sends batches that do not follow on one another."""
    tested = LogUnderTest(settings=SMALL)
    log = await tested.open()
    for number in range(12):
        log.append([batch_at(number * 10, 3)], 0)
    expected = read_all(log)
    assert len(log.segments) == 3
    assert read_all(await recovered(tested)) == expected


async def test_an_empty_directory_is_an_empty_log() -> None:
    """Also after a crash between making the directory and the first file."""
    tested = LogUnderTest()
    log = await tested.open(Known(None, 17))
    assert (log.log_start_offset, log.log_end_offset) == (17, 17)
    assert read_all(log) == []


@pytest.mark.parametrize("settings", [LogSettings(), SMALL])
async def test_producers_are_remembered_though_their_records_were_deleted(
    settings: LogSettings,
) -> None:
    """T-06: the answer may have been lost, and the repetition must not be taken for new."""
    tested = LogUnderTest(settings=settings)
    log = await tested.open()
    for number in range(12):
        tested.append(log, 2, options=BatchOptions(leader_epoch=0, producer_id=number))
    await log.flush()
    await log.delete_records_before(21)
    remembered = dict(tested.observer.producers)
    tested.kill()
    await tested.open(Known(0, 21))
    assert tested.observer.producers == remembered
    tested.kill()
    await tested.open(Known(22, 21))
    assert tested.observer.producers == remembered
