"""A follower reads each announcement once, in the order of the store, and removes old ones."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ottla.broker.engine.tasks import Tasks
from ottla.coordinator.store.announcements import (
    ANNOUNCEMENT_RETENTION_MS,
    AnnouncementFollower,
    ChangeAnnouncement,
)
from ottla.coordinator.store.embedded import EmbeddedStore
from ottla.coordinator.store.store import ConnectionLoss
from tests.coordinator.store.disk import PowerCutDisk
from tests.coordinator.store.support import DIRECTORY, StillClock

if TYPE_CHECKING:
    import pytest

    from ottla.coordinator.store.store import MetadataSession

FIRST, SECOND = "/first", "/second"


async def _settled() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


class _Scene:
    """A store with two kinds of announcements, and what a follower takes."""

    def __init__(self, session: MetadataSession, clock: StillClock) -> None:
        self.session = session
        self.clock = clock
        self.taken: list[str] = []
        self.fails = False
        tasks = Tasks()
        self.follower = AnnouncementFollower("tests", tasks.spawn, (FIRST, SECOND), self._take)

    async def _take(self, _session: MetadataSession, announced: list[ChangeAnnouncement]) -> None:
        if self.fails:
            raise ConnectionLoss("no answer")
        self.taken += [f"{path.split('/')[1]} {data.decode()}" for path, data in announced]

    async def announce(self, root: str, text: str) -> None:
        await self.session.create(f"{root}/change_", text.encode(), sequential=True)

    async def begin(self) -> None:
        await self.follower.watch(self.session)
        self.follower.start(self.session)


async def _scene() -> _Scene:
    clock = StillClock()
    store = await EmbeddedStore.open(PowerCutDisk(), clock, Tasks().spawn, DIRECTORY)
    session = await store.connect()
    for root in (FIRST, SECOND):
        await session.create(root)
    return _Scene(session, clock)


async def test_each_announcement_after_the_watch_is_taken_once() -> None:
    """What is older has been read with everything else."""
    scene = await _scene()
    await scene.announce(FIRST, "old")
    await scene.begin()
    await scene.announce(FIRST, "a")
    await _settled()
    await scene.announce(SECOND, "b")
    await scene.announce(FIRST, "c")
    await _settled()
    await scene.follower.end()
    await scene.announce(FIRST, "later")
    await _settled()

    assert sorted(scene.taken) == ["first a", "first c", "second b"]
    assert scene.taken.index("first a") < scene.taken.index("first c")


async def test_announcements_go_when_newer_ones_are_much_newer() -> None:
    """By the clock of the store: that of a broker may be wrong."""
    scene = await _scene()
    await scene.begin()
    await scene.announce(FIRST, "a")
    await _settled()
    scene.clock.wall += ANNOUNCEMENT_RETENTION_MS + 1
    await _settled()
    assert len(await scene.session.children(FIRST)) == 1
    await scene.announce(FIRST, "b")
    await _settled()

    assert len(await scene.session.children(FIRST)) == 1
    assert scene.taken == ["first a", "first b"]


async def test_a_follower_whose_session_fails_follows_again_in_the_next_one() -> None:
    """The next session reads everything anew."""
    scene = await _scene()
    await scene.begin()
    scene.fails = True
    await scene.announce(FIRST, "a")
    await _settled()
    await scene.follower.end()
    scene.fails = False
    await scene.begin()
    await scene.announce(FIRST, "b")
    await _settled()

    assert scene.taken == ["first b"]


async def test_a_change_costs_no_question_for_each_earlier_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Within the retention there may be thousands, and a broker is far from its store: a rule that
    takes a right away must not wait for as many round trips."""
    scene = await _scene()
    for number in range(30):
        await scene.announce(FIRST, f"{number}")
    await scene.begin()
    await scene.announce(FIRST, "first after the watch")
    await _settled()
    asked: list[str] = []
    before = type(scene.session).get

    async def get(self: Any, path: str, watch: Any = None) -> Any:
        asked.append(path)
        return await before(self, path, watch)

    monkeypatch.setattr(type(scene.session), "get", get)
    await scene.announce(FIRST, "next")
    await _settled()

    assert scene.taken == ["first first after the watch", "first next"]
    assert len(asked) == 1


async def test_what_is_new_is_taken_before_older_announcements_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their age is of interest to the sweep only."""
    scene = await _scene()
    for number in range(30):
        await scene.announce(FIRST, f"{number}")
    await scene.begin()
    order: list[str] = []
    before = type(scene.session).get

    async def get(self: Any, path: str, watch: Any = None) -> Any:
        order.append("get" if not scene.taken else "get after")
        return await before(self, path, watch)

    monkeypatch.setattr(type(scene.session), "get", get)
    await scene.announce(FIRST, "new")
    await _settled()

    assert order == ["get", *["get after"] * 30]
