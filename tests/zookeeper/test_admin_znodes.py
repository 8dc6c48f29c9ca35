"""Znodes by which Kafka's older tools ask for work, written by a foreign client into a real
ZooKeeper: what brokers make of them, in the tree, on their disks and in their metadata."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from ottla.client.admin import Admin
from ottla.client.administration.topic_requests import NewTopic
from ottla.client.settings.config import ClientConfig
from ottla.protocol.errors import ErrorCode
from ottla.wire.errors import RequestRefused
from tests.broker.support.requests import batch, produce
from tests.zookeeper.in_process import Ensemble, ensemble, until
from tests.zookeeper.test_watches import watches

if TYPE_CHECKING:
    from pathlib import Path

TOPIC = "/brokers/topics/t"
MOVES, ELECTION = "/admin/reassign_partitions", "/admin/preferred_replica_election"
DELETIONS = "/admin/delete_topics"
OLD, NEW = [1, 2, 3], [4, 5, 6]
Row = tuple[frozenset[int], int, frozenset[int]]
# Assigned replicas, leader, ISR: the six rows of the documented move.
TABLE: list[Row] = [
    (frozenset(replicas), leader, frozenset(isr))
    for replicas, leader, isr in (
        (OLD, 1, OLD),
        (OLD + NEW, 1, OLD),
        (OLD + NEW, 1, OLD + NEW),
        (OLD + NEW, 4, OLD + NEW),
        (OLD + NEW, 4, NEW),
        (NEW, 4, NEW),
    )
]


def moves(replicas: list[int], topic: str = "t", partition: int = 0) -> dict[str, Any]:
    """The payload that asks for a move of one partition."""
    return {
        "version": 1,
        "partitions": [{"topic": topic, "partition": partition, "replicas": replicas}],
    }


def election(*partitions: int) -> dict[str, Any]:
    """The payload that asks for preferred leaders of partitions of the topic."""
    return {"version": 1, "partitions": [{"topic": "t", "partition": one} for one in partitions]}


async def failed_over(site: Ensemble) -> None:
    """Three brokers; the first one was the controller, and has left."""
    await site.start(1, 2, 3)
    assert site.read("/controller")["brokerid"] == 1
    await site.stop(1)
    await until(lambda: site.tree.get("/controller_epoch")[0] == b"2")
    assert site.read("/controller")["brokerid"] in (2, 3)
    # Watches fire once: the other broker has set another one, or it would never take over.
    await until(lambda: watches(site.place)["/controller"] >= 1)


@pytest.mark.requirement("CTL-01")
async def test_one_broker_is_the_controller_and_the_others_watch_its_znode(tmp_path: Path) -> None:
    """All three try to create it. A broker that does not watch would never take over."""
    async with ensemble(tmp_path) as site:
        await asyncio.gather(*(site.start(node_id) for node_id in OLD))
        await until(lambda: watches(site.place)["/controller"] >= 2)
        controller = site.read("/controller")["brokerid"]
        owner = site.tree.get("/controller")[1].ephemeralOwner

        assert site.tree.get(f"/brokers/ids/{controller}")[1].ephemeralOwner == owner != 0
        assert site.tree.get("/controller_epoch")[0] == b"1"
        for broker in site.brokers.values():
            await until(lambda one=broker: one.metadata.controller_id == controller)  # type: ignore[misc]


@pytest.mark.requirement("CTL-06", "CTL-24", "ZKT-08", "ZKT-11", "ZKT-24")
@pytest.mark.requirement("CTL-04", "CTL-44", "ZKT-15", "CTL-05", "CTL-32", "ZKT-09", "ZKT-14")
@pytest.mark.requirement("CTL-07", "CTL-14", "CTL-25", "ZKT-16", "ZKT-17", "CTL-08", "CTL-12")
async def test_a_controller_that_took_over_obeys_what_tools_write_into_the_tree(
    tmp_path: Path,
) -> None:
    """A topic, a move, an election, a deletion and a broker, all after the failover."""
    async with ensemble(tmp_path) as site:
        await failed_over(site)
        # ZooKeeper tells of watches for data and existence; what becomes of the others is below.
        await until(lambda: {MOVES, ELECTION} <= watches(site.place).keys())
        assignment = {"version": 1, "partitions": {"0": [2, 3], "1": [3, 2]}}
        for name in ("t", "u"):
            site.write(f"/brokers/topics/{name}", assignment)
        await until(lambda: None not in (site.state("t"), site.state("t", 1), site.state("u", 1)))
        state = site.state("t")
        found = {name: state[name] for name in ("controller_epoch", "leader", "version", "isr")}
        assert found == {"controller_epoch": 2, "leader": 2, "version": 1, "isr": [2, 3]}
        assert site.read(TOPIC)["partitions"] == assignment["partitions"]
        await until(lambda: site.holders("t-0") == site.holders("t-1") == [2, 3])
        for broker in site.brokers.values():
            await until(lambda one=broker: one.metadata.leader_of("t", 1)[0] == 3)  # type: ignore[misc]

        # The order of the replicas changes, and so the preferred leaders of both partitions do.
        for partition, replicas in ((0, [3, 2]), (1, [2, 3])):
            site.write(MOVES, moves(replicas, partition=partition))
            await until(lambda: site.tree.exists(MOVES) is None)
        assert site.read(TOPIC)["partitions"] == {"0": [3, 2], "1": [2, 3]}
        assert [site.state("t", one)["leader"] for one in (0, 1)] == [2, 3]
        site.write(ELECTION, election(0))
        await until(lambda: site.tree.exists(ELECTION) is None)
        assert [site.state("t", one)["leader"] for one in (0, 1)] == [3, 3]

        await site.start(4)
        await until(lambda: 4 in site.brokers[2].metadata.image.brokers)
        assert site.read("/brokers/ids/4")["port"] == site.brokers[4].address.port
        for name in ("t", "u"):
            site.tree.create(f"{DELETIONS}/{name}")
        await until(lambda: site.tree.get_children(DELETIONS) == [])
        assert site.tree.get_children("/brokers/topics") == []
        async with asyncio.timeout(60):
            while any(site.holders(f"{name}-") for name in ("t", "u")):
                await site.tidy()
                await asyncio.sleep(0.02)


@pytest.mark.requirement("ZKT-10")
async def test_an_assignment_that_names_a_broker_twice_is_refused(tmp_path: Path) -> None:
    """By the request and by the znodes of tools: two replicas on one broker are one."""
    async with ensemble(tmp_path) as site:
        await site.start(1, 2)
        async with Admin(str(site.brokers[1].address), ClientConfig()) as admin:
            with pytest.raises(RequestRefused) as refused:
                await admin.create_topic(NewTopic("t", assignment=[[1, 1]]))
            await admin.create_topic(NewTopic("t", assignment=[[1]]))
        site.write(MOVES, moves([2, 2]))
        await until(lambda: site.tree.exists(MOVES) is None)

        assert refused.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert site.read(TOPIC)["partitions"] == {"0": [1]}
        assert site.state("t")["isr"] == [1]


async def observed(site: Ensemble, seen: list[Row]) -> None:
    """Note each row that the tree shows, as often as it can be read."""
    while True:
        topic, state, again = site.read(TOPIC), site.state("t"), site.tree.get(TOPIC)
        row = (frozenset(topic["partitions"]["0"]), state["leader"], frozenset(state["isr"]))
        # New replicas join the ISR one by one; the table has the first and the last of that.
        is_joining = state["leader"] == 1 and {*OLD} < row[2] < {*OLD, *NEW}
        if json.loads(again[0]) == topic and not is_joining and row not in seen[-1:]:
            seen.append(row)
        await asyncio.sleep(0)


@pytest.mark.requirement("CTL-34", "CTL-35", "CTL-36", "CTL-37", "CTL-38", "CTL-40", "CTL-41")
@pytest.mark.requirement("CTL-42", "CTL-43", "CTL-44", "CTL-45")
async def test_a_partition_moves_to_three_other_brokers_in_the_documented_order(
    tmp_path: Path,
) -> None:
    """Six brokers with real files. A row that lasts for less than two reads of the tree may be
    missed; one that does not belong to the sequence may not be seen."""
    async with ensemble(tmp_path) as site:
        await site.start(*OLD, *NEW)
        site.write(TOPIC, {"version": 1, "partitions": {"0": OLD}})
        await until(lambda: site.state("t") is not None)
        await until(lambda: site.brokers[1].metadata.leader_of("t", 0)[0] == 1)
        async with site.connect(1) as client:
            for number in range(20):
                answer = await client.call(9, produce(batch(b"%d" % number)))
                assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
        before = site.holders("t-0"), site.state("t")["leader_epoch"]
        content = (tmp_path / "1" / "t-0" / f"{0:020d}.log").read_bytes()
        seen: list[Row] = []
        watching = asyncio.ensure_future(observed(site, seen))
        site.write(MOVES, moves(NEW))
        await until(lambda: site.tree.exists(MOVES) is None)
        await asyncio.sleep(0.05)
        watching.cancel()
        async with asyncio.timeout(60):
            while site.holders("t-0") != NEW:
                await site.tidy()
                await asyncio.sleep(0.02)
        copies = {(tmp_path / str(one) / "t-0" / f"{0:020d}.log").read_bytes() for one in NEW}
        after = site.state("t")

        assert before == (OLD, 0)
        assert [row for row in TABLE if row in seen] == seen
        assert {TABLE[0], TABLE[1], TABLE[-1]} <= {*seen}
        # Once when the move began, once for the new leader, once when the old replicas left.
        assert (after["leader"], after["leader_epoch"], set(after["isr"])) == (4, 3, {*NEW})
        assert site.read(TOPIC)["partitions"] == {"0": NEW}
        assert copies == {content}
