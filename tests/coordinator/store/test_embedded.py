"""The embedded store: the common contract, and what it promises about its disk."""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING

import pytest

from ottla.coordinator.store.store import (
    ConnectionLoss,
    Create,
    NoNode,
    Replace,
    SessionExpired,
    SessionState,
)
from ottla.protocol.errors import CorruptLogError
from tests.coordinator.store.contract import StoreContract
from tests.coordinator.store.disk import PowerCutDisk
from tests.coordinator.store.support import DIRECTORY, Heard, open_store

if TYPE_CHECKING:
    from ottla.coordinator.store.embedded import EmbeddedStore
    from ottla.coordinator.store.store import MetadataSession

JOURNAL = f"{DIRECTORY}/store.journal"


class EmbeddedWorld:
    """The contract's view of an embedded store."""

    def __init__(self, store: EmbeddedStore) -> None:
        self._store = store

    async def connect(self) -> MetadataSession:
        return await self._store.connect()

    async def expire(self, session: MetadataSession) -> None:
        await self._store.expire(session.session_id)


class TestEmbedded(StoreContract):
    """The contract."""

    @pytest.fixture
    async def world(self) -> EmbeddedWorld:
        """A store on an empty disk."""
        return EmbeddedWorld(await open_store())


async def contents(store: EmbeddedStore) -> dict[str, bytes]:
    """Path to data of everything but the root."""
    await store.settled()
    return {path: node.data for path, node in store.read_tree().walk() if path != "/"}


async def test_persistent_znodes_survive_a_restart_and_ephemeral_ones_do_not() -> None:
    """The process that owned them is gone, whatever the journal says."""
    disk = PowerCutDisk()
    session = await (await open_store(disk)).connect()
    await session.create("/kept", b"1")
    await session.create("/gone", ephemeral=True)
    changed = await session.set("/kept", b"2")

    store = await open_store(disk.after_power_cut(0))

    assert await contents(store) == {"/kept": b"2"}
    found = await (await store.connect()).get("/kept")
    assert found.stat == changed


async def test_zxids_and_sequence_numbers_go_on_after_a_restart() -> None:
    """A number given twice would make two incarnations look like one."""
    disk = PowerCutDisk()
    session = await (await open_store(disk)).connect()
    await session.create("/a")
    before = await session.create("/a/n_", sequential=True)
    await session.delete(before.path)

    reopened = await (await open_store(disk.after_power_cut(0))).connect()
    after = await reopened.create("/a/n_", sequential=True)

    assert after.path > before.path
    assert after.stat.czxid > before.stat.czxid
    assert reopened.session_id > session.session_id


async def snapshot_size() -> int:
    """How long the file of an empty store is: it is the same every time."""
    disk = PowerCutDisk()
    await open_store(disk)
    return len(disk.names[JOURNAL].data)


async def write_history(disk: PowerCutDisk) -> list[dict[str, bytes]]:
    """Do a handful of writes; return what the tree held after each."""
    store = await open_store(disk)
    session = await store.connect()
    states = [await contents(store)]
    for step in range(4):
        await session.create(f"/n{step}", b"value %d" % step)
        states.append(await contents(store))
        await session.multi([Replace("/n0", b"%d" % step), Create(f"/n{step}/x")])
        states.append(await contents(store))
    return states


async def test_a_journal_cut_at_any_byte_opens_with_a_prefix_of_the_history() -> None:
    """Hazard S-01: a crash tears the last write at any byte, and a group stays whole."""
    disk = PowerCutDisk()
    states = await write_history(disk)
    whole = bytes(disk.names[JOURNAL].data)
    snapshot_bytes = await snapshot_size()
    seen: list[dict[str, bytes]] = []
    for size in range(snapshot_bytes, len(whole) + 1):
        torn = disk.after_power_cut()
        torn.names[JOURNAL].data = bytearray(whole[:size])
        found = await contents(await open_store(torn))
        assert found in states, f"cut at byte {size}"
        if not seen or seen[-1] != found:
            seen.append(found)

    assert seen == states


@pytest.mark.parametrize("garbage", [b"\0" * 40, b"\xff" * 40, b"\0\0\0\x09abcd123456789"])
async def test_garbage_after_the_end_is_cut_off(garbage: bytes) -> None:
    """Hazard S-02: blocks that were never written read as zeros or as old data."""
    disk = PowerCutDisk()
    states = await write_history(disk)
    size = len(disk.names[JOURNAL].data)
    disk.names[JOURNAL].data += garbage

    reopened = disk.after_power_cut()
    store = await open_store(reopened)
    assert await contents(store) == states[-1]
    await (await store.connect()).create("/more")
    again = await open_store(reopened.after_power_cut(0))

    assert await contents(again) == {**states[-1], "/more": b""}
    assert len(reopened.names[JOURNAL].data) > size


async def test_an_old_entry_after_the_end_is_not_replayed_again() -> None:
    """Hazard S-02: a replayed block is valid by itself, and out of order."""
    disk = PowerCutDisk()
    states = await write_history(disk)
    disk.names[JOURNAL].data += disk.names[JOURNAL].data[await snapshot_size() :]

    assert await contents(await open_store(disk.after_power_cut())) == states[-1]


async def test_damage_below_what_was_promised_is_not_taken_for_a_torn_tail() -> None:
    """Hazard S-03: cutting there would silently drop acknowledged writes that follow."""
    disk = PowerCutDisk()
    await write_history(disk)
    disk.names[JOURNAL].data[await snapshot_size() + 12] ^= 1

    with pytest.raises(CorruptLogError):
        await open_store(disk.after_power_cut())


async def test_a_damaged_snapshot_is_refused() -> None:
    """The snapshot was durable before the file got its name; a flaw in it is damage."""
    disk = PowerCutDisk()
    await open_store(disk)
    disk.names[JOURNAL].data[5] ^= 1

    with pytest.raises(CorruptLogError):
        await open_store(disk.after_power_cut())


async def test_an_acknowledged_write_survives_a_power_cut() -> None:
    """An answer is a promise: nothing of the unsynced tail is needed to keep it."""
    disk = PowerCutDisk()
    session = await (await open_store(disk)).connect()
    for number in range(20):
        await session.create(f"/n{number}")

        found = await contents(await open_store(disk.after_power_cut(0)))
        assert f"/n{number}" in found


async def test_nothing_is_shown_before_it_is_durable() -> None:
    """A client must not see a read, a refusal or an event that a crash takes back."""
    disk = PowerCutDisk()
    store = await open_store(disk)
    session = await store.connect()
    reader = await store.connect()
    heard = Heard()
    await reader.exists("/a", heard)
    writing = asyncio.ensure_future(session.create("/a"))
    refused = asyncio.ensure_future(reader.create("/a"))
    reading = asyncio.ensure_future(reader.exists("/a"))
    while not (writing.done() or refused.done() or reading.done() or heard.events):
        assert "/a" not in await contents_on(disk)
        await asyncio.sleep(0)

    assert "/a" in await contents_on(disk)
    await writing
    assert await reading is not None
    assert heard.events
    assert refused.exception() is not None


async def contents_on(disk: PowerCutDisk) -> dict[str, bytes]:
    """The contents that a power cut at this moment would leave."""
    return await contents(await open_store(disk.after_power_cut(0)))


async def test_writers_at_the_same_time_share_a_flush() -> None:
    """One flush per write would make a topic's creation wait for the disk hundreds of times."""
    disk = PowerCutDisk()
    session = await (await open_store(disk)).connect()
    before = disk.fsync_count
    await asyncio.gather(*(session.create(f"/n{number}") for number in range(50)))

    assert disk.fsync_count - before <= 2


async def test_a_failed_flush_ends_the_store() -> None:
    """Hazard S-09: a second flush would succeed and prove nothing."""
    disk = PowerCutDisk()
    store = await open_store(disk)
    session = await store.connect()
    states: list[SessionState] = []
    session.on_state(states.append)
    failures: list[Exception] = []
    store.on_failure(failures.append)
    disk.fsync_error = OSError(errno.EIO, "broken")

    with pytest.raises(ConnectionLoss):
        await session.create("/a")
    assert states == [SessionState.LOST]
    disk.fsync_error = None
    with pytest.raises(SessionExpired):
        await session.create("/b")
    with pytest.raises(ConnectionLoss):
        await store.connect()
    assert failures == [store.failure]


async def test_a_full_disk_refuses_the_write_and_nothing_else() -> None:
    """Hazard S-11: half an entry at the end would hide all later ones."""
    disk = PowerCutDisk()
    session = await (await open_store(disk)).connect()
    await session.create("/a", b"1")
    disk.free = 10
    with pytest.raises(ConnectionLoss):
        await session.set("/a", b"2")
    assert (await session.get("/a")).data == b"1"
    disk.free = 1 << 30
    await session.create("/b")

    found = await contents(await open_store(disk.after_power_cut(0)))
    assert found == {"/a": b"1", "/b": b""}


async def fill(session: MetadataSession, count: int) -> None:
    """Write more than a journal may hold before it is rewritten."""
    for number in range(count):
        await session.set("/a", b"%d" % number + b"x" * 100_000)


async def test_the_journal_is_rewritten_when_it_outgrows_the_tree() -> None:
    """A store that lives for a year must not read a year of changes at its next start."""
    disk = PowerCutDisk()
    session = await (await open_store(disk)).connect()
    await session.create("/a")
    await fill(session, 40)

    assert len(disk.names[JOURNAL].data) < 20 * 100_000
    reopened = disk.after_power_cut(0)
    assert list(reopened.names) == [JOURNAL]
    found = await (await (await open_store(reopened)).connect()).get("/a")
    assert found.data.startswith(b"39x")
    assert found.stat.version == 40


async def test_a_crash_at_any_step_of_the_rewriting_loses_nothing() -> None:
    """The name refers to a complete file at each moment."""
    disk = PowerCutDisk()
    session = await (await open_store(disk)).connect()
    await session.create("/a")
    acknowledged, sizes = 0, []
    for number in range(25):
        writing = asyncio.ensure_future(session.set("/a", b"%d" % number + b"x" * 100_000))
        while not writing.done():
            await asyncio.sleep(0)
            for kept_bytes in (0, 50_000, None):
                tree = (await open_store(disk.after_power_cut(kept_bytes))).read_tree()
                assert tree.get("/a").stat.version in (acknowledged, acknowledged + 1)
        acknowledged = (await writing).version
        sizes.append(len(disk.names[JOURNAL].data))

    assert sizes != sorted(sizes), "the journal was rewritten on the way"


async def test_a_second_process_is_kept_out() -> None:
    """Two writers of one journal would each overwrite the other's promises (S-32)."""
    disk = PowerCutDisk()
    store = await open_store(disk)
    with pytest.raises(BlockingIOError):
        await open_store(disk)
    await store.close()

    await open_store(disk)


async def test_a_cancelled_writer_does_not_undo_its_write() -> None:
    """Hazard P-04: a caller that stops waiting has not stopped the write."""
    disk = PowerCutDisk()
    store = await open_store(disk)
    session = await store.connect()
    writing = asyncio.ensure_future(session.create("/a"))
    await asyncio.sleep(0)
    writing.cancel()

    assert await (await store.connect()).exists("/a") is not None
    assert "/a" in await contents_on(disk)


async def test_watches_of_a_closed_session_are_silent() -> None:
    """A callback into a broker that has stopped would touch freed things."""
    store = await open_store()
    session, other = await store.connect(), await store.connect()
    heard = Heard()
    await session.exists("/a", heard)
    await session.close()
    await other.create("/a")

    assert heard.events == []
    with pytest.raises(NoNode):
        await other.get("/b")
