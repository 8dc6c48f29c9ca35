"""What every metadata store must do, as tests; each implementation inherits the class.

The subclass gives ``world``: something that can open sessions, expire one as the store itself
would, and start the store again over the same disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import pytest

from ottla.coordinator.store.store import (
    BadVersion,
    Check,
    Create,
    Delete,
    GroupFailed,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    Replace,
    RolledBack,
    SessionExpired,
    SessionState,
    Stat,
    WatchEvent,
    WatchEventKind,
)
from tests.coordinator.store.support import Heard

if TYPE_CHECKING:
    from ottla.coordinator.store.store import MetadataSession


class World(Protocol):
    """The store under test and what the tests do to it."""

    async def connect(self) -> MetadataSession: ...

    async def expire(self, session: MetadataSession) -> None: ...


class StoreContract:
    """Inherit and provide the fixture ``world``."""

    async def test_a_created_znode_is_read_back(self, world: World) -> None:
        """The least that a store can do."""
        session = await world.connect()
        created = await session.create("/a", b"x")
        found = await session.get("/a")

        assert created.path == "/a"
        assert found.data == b"x"
        assert found.stat == created.stat
        assert (found.stat.version, found.stat.ephemeral_owner) == (0, 0)

    async def test_a_parent_must_exist(self, world: World) -> None:
        """Paths are not made on the way; a typing error must not grow a second tree."""
        session = await world.connect()

        with pytest.raises(NoNode):
            await session.create("/a/b")

    async def test_a_second_creation_is_refused(self, world: World) -> None:
        """Elections rest on it: only one creator wins."""
        session = await world.connect()
        await session.create("/a", b"first")

        with pytest.raises(NodeExists):
            await session.create("/a", b"second")
        assert (await session.get("/a")).data == b"first"

    async def test_missing_znodes_are_told_apart_from_empty_ones(self, world: World) -> None:
        """An empty znode is a fact; a missing one is another."""
        session = await world.connect()
        await session.create("/empty")

        assert (await session.get("/empty")).data == b""
        assert await session.exists("/missing") is None
        for read in (session.get, session.children):
            with pytest.raises(NoNode):
                await read("/missing")

    @pytest.mark.requirement("ZKT-26")
    async def test_a_write_at_an_old_version_is_refused(self, world: World) -> None:
        """Compare-and-set on the state znode is what keeps two leaders from one partition."""
        session = await world.connect()
        await session.create("/a", b"0")
        first = await session.set("/a", b"1", 0)

        assert first.version == 1
        with pytest.raises(BadVersion):
            await session.set("/a", b"2", 0)
        with pytest.raises(BadVersion):
            await session.delete("/a", 0)
        assert (await session.get("/a")).data == b"1"
        assert (await session.set("/a", b"3")).version == 2

    async def test_zxids_say_when_a_znode_was_made_and_changed(self, world: World) -> None:
        """A broker's generation must never repeat, not even across deletion and re-creation."""
        session = await world.connect()
        made = (await session.create("/a")).stat
        changed = await session.set("/a", b"1")
        await session.delete("/a")
        again = (await session.create("/a")).stat

        assert made.czxid == made.mzxid
        assert changed.czxid == made.czxid < changed.mzxid < again.czxid
        assert again.version == 0

    async def test_children_are_listed_and_counted(self, world: World) -> None:
        """Brokers and topics are found by listing."""
        session = await world.connect()
        await session.create("/a")
        for name in ("z", "b", "m"):
            await session.create(f"/a/{name}")

        assert await session.children("/a") == ["b", "m", "z"]
        assert (await session.get("/a")).stat.child_count == 3

    async def test_a_znode_with_children_stays(self, world: World) -> None:
        """Deleting a topic half-way must not lose its partitions' names."""
        session = await world.connect()
        await session.create("/a")
        await session.create("/a/b")

        with pytest.raises(NotEmpty):
            await session.delete("/a")
        await session.delete("/a/b")
        await session.delete("/a")
        assert await session.exists("/a") is None

    async def test_sequence_numbers_grow_and_have_ten_digits(self, world: World) -> None:
        """Notifications are read in the order of their names."""
        session = await world.connect()
        await session.create("/a")
        first = await session.create("/a/change_", sequential=True)
        await session.delete(first.path)
        second = await session.create("/a/change_", sequential=True)

        digits = [created.path.removeprefix("/a/change_") for created in (first, second)]
        assert [len(text) for text in digits] == [10, 10]
        assert int(digits[0]) < int(digits[1])

    @pytest.mark.requirement("ZKT-04", "ZKT-27")
    async def test_ephemeral_znodes_go_with_their_session(self, world: World) -> None:
        """A dead broker is seen by its registration vanishing."""
        watching = await world.connect()
        leaving = await world.connect()
        created = await leaving.create("/a", ephemeral=True)
        heard = Heard()
        await watching.exists("/a", heard)

        await leaving.close()

        assert created.stat.ephemeral_owner == leaving.session_id
        assert await watching.exists("/a") is None
        assert heard.events == [WatchEvent(WatchEventKind.DELETED, "/a")]

    async def test_ephemeral_znodes_have_no_children(self, world: World) -> None:
        """Otherwise the end of a session could not remove them."""
        session = await world.connect()
        await session.create("/a", ephemeral=True)

        with pytest.raises(NoChildrenForEphemerals):
            await session.create("/a/b")

    async def test_an_expired_session_is_told_and_refused(self, world: World) -> None:
        """A broker that continues after expiry acts though the cluster believes it dead (C-06)."""
        session = await world.connect()
        other = await world.connect()
        await session.create("/a", ephemeral=True)
        states: list[SessionState] = []
        session.on_state(states.append)

        await world.expire(session)

        # Where there is a connection, its end may be told first.
        assert states[-1] is SessionState.LOST
        assert SessionState.CONNECTED not in states
        assert session.state is SessionState.LOST
        with pytest.raises(SessionExpired):
            await session.get("/")
        assert await other.exists("/a") is None
        assert other.state is SessionState.CONNECTED

    async def test_session_ids_differ(self, world: World) -> None:
        """C-08: the owner of a registration is recognised by its session id."""
        first = await world.connect()
        await first.close()
        second = await world.connect()

        assert first.session_id != second.session_id

    @pytest.mark.requirement("ZKT-25")
    async def test_a_watch_that_is_set_again_before_acting_hears_of_both_changes(
        self, world: World
    ) -> None:
        """The second change comes while the first is acted upon; what is read with each setting
        tells what has changed."""
        session = await world.connect()
        other = await world.connect()
        await session.create("/a")
        heard = Heard()
        await session.get("/a", heard)
        await other.set("/a", b"1")
        await session.sync()
        first = (await session.get("/a", heard)).data
        await other.set("/a", b"2")
        await session.sync()
        second = (await session.get("/a", heard)).data

        assert (first, second) == (b"1", b"2")
        assert heard.events == [WatchEvent(WatchEventKind.CHANGED, "/a")] * 2

    async def test_a_watch_fires_once(self, world: World) -> None:
        """One-shot: two changes without re-arming are heard as one (C-07)."""
        session = await world.connect()
        await session.create("/a")
        heard = Heard()
        await session.get("/a", heard)
        await session.set("/a", b"1")
        await session.set("/a", b"2")
        await session.sync()

        assert heard.events == [WatchEvent(WatchEventKind.CHANGED, "/a")]

    async def test_a_watch_waits_for_a_creation(self, world: World) -> None:
        """The losers of an election wait for a znode that is not there yet, or no longer."""
        session = await world.connect()
        other = await world.connect()
        heard = Heard()
        await session.exists("/a", heard)
        await other.create("/a")
        await session.sync()

        assert heard.events == [WatchEvent(WatchEventKind.CREATED, "/a")]

    async def test_a_failed_read_leaves_no_watch(self, world: World) -> None:
        """Only ``exists`` may watch what is not there."""
        session = await world.connect()
        heard = Heard()
        with pytest.raises(NoNode):
            await session.get("/a", heard)
        with pytest.raises(NoNode):
            await session.children("/a", heard)
        await session.create("/a")
        await session.sync()

        assert heard.events == []

    async def test_children_watches_hear_of_names_only(self, world: World) -> None:
        """A change of a child's data is not a change of the list."""
        session = await world.connect()
        await session.create("/a")
        heard = Heard()
        await session.children("/a", heard)
        await session.set("/a", b"1")
        assert heard.events == []
        await session.create("/a/b")
        await session.sync()
        assert heard.events == [WatchEvent(WatchEventKind.CHILDREN, "/a")]

        await session.children("/a", heard)
        await session.set("/a/b", b"1")
        await session.delete("/a/b")
        await session.sync()
        assert heard.events == [WatchEvent(WatchEventKind.CHILDREN, "/a")] * 2

    async def test_a_watch_fires_before_newer_data_can_be_seen(self, world: World) -> None:
        """Who reads the new value without having heard of the change acts on two worlds."""
        session = await world.connect()
        other = await world.connect()
        await session.create("/a", b"old")
        heard = Heard()
        await session.get("/a", heard)
        await other.set("/a", b"new")
        while (await session.get("/a")).data == b"old":
            assert heard.events == []

        assert heard.events == [WatchEvent(WatchEventKind.CHANGED, "/a")]

    async def test_a_group_is_done_as_one(self, world: World) -> None:
        """Election: the znode and the epoch change together or not at all (C-03)."""
        session = await world.connect()
        await session.create("/epoch", b"0")
        results = await session.multi(
            [
                Create("/leader", b"1", ephemeral=True),
                Replace("/epoch", b"1", 0),
                Check("/epoch", 1),
                Create("/a"),
                Create("/a/b"),
                Delete("/a/b"),
            ]
        )

        kinds = [type(result) for result in results]
        assert kinds == [str, Stat, type(None), str, str, type(None)]
        assert [one for one in results if isinstance(one, str)] == ["/leader", "/a", "/a/b"]
        leader, epoch = await session.exists("/leader"), results[1]
        assert leader is not None
        assert isinstance(epoch, Stat)
        assert leader.czxid == epoch.mzxid
        assert await session.children("/a") == []

    async def test_a_group_tells_the_names_that_it_has_made(self, world: World) -> None:
        """The store chooses the number of a sequential znode."""
        session = await world.connect()
        await session.create("/a")
        [made] = await session.multi([Create("/a/change_", sequential=True)])

        assert isinstance(made, str)
        assert [made] == [f"/a/{name}" for name in await session.children("/a")]
        assert len(made) == len("/a/change_") + 10

    async def test_a_group_with_one_refusal_leaves_no_trace(self, world: World) -> None:
        """C-02: a zombie controller's writes are refused as a whole by the epoch check."""
        session = await world.connect()
        await session.create("/epoch", b"7")
        await session.create("/old", b"x")
        heard = Heard()
        await session.get("/old", heard)
        before = await session.get("/old")
        with pytest.raises(GroupFailed) as failed:
            await session.multi(
                [
                    Replace("/old", b"y"),
                    Create("/new", ephemeral=True),
                    Delete("/old"),
                    Check("/epoch", 5),
                    Create("/other"),
                ]
            )

        assert failed.value.index == 3
        assert isinstance(failed.value.error, BadVersion)
        kinds = [type(error) for error in failed.value.errors]
        assert kinds == [RolledBack, RolledBack, RolledBack, BadVersion, RolledBack]
        assert await session.get("/old") == before
        assert await session.exists("/new") is None
        assert await session.children("/") == ["epoch", "old"]
        assert heard.events == []
        await session.close()

    async def test_deletion_fires_every_kind_of_watch(self, world: World) -> None:
        """A topic's deletion must be heard whichever way one was looking at it."""
        session = await world.connect()
        await session.create("/a")
        data, children, parent = Heard(), Heard(), Heard()
        await session.get("/a", data)
        await session.children("/a", children)
        await session.children("/", parent)
        await session.delete("/a")
        await session.sync()

        assert data.events == children.events == [WatchEvent(WatchEventKind.DELETED, "/a")]
        assert parent.events == [WatchEvent(WatchEventKind.CHILDREN, "/")]
