"""Groups in a real ZooKeeper: the content of their znodes, and what makes members rebalance."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from ottla.client.classic.registry.layout import RegistryLayout, RegistrySlot
from ottla.client.classic.registry.member import RebalanceFailed
from ottla.client.classic.registry.subscription import filtered, static
from ottla.client.classic.registry.topic_filter import whitelist
from ottla.coordinator.store import paths
from ottla.coordinator.store.store import NodeExists
from tests.client.classic.registry.members import add_topic, prepare, told_member
from tests.zookeeper.sessions import expire, open_store, until
from tests.zookeeper.shared import fresh_place

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ottla.coordinator.store.store import MetadataSession
    from ottla.coordinator.store.zookeeper import ZooKeeperStore
    from tests.client.classic.registry.members import ToldMember

ONE = static({"t": 1})
FOUR = {number: (number % 2 + 1,) for number in range(4)}


class Site:
    """A store in ZooKeeper with a topic of four partitions on two brokers."""

    def __init__(self, place: str, store: ZooKeeperStore, session: MetadataSession) -> None:
        self.place = place
        self.store = store
        self.session = session
        self.members: list[ToldMember] = []

    async def join(self, name: str, *arguments: Any, **named: Any) -> ToldMember:
        """Start a member that consumes ``t`` unless told otherwise."""
        member = told_member(self.store, name, *(arguments or (ONE,)), **named)
        await member.start()
        self.members.append(member)
        return member

    async def close(self) -> None:
        for member in self.members:
            await member.close()
        await self.store.close()


@asynccontextmanager
async def site() -> AsyncIterator[Site]:
    """Closed in the end, whatever happens."""
    place = fresh_place()
    store = await open_store(place)
    async with AsyncExitStack() as stack:
        made = Site(place, store, await store.connect())
        stack.push_async_callback(made.close)
        await prepare(made.session, (1, 2))
        await add_topic(made.session, "t", FOUR)
        yield made


@pytest.mark.requirement("REB-01", "REB-05", "ZKT-19", "ZKT-22")
async def test_a_member_registers_and_owns_its_partitions_at_once() -> None:
    """Other programs read these znodes; both end with the session."""
    async with site() as here:
        member = await here.join("host:1", static({"t": 2}))
        data, stat = await here.session.get("/consumers/g/ids/host:1")
        owners = {}
        for name in await here.session.children("/consumers/g/owners/t"):
            owned, owner = await here.session.get(f"/consumers/g/owners/t/{name}")
            owners[name] = owned.decode()
            assert owner.ephemeral_owner == member.sessions[0].session_id
        rebalances = member.rebalances
        await member.close()
        left = await here.session.children("/consumers/g/ids")
        left += await here.session.children("/consumers/g/owners/t")

    value = json.loads(data)
    assert stat.ephemeral_owner == member.sessions[0].session_id
    assert value.pop("timestamp").isdigit()
    assert value == {"version": 1, "subscription": {"t": 2}, "pattern": "static"}
    assert owners == {"0": "host:1-0", "1": "host:1-0", "2": "host:1-1", "3": "host:1-1"}
    assert rebalances == 1
    assert left == []


@pytest.mark.requirement("ZKT-18", "ZKT-20")
async def test_the_layout_of_07_has_its_own_value_and_names() -> None:
    """Consumers of 0.7 know partitions by broker and index, and members by plain counts."""
    async with site() as here:
        member = await here.join("host:1", static({"t": 1}), RegistryLayout.V07)
        data, stat = await here.session.get("/consumers/g/ids/host:1")
        owners = await here.session.children("/consumers/g/owners/t")
        member.feed.consumed = {RegistrySlot("t", "2-1", 3, 2): 17}
        await member.commit(lambda: member.feed.consumed)
        offset, offset_stat = await here.session.get("/consumers/g/offsets/t/2-1")

    assert json.loads(data) == {"t": 1}
    assert stat.ephemeral_owner != 0
    assert owners == ["1-0", "1-1", "2-0", "2-1"]
    assert (offset, offset_stat.ephemeral_owner) == (b"17", 0)


@pytest.mark.requirement("ZKT-21")
async def test_offsets_are_persistent_and_named_by_partition() -> None:
    """A member that joins later begins where the others have stopped."""
    async with site() as here:
        first = await here.join("a")
        first.feed.consumed = {RegistrySlot("t", "3", 3, 2): 5}
        await first.close()
        data, stat = await here.session.get("/consumers/g/offsets/t/3")
        second = await here.join("b")
        starts = {slot.partition: share.offset for slot, share in second.feed.shares.items()}

    assert (data, stat.ephemeral_owner) == (b"5", 0)
    assert starts == {0: None, 1: None, 2: None, 3: 5}


@pytest.mark.requirement("REB-02", "REB-09")
async def test_a_member_that_joins_or_leaves_makes_all_others_rebalance() -> None:
    """The result is a consensus within a few seconds: no overlap, no gap."""
    async with site() as here:
        first = await here.join("a")
        second = await here.join("b")
        begun = asyncio.get_running_loop().time()
        third = await here.join("c")
        everything = ["t:0", "t:1", "t:2", "t:3"]

        def is_settled() -> bool:
            feeds = [one.feed.owned for one in (first, second, third)]
            return feeds == [["t:0", "t:1"], ["t:2"], ["t:3"]]

        await until(is_settled)
        waited_s = asyncio.get_running_loop().time() - begun
        counts = [first.rebalances, second.rebalances]
        await third.close()
        await until(lambda: first.feed.owned + second.feed.owned == everything)

    assert first.rebalances > counts[0]
    assert second.rebalances > counts[1]
    assert waited_s < 5.0


@pytest.mark.requirement("REB-03")
async def test_a_broker_that_comes_or_goes_makes_all_groups_rebalance() -> None:
    """Its partitions may be elsewhere now."""
    async with site() as here:
        members = [await here.join("a"), await here.join("b")]
        other = told_member(here.store, "x", ONE)
        other._identity = other._identity._replace(group="another")
        await other.start()
        here.members.append(other)
        members.append(other)
        await until(lambda: members[0].rebalances >= 2)

        for act in (
            lambda: here.session.create(paths.broker(3), b"{}"),
            lambda: here.session.delete(paths.broker(3)),
        ):
            before = [one.rebalances for one in members]
            await act()
            await until(
                lambda before=before: all(  # type: ignore[misc]
                    one.rebalances > count for one, count in zip(members, before, strict=True)
                )
            )

        assert members[0].feed.owned + members[1].feed.owned == ["t:0", "t:1", "t:2", "t:3"]


@pytest.mark.requirement("REB-04")
async def test_a_new_topic_is_held_against_the_filter() -> None:
    """A topic that the filter allows is consumed without a restart; another one is not."""
    async with site() as here:
        await add_topic(here.session, "a1", {0: (1,)})
        await add_topic(here.session, "a2", {0: (1,)})
        await add_topic(here.session, "b1", {0: (1,)})
        member = await here.join("a", filtered(whitelist("a.*"), 1))
        before = member.feed.owned
        await add_topic(here.session, "a3", {0: (2,)})
        await until(lambda: member.feed.owned == ["a1:0", "a2:0", "a3:0"])

    assert before == ["a1:0", "a2:0"]


@pytest.mark.requirement("REB-06")
async def test_old_owner_entries_go_and_new_ones_come() -> None:
    """Six partitions and three consumers: each has a range of two, in the order of the ids."""
    async with site() as here:
        await add_topic(here.session, "six", {number: (number % 2 + 1,) for number in range(6)})
        wants = static({"six": 1})
        path = "/consumers/g/owners/six"

        async def owners() -> list[str]:
            names = sorted(await here.session.children(path))
            return [(await here.session.get(f"{path}/{one}")).data.decode() for one in names]

        first = await here.join("b", wants)
        alone = await owners()
        others = [await here.join(name, wants) for name in ("c", "a")]
        members = [others[1], first, others[0]]
        ranges = [["six:0", "six:1"], ["six:2", "six:3"], ["six:4", "six:5"]]
        await until(lambda: [one.feed.owned for one in members] == ranges)
        shared = await owners()

    assert alone == ["b-0"] * 6
    assert shared == ["a-0", "a-0", "b-0", "b-0", "c-0", "c-0"]


async def test_a_topic_that_is_named_before_it_exists_is_consumed_later() -> None:
    """Its partitions are taken when they appear, also those that are added."""
    async with site() as here:
        member = await here.join("a", static({"new": 1}))
        before = member.feed.owned
        await add_topic(here.session, "new", {0: (1,)})
        await until(lambda: member.feed.owned == ["new:0"])
        grown = paths.build_topic(paths.TopicPayload(None, {0: (1,), 1: (2,)}))
        await here.session.set(paths.topic("new"), grown)
        await until(lambda: member.feed.owned == ["new:0", "new:1"])

    assert before == []


@pytest.mark.requirement("REB-08", "ZKT-22")
async def test_a_member_waits_until_the_previous_owner_lets_go() -> None:
    """It consumes nothing before it holds the owner znode."""
    async with site() as here:
        await here.session.create("/consumers/g")
        await here.session.create("/consumers/g/owners")
        await here.session.create("/consumers/g/owners/t")
        await here.session.create("/consumers/g/owners/t/2", b"old-0", ephemeral=True)
        member = told_member(here.store, "a", ONE)
        here.members.append(member)
        starting = asyncio.create_task(member.start())
        await asyncio.sleep(0.5)
        fed_before = dict(member.feed.shares)
        kept = await here.session.children("/consumers/g/owners/t")
        await here.session.delete("/consumers/g/owners/t/2")
        await starting

        assert fed_before == {}
        assert kept == ["2"]
        assert member.feed.owned == ["t:0", "t:1", "t:2", "t:3"]


async def test_a_member_gives_up_after_its_retries_and_leaves() -> None:
    """The application is told which partition's owner it waits for, and can act."""
    async with site() as here:
        await here.session.create("/consumers/g")
        await here.session.create("/consumers/g/owners")
        await here.session.create("/consumers/g/owners/t")
        await here.session.create("/consumers/g/owners/t/2", b"old-0", ephemeral=True)
        member = told_member(here.store, "a", ONE, retries_max=2)
        with pytest.raises(RebalanceFailed, match="after 2 retries"):
            await member.start()

        assert await here.session.children("/consumers/g/ids") == []


async def test_a_member_whose_session_expired_joins_again() -> None:
    """The servers ended its session, for example while the machine was suspended."""
    async with site() as here:
        member = await here.join("a")
        hosts = here.place.partition("/")[0]
        await expire(member.sessions[0], hosts)  # type: ignore[arg-type]
        await until(lambda: len(member.sessions) == 2 and len(member.feed.shares) == 4)

        stat = await here.session.exists("/consumers/g/ids/a")
        assert stat is not None
        assert stat.ephemeral_owner == member.sessions[1].session_id
        assert member.is_alive


async def test_two_members_cannot_have_one_name() -> None:
    """The second one would take the first one's partitions for its own."""
    async with site() as here:
        await here.join("a")
        with pytest.raises(NodeExists):
            await here.join("a")
