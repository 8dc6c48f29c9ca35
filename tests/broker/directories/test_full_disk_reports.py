"""What the store says of a broker's full disks is what is so, whatever happens to its session."""

from __future__ import annotations

from ottla.broker.directories.full_disk_reports import (
    ROOM_AGAIN,
    ROOM_TOLD_MS,
    FullDiskReports,
)
from ottla.broker.engine.tasks import Tasks
from ottla.broker.system.memory_disk import MemoryDisk
from ottla.coordinator.store import full_disks, paths
from ottla.coordinator.store.embedded import EmbeddedStore
from ottla.coordinator.store.full_disks import Room, RoomReport
from ottla.coordinator.store.store import MetadataSession, NoNode
from tests.broker.support.node import DIRECTORY, HandClock

LOW, STUCK = RoomReport(Room.LOW), RoomReport(Room.NONE)


async def opened() -> tuple[EmbeddedStore, MetadataSession, FullDiskReports, HandClock]:
    """A store with one session, and a broker's reports that do not go anywhere yet."""
    clock = HandClock()
    store = await EmbeddedStore.open(MemoryDisk(), clock, Tasks().spawn, DIRECTORY)
    session = await store.connect()
    await session.create("/ottla")
    await session.create(paths.FULL_DISKS)
    return store, session, FullDiskReports(1, clock), clock


async def told(session: MetadataSession) -> RoomReport | None:
    """Returns what the store contains."""
    try:
        return full_disks.parse((await session.get(full_disks.path_of(1))).data)
    except NoNode:
        return None


async def test_a_report_stands_as_long_as_a_disk_is_full() -> None:
    """It is written when it changes, and goes with its reason."""
    _, session, reports, _ = await opened()
    await reports.tell(LOW)
    assert await told(session) is None
    await reports.begin(session)
    found = []
    for report in (None, LOW, LOW, STUCK, None):
        await reports.tell(report)
        found.append(await told(session))

    assert found == [None, LOW, LOW, STUCK, None]


async def test_a_report_from_before_a_short_cut_does_not_stay() -> None:
    """There was room again before the broker could say so: it would never lead again."""
    _, session, reports, _ = await opened()
    await reports.begin(session)
    await reports.tell(LOW)
    await reports.end()
    await reports.tell(None)
    assert await told(session) == LOW
    await reports.begin(session)
    await reports.tell(None)

    assert await told(session) is None


async def test_a_report_goes_with_the_session_and_is_made_again_in_the_next() -> None:
    """A broker that is gone has no disk to be spared."""
    store, session, reports, _ = await opened()
    await reports.begin(session)
    await reports.tell(STUCK)
    following = await store.connect()
    await reports.end()
    await reports.begin(following)
    await reports.tell(STUCK)
    await store.expire(session.session_id)

    assert await told(following) == STUCK
    await store.expire(following.session_id)
    assert await told(await store.connect()) is None


async def test_room_is_told_for_a_while_after_a_disk_was_full_and_not_otherwise() -> None:
    """A controller that begins in between gives the leaderships back by it."""
    _, session, reports, clock = await opened()
    await reports.begin(session)
    found = []
    for report, pause_ms in ((None, 0), (LOW, 1), (None, ROOM_TOLD_MS - 2), (None, 1), (None, 1)):
        await reports.look(report)
        found.append(await told(session))
        clock.now += pause_ms

    assert found == [None, LOW, ROOM_AGAIN, ROOM_AGAIN, None]
    assert not ROOM_AGAIN.is_full
