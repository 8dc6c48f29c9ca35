"""What is damage and what is a torn end, and state that was lost with cut records."""

from __future__ import annotations

import zlib

import pytest

from ottla.broker.log.recovery.loading import Known
from ottla.broker.log.storage.settings import LogSettings
from ottla.protocol.errors import CorruptLogError
from ottla.protocol.records.builder import BatchOptions
from tests.broker.log.log_under_test import LogUnderTest, batch_at, read_all
from tests.broker.log.recovery.test_recovery import NAME, SMALL, filled, recovered


async def test_one_flipped_bit_in_the_middle_is_damage_and_nothing_is_cut() -> None:
    """S-03: the records behind it were acknowledged; cutting would lose them everywhere."""
    whole = LogUnderTest()
    batches = await filled(whole)
    content = bytes(whole.content(NAME))
    last = len(content) - len(batches[-1][2])
    for position in range(0, last, 7):
        tested = LogUnderTest()
        batches = await filled(tested)
        spoiled = tested.content(NAME)
        spoiled[position] ^= 0x10
        before = bytes(spoiled)
        tested.kill()
        with pytest.raises(CorruptLogError, match="damaged"):
            await tested.open(Known(0))
        assert bytes(tested.content(NAME)) == before


async def test_the_operator_may_cut_damage() -> None:
    """With one replica there is no broker to fetch from; the operator may choose to lose
    records."""
    tested = LogUnderTest()
    batches = await filled(tested)
    tested.content(NAME)[len(batches[0][2]) + 70] ^= 1
    log = await recovered(tested, Known(0, cut_damage=True))
    assert read_all(log) == batches[:1]


async def test_a_torn_end_below_the_recovery_point_is_damage() -> None:
    """S-06: it was on the disk once; a torn write cannot explain its absence."""
    tested = LogUnderTest()
    batches = await filled(tested)
    del tested.content(NAME)[-10:]
    tested.kill()
    with pytest.raises(CorruptLogError, match="damaged"):
        await tested.open(Known(batches[-1][1] + 1))
    assert read_all(await tested.open(Known(batches[-1][0]))) == batches[:-1]


async def test_damage_before_a_valid_segment_is_damage() -> None:
    """The end of an older segment is the middle of the log."""
    tested = LogUnderTest(settings=SMALL)
    await filled(tested, 20)
    assert len(tested.names(".log")) == 5
    del tested.content(tested.names(".log")[2])[-5:]
    tested.kill()
    with pytest.raises(CorruptLogError, match="damaged"):
        await tested.open(Known(0))


async def test_garbage_segments_behind_a_torn_one_go_with_the_tear() -> None:
    """Rolled in the last moment, and nothing of it reached the disk."""
    tested = LogUnderTest(settings=SMALL)
    batches = await filled(tested, 20)
    names = tested.names(".log")
    del tested.content(names[3])[-5:]
    tested.content(names[4])[:] = bytes(300)
    log = await recovered(tested)
    assert [segment.base_offset for segment in log.segments] == [int(n[:20]) for n in names[:4]]
    kept = read_all(log)
    assert kept == batches[: len(kept)]
    tested.append(log, 1)


async def test_an_older_leader_epoch_behind_a_later_one_ends_the_log() -> None:
    """S-01: a block from before a truncation that came back."""
    tested = LogUnderTest()
    log = await tested.open()
    for epoch in (3, 3, 2):
        log.append([batch_at(log.log_end_offset, options=BatchOptions(leader_epoch=epoch))], 0)
    tested.kill()
    with pytest.raises(CorruptLogError, match="leader epoch 2 comes after 3"):
        await tested.open(Known(0))


async def test_spoiled_snapshots_are_passed_over() -> None:
    """The batches know; a snapshot only spares reading them."""
    tested = LogUnderTest(settings=SMALL)
    await filled(tested, 20)
    expected = tested.observer.producers
    for name in tested.names(".snapshot"):
        tested.content(name)[:] = b"{torn"
    await recovered(tested)
    assert tested.observer.producers == expected
    assert "reset" in tested.observer.calls


async def test_spoiled_leader_epochs_are_learnt_from_the_batches() -> None:
    """S-28: and are then equal to what the file said."""
    tested = LogUnderTest(settings=SMALL)
    log = await tested.open()
    for number in range(20):
        tested.append(log, 3, options=BatchOptions(leader_epoch=number // 6))
    await log.close()
    expected = bytes(tested.content("leader-epoch-checkpoint"))
    tested.content("leader-epoch-checkpoint").clear()
    tested.kill()
    log = await tested.open(Known(60))
    await log.close()
    assert bytes(tested.content("leader-epoch-checkpoint")) == expected


async def test_a_stale_batch_behind_a_scan_from_an_index_entry_is_garbage() -> None:
    """S-02: offsets that lie before the place where the scan began are old, not valid."""
    tested = LogUnderTest(settings=LogSettings(index_interval_bytes=100))
    batches = await filled(tested, 20)
    log = await tested.open()
    await log.flush()
    content = tested.content(NAME)
    size = len(content)
    content += batches[2][2]
    log = await recovered(tested, Known(log.recovery_point))
    assert tested.observer.observed
    assert read_all(log) == batches
    assert len(tested.content(NAME)) == size


async def test_a_snapshot_of_records_that_were_lost_is_forgotten() -> None:
    """It would come back to life once the log reaches its offset again, with other records."""
    tested = LogUnderTest(settings=SMALL)
    log = await tested.open()
    for _ in range(9):
        tested.append(log, 3, options=BatchOptions(leader_epoch=0, producer_id=1))
    assert tested.names(".snapshot") == [f"{12:020d}.snapshot", f"{24:020d}.snapshot"]
    for name in tested.names(".log")[2:]:
        await tested.disk.unlink(f"/data/orders-0/{name}")
    del tested.content(tested.names(".log")[1])[-10:]
    tested.kill()
    log = await tested.open(Known(0))
    assert log.log_end_offset == 21
    for _ in range(9):
        tested.append(log, 3, options=BatchOptions(leader_epoch=0, producer_id=2))
    expected = tested.observer.producers
    await log.flush()
    tested.kill()
    await tested.open(Known(log.recovery_point))
    assert tested.observer.producers == expected == {1: 20, 2: 47}


@pytest.mark.parametrize("where", ["truncation", "recovery"])
async def test_new_bytes_in_the_place_of_cut_ones_are_never_taken_for_damage(where: str) -> None:
    """The cut is durable before anything is appended, so no power cut shows a mix of both."""
    for seed in range(80):
        tested = LogUnderTest()
        batches = await filled(tested, 12)
        log = await tested.open()
        await log.flush()
        for directory in ("/", "/data"):
            await tested.disk.fsync_directory(directory)
        if where == "truncation":
            await log.truncate_to(10)
        else:
            del tested.content(NAME)[-30:]
            tested.kill()
            log = await tested.open(Known(10))
        end = log.log_end_offset
        for _ in range(seed % 5):
            tested.append(log, 2, value=b"other" * 50, options=BatchOptions(leader_epoch=1))
        expected = read_all(log)
        tested.cut_power(seed)
        log = await tested.open(Known(10))
        assert log.log_end_offset >= end
        found = read_all(log)
        assert found == expected[: len(found)]
        assert found[:4] == batches[:4]


async def test_snapshots_of_unknown_epochs_do_not_come_back() -> None:
    """They were passed over once; after a truncation they would be of another log."""
    tested = LogUnderTest(settings=SMALL)
    log = await tested.open()
    for _ in range(9):
        tested.append(log, 3, options=BatchOptions(leader_epoch=0, producer_id=1))
    await log.close()
    await tested.disk.unlink("/data/orders-0/leader-epoch-checkpoint")
    tested.kill()
    log = await tested.open(Known(27))
    assert tested.observer.observed == list(range(0, 27, 3))
    await log.truncate_to(15)
    for _ in range(9):
        tested.append(log, 3, options=BatchOptions(leader_epoch=0, producer_id=2))
    expected = tested.observer.producers
    await log.flush()
    tested.kill()
    await tested.open(Known(log.recovery_point))
    assert tested.observer.producers == expected == {1: 14, 2: 41}


def old_message(offset: int, magic: int) -> bytes:
    """A message as Kafka before 0.11 wrote it."""
    timestamp = bytes(8) if magic == 1 else b""
    content = bytes([magic, 0]) + timestamp + b"\xff\xff\xff\xff" + (2).to_bytes(4) + b"ab"
    checksum = zlib.crc32(content).to_bytes(4)
    return offset.to_bytes(8) + (len(content) + 4).to_bytes(4) + checksum + content


@pytest.mark.parametrize("magic", [0, 1])
async def test_messages_of_an_older_format_behind_batches_are_no_torn_end(magic: int) -> None:
    """S-03: they cannot be served there, but cutting would delete all of them."""
    tested = LogUnderTest()
    await filled(tested)
    content = tested.content(NAME)
    content.extend(old_message(100, magic) + old_message(101, magic))
    before = bytes(content)
    tested.kill()
    with pytest.raises(CorruptLogError, match="of a Kafka before"):
        await tested.open(Known(0))

    assert bytes(tested.content(NAME)) == before
    # The neighbour: a message whose checksum is wrong is garbage like any other.
    del tested.content(NAME)[-len(old_message(0, magic)) :]
    tested.content(NAME)[-1] ^= 1
    await tested.open(Known(0))
