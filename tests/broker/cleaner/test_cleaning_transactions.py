"""Tombstones and transactions: what may go, and when."""

from __future__ import annotations

from tests.broker.support.clean_room import CleanRoom, latest, living

DAY_MS = 86_400_000


async def room(**configs: str) -> CleanRoom:
    made = CleanRoom(None, **configs)
    await made.open()
    return made


async def test_a_tombstone_outlives_the_horizon_of_its_first_cleaning_and_no_more() -> None:
    """S-23, KIP-534: a slow reader must see the deletion; later cleanings do not put it off."""
    one = await room(delete_retention_ms=str(DAY_MS))
    one.write((b"a", b"1"), (b"b", b"1"))
    written_ms = one.clock.wall_ms()
    one.write((b"a", None))
    await one.seal_and_clean()

    batch = one.batches()[1]
    assert batch.has_delete_horizon
    assert batch.base_timestamp >= written_ms + DAY_MS
    assert one.records()[-1].timestamp == written_ms
    for number in range(3):
        one.clock.time_ms += DAY_MS / 4
        one.write((b"c", b"%d" % number))
        await one.seal_and_clean()
        assert (2, b"a", None) in one.values()
    one.clock.time_ms += DAY_MS / 2
    one.write((b"c", b"later"))
    await one.seal_and_clean()
    assert (2, b"a", None) not in one.values()
    assert set(living(one.records())) == {b"b", b"c"}


async def test_a_reader_slower_than_the_cleaner_sees_every_deletion() -> None:
    """S-23: it has read the old value, and comes back within delete.retention.ms."""
    one = await room(delete_retention_ms=str(DAY_MS))
    one.write((b"a", b"1"))
    one.write((b"b", b"1"))
    table = latest(one.records())
    position = 2
    one.write((b"a", None))
    await one.seal_and_clean()
    one.clock.time_ms += DAY_MS - 60_000
    one.write((b"c", b"1"))
    await one.seal_and_clean()

    table.update(latest(one.records(position)))

    assert table[b"a"] == (2, None)


async def test_aborted_data_goes_and_replaces_nothing() -> None:
    """S-22: its marker stays until a later cleaning finds nothing left for it to hide."""
    one = await room(delete_retention_ms=str(DAY_MS))
    one.write((b"a", b"good"))
    one.write((b"a", b"bad"), (b"b", b"bad"), producer_id=7, transactional=True)
    one.mark(7, commit=False)
    one.write((b"z", b"1"))
    one.history.producers.expire(0, 1)
    one.history.producers.expire(10, 1)
    await one.seal_and_clean()

    assert one.values() == [(0, b"a", b"good"), (4, b"z", b"1")]
    assert [batch.base_offset for batch in one.batches() if batch.is_control] == [3]
    assert one.committed() == one.records()
    one.write((b"z", b"2"))
    await one.seal_and_clean()
    assert [batch.has_delete_horizon for batch in one.batches() if batch.is_control] == [True]
    one.clock.time_ms += DAY_MS + 1
    one.write((b"z", b"3"))
    await one.seal_and_clean()
    assert not [batch for batch in one.batches() if batch.is_control]
    assert latest(one.committed()) == {b"a": (0, b"good"), b"z": (6, b"3")}


async def test_no_snapshot_says_that_a_transaction_is_open_whose_marker_has_gone() -> None:
    """S-22: read_committed would stop there for ever after the next rebuild."""
    one = await room(delete_retention_ms="0")
    one.write((b"a", b"1"), producer_id=7, transactional=True)
    one.roll()  # with a snapshot of an open transaction
    one.write((b"a", b"2"), producer_id=7, transactional=True)
    one.mark(7, commit=False)
    one.write((b"z", b"1"))
    for number in range(4):
        one.history.producers.expire(number * 10, 1)
        one.clock.time_ms += 1000
        one.write((b"z", b"%d" % number))
        await one.seal_and_clean()
    one.disk = one.disk.killed()
    await one.open()

    assert one.history.producers.transactions.open_transactions == {}
    assert not [batch for batch in one.batches() if batch.is_control]


async def test_the_marker_that_alone_knows_a_live_producers_epoch_stays() -> None:
    """It fences the producer's former self (KIP-360)."""
    one = await room(delete_retention_ms="0")
    one.mark(7, commit=True)
    for number in range(4):
        one.clock.time_ms += 1000
        one.write((b"z", b"%d" % number))
        await one.seal_and_clean()
    one.disk = one.disk.killed()
    await one.open()

    state = one.history.producers.get(7)
    assert state is not None
    assert state.producer_epoch == 0


async def test_no_tombstone_goes_by_a_clock_that_has_jumped() -> None:
    """S-18: a step of a year must not make deletions vanish."""
    one = await room(delete_retention_ms=str(DAY_MS))
    one.write((b"a", None))
    await one.seal_and_clean()
    one.clock.wall_offset_ms += 365 * DAY_MS
    one.write((b"b", b"1"))
    await one.seal_and_clean()

    assert (0, b"a", None) in one.values()
