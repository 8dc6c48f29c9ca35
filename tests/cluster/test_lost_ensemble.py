"""The whole ZooKeeper ensemble is gone: what works, what is refused, and what recovers.

acks=all, fetches, groups                           work
acks=0 and 1, more than one replica                 refused from 2/3 of the session on
acks=all, the leader alone, unclean election on     refused from 2/3 of the session on
acks=1, one replica                                 works: no other replica could take over
elections, changes of topics and settings           none; requests fail at once
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest
from tests.broker.support.groups import Member, commit, coordinated
from tests.broker.support.requests import batch, fetched, listed, produce, produced
from tests.cluster.support.real import RealCluster
from tests.cluster.support.watching import Watch
from tests.cluster.support.wire import Told, View, raw
from tests.zookeeper.servers import Ensemble

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from tests.support.raw_client import RawClient

SESSION_S = 6.0
LEASE_S = SESSION_S * 2 / 3
OPTIONS = {
    "zookeeper.session.timeout.ms": "6000",
    "replica.lag.time.max.ms": "4000",
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}
# Six beats in a session, and what a busy machine is late: the earliest end of a lease.
EARLIEST_S = 1.0
ADMIN_ANSWERS_S = 30.0
STOPS_WITHIN_S = 60.0
GROUP = "reading"
ALL, ALONE, UNCLEAN, SINGLE, QUIET = "replicated", "alone", "unclean", "single", "quiet"
TOPICS = (ALL, ALONE, UNCLEAN, SINGLE, QUIET)
STAYS, FOLLOWS, GOES = 1, 2, 3
LATEST = -1


def prepare(cluster: RealCluster) -> None:
    """Broker 3 is stopped: what it shared with broker 1 alone is led by a leader without others."""
    cluster.create_placed(ALL, (STAYS, FOLLOWS, GOES))
    cluster.create_placed(QUIET, (STAYS, FOLLOWS, GOES))
    one = {"min.insync.replicas": "1"}
    cluster.create_placed(ALONE, (STAYS, GOES), one)
    cluster.create_placed(UNCLEAN, (STAYS, GOES), {**one, "unclean.leader.election.enable": "true"})
    cluster.create_placed(SINGLE, (STAYS,), one)
    for topic in TOPICS:
        cluster.wait_until_whole(topic)
    cluster.brokers[GOES].stop()
    for topic in (ALONE, UNCLEAN):
        cluster.wait_for(
            f"{topic} has but one in sync",
            lambda topic=topic: cluster.newest(topic)[0].isr == {STAYS},  # type: ignore[misc]
        )


def writes(topic: str, acks: int) -> Callable[[RawClient], Awaitable[int]]:
    """Write one record."""

    async def ask(client: RawClient) -> int:
        answer = await produced(client, batch(b"x"), topic=topic, acks=acks)
        return int(answer.error_code)

    return ask


async def reads(client: RawClient) -> int:
    """Whether the records of just now are to be read."""
    end = await listed(client, LATEST, topic=ALL)
    answer = await fetched(client, max(0, end.offset - 1), topic=ALL)
    assert answer.records or end.offset == 0
    return int(answer.error_code or end.error_code)


async def quiet_end(client: RawClient) -> int:
    """Write one with acks=0, and say how many there are."""
    client.send(9, produce(batch(b"x"), acks=0, topic=QUIET))
    return int((await listed(client, LATEST, topic=QUIET)).offset)


def beats(member: Member) -> Callable[[RawClient], Awaitable[int]]:
    """A heartbeat and a commit of the member."""

    async def ask(client: RawClient) -> int:
        member.client = client
        code = await member.heartbeat()
        done = await commit(client, {(ALL, 0): 1}, GROUP, member)
        return code or done[ALL, 0]

    return ask


async def begins(client: RawClient) -> int:
    """Fetch the committed offset, as a member does that starts: a stale answer will not do."""
    request = OffsetFetchRequest(group_id=GROUP, topics=None, require_stable=True)
    return int((await client.call(7, request)).error_code)


async def enters(client: RawClient) -> int:
    """Let another member join and leave a separate group."""
    other = Member(client, "another")
    await other.enter()
    answer = await client.call(5, other.leave_request)
    return int(answer.error_code)


class Outage:
    """One loss of the ensemble under watch."""

    def __init__(self, cluster: RealCluster, coordinator: str, member: Member) -> None:
        self.cluster = cluster
        leader = cluster.brokers[STAYS].address
        self.goes_on = [
            Watch("acks=all", leader, writes(ALL, -1)),
            Watch("acks=all of a lone leader", leader, writes(ALONE, -1)),
            Watch("acks=1 of a single replica", leader, writes(SINGLE, 1)),
            Watch("fetch", leader, reads),
            Watch("heartbeat and commit", coordinator, beats(member)),
            Watch("stable positions", coordinator, begins),
            Watch("another group", coordinator, enters),
        ]
        self.stops = [
            Watch("acks=1", leader, writes(ALL, 1)),
            Watch("acks=1 of a lone leader", leader, writes(ALONE, 1)),
            Watch("acks=all where it may be passed over", leader, writes(UNCLEAN, -1)),
        ]
        self.quiet = Watch("records of acks=0", leader, quiet_end)
        self.begun = self.certain = self.ended = 0.0

    @property
    def all(self) -> list[Watch]:
        return [*self.goes_on, *self.stops, self.quiet]

    def said_by_what_goes_on(self) -> set[object]:
        """All answers to requests that must keep working."""
        watches = self.goes_on
        return {one.said for watch in watches for one in watch.between(self.begun - 1, self.ended)}

    def said_by_what_stops(self) -> set[object]:
        """All answers of the others, from when the leader has to know."""
        return {code for one in self.stops for code in one.codes(self.certain, self.ended)}

    def check(self) -> None:
        """Compare each with the table at the head of this file, and report it."""
        for watch in (*self.goes_on, *self.stops):
            self.cluster.tell(watch.tale(self.begun))
        for watch in self.goes_on:
            found = watch.between(self.begun - 1, self.ended)
            assert {one.said for one in found} == {ErrorCode.NONE}, watch.tale(self.begun)
            assert len(found) > 5, watch.tale(self.begun)
            pause = max(one.came - one.sent for one in found)
            self.cluster.tell(f"{watch.name}: {len(found)} answers, longest {pause:.2f} s")
        for watch in self.stops:
            refused = watch.codes(self.certain, self.ended)
            assert refused == {ErrorCode.NOT_LEADER_OR_FOLLOWER}, watch.tale(self.begun)
            early = watch.codes(self.begun - 1, self.begun + EARLIEST_S)
            assert early == {ErrorCode.NONE}, watch.tale(self.begun)
        # A client that sends with acks=0 learns of a refusal by the end of the connection.
        ends = {one for one in self.quiet.codes(self.certain, self.ended) if isinstance(one, int)}
        assert len(ends) <= 1, self.quiet.answers


def stop_a_broker(cluster: RealCluster) -> None:
    """Stop a broker as an operator does: without a controller it ends cleanly and soon (C-14)."""
    begun = time.monotonic()
    assert cluster.brokers[FOLLOWS].stop() == 0
    took = time.monotonic() - begun
    cluster.tell(f"broker 2 is stopped, in {took:.2f} s: nobody may act upon it")
    assert took < STOPS_WITHIN_S


def kill_a_broker(cluster: RealCluster) -> None:
    cluster.tell("broker 2 is killed: nobody may act upon it")
    cluster.brokers[FOLLOWS].kill()


async def lose_ensemble(
    cluster: RealCluster,
    ensemble: Ensemble,
    length_s: float,
    lose_a_broker: Callable[[RealCluster], None],
) -> Outage:
    """Lose it, watch, have it back, and see that all is as before."""
    views = await asyncio.to_thread(partitions_of, cluster)
    coordinator = await coordinator_of(cluster)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(raw(coordinator))
        await coordinated(client, GROUP)
        await coordinated(client, "another")
        member = Member(client, GROUP)
        await member.enter()
        outage = Outage(cluster, coordinator, member)
        for watch in outage.all:
            watch.start()
            stack.push_async_callback(watch.stop)
        await asyncio.sleep(1.5)
        cluster.tell("the ensemble is killed")
        outage.begun = time.monotonic()
        await asyncio.to_thread(ensemble.kill)
        outage.certain = time.monotonic() + LEASE_S
        await asyncio.sleep(length_s / 2)
        await admin_says_so(cluster)
        await asyncio.sleep(max(0.0, outage.begun + length_s - time.monotonic()))
        outage.ended = time.monotonic()
        await asyncio.sleep(0.5)
    outage.check()
    await asyncio.to_thread(lose_a_broker, cluster)
    await asyncio.sleep(1.5)
    assert await asyncio.to_thread(partitions_of, cluster) == {STAYS: views[STAYS]}
    cluster.tell("the ensemble comes back")
    await asyncio.to_thread(come_back, cluster, ensemble)
    await all_is_well(cluster)
    return outage


def partitions_of(cluster: RealCluster) -> dict[int, list[Told]]:
    """Leaders, epochs and in-sync sets in the view of each broker."""
    found: dict[int, list[Told]] = {}
    for topic in TOPICS:
        for node_id, view in cluster.views(topic).items():
            assert isinstance(view, View), f"{view}\n{cluster.stories()}"
            found.setdefault(node_id, []).append(view.partitions[0])
    return found


async def coordinator_of(cluster: RealCluster) -> str:
    """The address of the broker that has the groups."""
    async with asyncio.timeout(60), raw(cluster.brokers[STAYS].address) as client:
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP])
        while True:
            answer = (await client.call(4, request)).coordinators[0]
            if answer.error_code == ErrorCode.NONE:
                return f"{answer.host}:{answer.port}"
            await asyncio.sleep(0.1)


async def admin_says_so(cluster: RealCluster) -> None:
    """Every broker, whichever the controller was, answers that it cannot, and soon."""
    changes = [AlterableConfig("retention.ms", 0, "1000000")]
    requests = (
        (7, CreateTopicsRequest([CreatableTopic("impossible", 1, 2)], 2_000)),
        (6, DeleteTopicsRequest([DeleteTopicState(ALL)], timeout_ms=2_000)),
        (1, IncrementalAlterConfigsRequest([AlterConfigsResource(2, ALL, changes)])),
    )
    for node_id in (STAYS, FOLLOWS):
        for version, request in requests:
            begun = time.monotonic()
            async with raw(cluster.brokers[node_id].address) as client:
                answer = await client.call(version, request)
            result = (getattr(answer, "topics", None) or answer.responses)[0]
            took = time.monotonic() - begun
            code, words = ErrorCode(result.error_code), getattr(result, "error_message", None)
            cluster.tell(
                f"broker {node_id}, {type(request).__name__}: {code.name} ({words}) in {took:.2f} s"
            )
            assert code != ErrorCode.NONE
            assert code != ErrorCode.UNKNOWN_SERVER_ERROR
            assert took < ADMIN_ANSWERS_S


def come_back(cluster: RealCluster, ensemble: Ensemble) -> None:
    """The ensemble first, then the brokers that were away; by hand nothing else is done."""
    ensemble.start()
    cluster.tell("the ensemble serves")
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda node_id: cluster.brokers[node_id].start(), (FOLLOWS, GOES)))
    for topic in TOPICS:
        cluster.tell(f"{topic} is whole after {cluster.wait_until_whole(topic):.2f} s")


async def all_is_well(cluster: RealCluster) -> None:
    """Writes of every kind, and changes of topics, are as they were."""
    found = await asyncio.to_thread(cluster.newest, ALL)
    async with raw(cluster.brokers[found[0].leader].address) as client:
        for acks in (1, -1):
            assert await writes(ALL, acks)(client) == ErrorCode.NONE
    await asyncio.to_thread(cluster.create_topic, "possible", 1)
    with cluster.tree() as tree:
        assert tree.exists("/brokers/topics/impossible") is None
        assert tree.exists(f"/brokers/topics/{ALL}") is not None


async def run(
    folder: Path, length_s: float, lose_a_broker: Callable[[RealCluster], None]
) -> Outage:
    with (
        Ensemble() as ensemble,
        RealCluster(folder, ensemble.address, options=OPTIONS) as cluster,
    ):
        # Their topic is created with its full number of replicas, while there are three brokers.
        await coordinator_of(cluster)
        await asyncio.to_thread(prepare, cluster)
        return await lose_ensemble(cluster, ensemble, length_s, lose_a_broker)


@pytest.mark.timeout(400)
async def test_without_its_store_the_cluster_does_what_is_safe_and_nothing_else(
    tmp_path: Path,
) -> None:
    """R-19, C-06: a leader gets no notice that its session is over and has to find out by
    itself."""
    outage = await run(tmp_path, 2 * SESSION_S, stop_a_broker)

    assert outage.said_by_what_goes_on() == {ErrorCode.NONE}
    assert outage.said_by_what_stops() == {ErrorCode.NOT_LEADER_OR_FOLLOWER}


@pytest.mark.soak
@pytest.mark.timeout(600)
async def test_a_minute_without_its_store_is_as_good_as_eight_seconds(tmp_path: Path) -> None:
    """Work that waits for ZooKeeper must neither pile up nor exhaust a resource."""
    outage = await run(tmp_path, 60.0, kill_a_broker)

    assert outage.said_by_what_goes_on() == {ErrorCode.NONE}
    assert outage.said_by_what_stops() == {ErrorCode.NOT_LEADER_OR_FOLLOWER}
