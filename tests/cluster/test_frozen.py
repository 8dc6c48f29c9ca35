"""Brokers that are stopped for longer than their session and wake up in a changed cluster.

A process that is frozen (SIGSTOP, a paused machine, a long pause of any kind) keeps its connections
and its state. Requests that arrived meanwhile are queued in its sockets and are the first that it
reads when it wakes, before it can learn of any change.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING

import pytest
from kazoo.exceptions import NoNodeError

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from ottla.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponseTopic,
)
from ottla.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from ottla.protocol.messages.update_metadata import UpdateMetadataRequest
from tests.broker.support.requests import batch, fetched, produce
from tests.cluster.support.load import PARTITIONS, TOPIC, Load, check
from tests.cluster.support.real import RealCluster
from tests.cluster.support.records import values_of
from tests.cluster.support.wire import SILENCE, raw, write
from tests.zookeeper.servers import Ensemble, ZooKeeperServer

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.support.wire import Told
    from tests.support.raw_client import RawClient

SESSION_S = 4.0
OPTIONS = {"zookeeper.session.timeout.ms": "4000", "replica.lag.time.max.ms": "4000"}
FROZEN_S = 2 * SESSION_S
# A session ends a tick after its timeout, and the controller has to notice; the rest is for busy
# machines.
TAKEN_OVER_S = SESSION_S + 90.0
WRITTEN = "written-to-the-frozen"
# The records of these tests are years old: the first look at retention would remove them.
KEPT = {"retention.ms": "-1"}


async def story(cluster: RealCluster, rounds: int) -> int:
    """Freeze leaders and controllers in turn under load, then compare what is there."""
    await asyncio.to_thread(cluster.create_topic, TOPIC, PARTITIONS)
    await asyncio.to_thread(cluster.create_topic, WRITTEN, 1, config=KEPT)
    await asyncio.to_thread(cluster.wait_until_whole, WRITTEN)
    load = Load(cluster.bootstrap)
    expected: list[bytes] = []
    try:
        for number in range(rounds):
            await asyncio.to_thread(load.wait_for_progress)
            expected += await freeze_a_leader(cluster, number)
            await asyncio.to_thread(load.wait_for_progress)
            await freeze_the_controller(cluster)
    finally:
        cluster.thaw_all()
        await asyncio.to_thread(load.finish)
    found = await asyncio.to_thread(values_of, cluster, WRITTEN)
    assert found == [value.decode() for value in expected]
    await asyncio.to_thread(check, load, cluster.bootstrap)
    return len(load.acked)


async def freeze_a_leader(cluster: RealCluster, number: int) -> list[bytes]:
    """Freeze a leader; return the records of this test that the partition has afterwards."""
    names = [f"{name}-{number}".encode() for name in ("before", "one", "all", "after", "again")]
    before, one, every, after, again = names
    told = await newest(cluster)
    address = cluster.brokers[told.leader].address
    async with raw(address) as first, raw(address) as second:
        # Both connections are in use: the next requests need no accept.
        assert await write(address, before, topic=WRITTEN) == ErrorCode.NONE
        await asked(first, second)
        cluster.freeze(told.leader)
        frozen_at = time.monotonic()
        first.send(9, produce(batch(one), acks=1, topic=WRITTEN))
        second.send(9, produce(batch(every), acks=-1, topic=WRITTEN))
        next_told = await successor(cluster, told)
        next_address = cluster.brokers[next_told.leader].address
        await written(cluster, next_address, after)
        await asyncio.sleep(frozen_at + FROZEN_S - time.monotonic())
        cluster.thaw(told.leader)
        answers = [await outcome(client, acks) for client, acks in ((first, 1), (second, -1))]
        cluster.tell(f"answers of the frozen leader to acks=1 and acks=all: {answers}")
    assert ErrorCode.NONE not in answers, cluster.stories()
    await asyncio.to_thread(cluster.wait_until_whole, WRITTEN)
    await written(cluster, next_address, again)
    return [before, after, again]


async def newest(cluster: RealCluster) -> Told:
    found = await asyncio.to_thread(cluster.newest, WRITTEN)
    return found[0]


async def successor(cluster: RealCluster, known: Told) -> Told:
    """The leader after that one, as soon as there is one."""

    def is_there() -> bool:
        told = cluster.newest(WRITTEN)[0]
        return told.leader not in (-1, known.leader) and told.leader_epoch > known.leader_epoch

    await asyncio.to_thread(cluster.wait_for, "another leader", is_there, TAKEN_OVER_S)
    return await newest(cluster)


async def asked(*clients: RawClient) -> None:
    """Have each connection taken and served once."""
    for client in clients:
        await fetched(client, 0, topic=WRITTEN)


async def written(cluster: RealCluster, address: str, value: bytes) -> None:
    """With acks=all; refused it may be for as long as too few are in sync, and nothing is written
    then."""
    deadline = time.monotonic() + TAKEN_OVER_S
    while (code := await write(address, value, topic=WRITTEN)) != ErrorCode.NONE:
        assert code in (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_LEADER_OR_FOLLOWER), code
        assert time.monotonic() < deadline, f"{code!r}\n{cluster.stories()}"
        await asyncio.sleep(0.1)


async def outcome(client: RawClient, acks: int) -> ErrorCode | str:
    """The answers of a broker that woke up to earlier requests."""
    try:
        answer = await client.answer(9, produce(b"", acks=acks))
    except SILENCE as error:
        return repr(error)
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


async def freeze_the_controller(cluster: RealCluster) -> None:
    """Another one takes over, and neither frames nor decisions of the old one count any more."""
    with cluster.tree() as tree:

        def epoch() -> int:
            return int(tree.get("/controller_epoch")[0])

        def controller() -> int:
            try:
                return int(json.loads(tree.get("/controller")[0])["brokerid"])
            except NoNodeError:
                return -1

        old, old_epoch = controller(), epoch()
        async with raw(cluster.brokers[old].address) as client:
            await asked(client)
            cluster.freeze(old)
            frozen_at = time.monotonic()
            request = CreateTopicsRequest([CreatableTopic("of-the-frozen", 1, 3)], 5_000)
            client.send(7, request)
            await asyncio.to_thread(
                cluster.wait_for,
                "another controller",
                lambda: controller() not in (-1, old) and epoch() > old_epoch,
                TAKEN_OVER_S,
            )
            new, new_epoch = controller(), epoch()
            assert new_epoch == old_epoch + 1
            # The other brokers know it once they know that the frozen one is gone.
            await asyncio.to_thread(
                cluster.wait_for, "its loss is known", lambda: is_known_to_be_lost(cluster, old)
            )
            await send_old_frames(cluster, old, old_epoch)
            await asyncio.sleep(frozen_at + FROZEN_S - time.monotonic())
            cluster.thaw(old)
            answer = await client.answer(7, request)
            code = ErrorCode(answer.topics[0].error_code)
        cluster.tell(f"the old controller's answer to what came too late: {code!r}")
        assert code != ErrorCode.NONE
        await asyncio.to_thread(cluster.wait_until_whole, WRITTEN)
        assert tree.exists("/brokers/topics/of-the-frozen") is None
        assert (controller(), epoch()) == (new, new_epoch)


def is_known_to_be_lost(cluster: RealCluster, node_id: int) -> bool:
    views = cluster.views(WRITTEN)
    return all(
        not isinstance(view, str)
        and node_id not in view.broker_ids
        and view.partitions[0].leader >= 0
        and node_id not in view.partitions[0].isr
        for other, view in views.items()
        if other != node_id
    )


async def send_old_frames(cluster: RealCluster, old: int, old_epoch: int) -> None:
    """Send requests as if they had been in flight when their controller froze: all brokers refuse
    them."""
    told = await newest(cluster)
    role = LeaderAndIsrPartitionState(
        partition_index=0,
        controller_epoch=old_epoch,
        leader=old,
        leader_epoch=told.leader_epoch + 10,
        isr=[old],
        partition_epoch=1_000_000,
        replicas=[1, 2, 3],
    )
    stop = StopReplicaPartitionState(0, told.leader_epoch + 10, delete_partition=True)
    others = [node_id for node_id in cluster.brokers if node_id != old]
    for node_id in others:
        async with raw(cluster.brokers[node_id].address) as client:
            topic_id = (await view_with_id(client)).topic_id
            requests = (
                LeaderAndIsrRequest(
                    controller_id=old,
                    controller_epoch=old_epoch,
                    broker_epoch=-1,
                    topic_states=[LeaderAndIsrTopicState(WRITTEN, topic_id, [role])],
                    live_leaders=[LeaderAndIsrLiveLeader(old, "127.0.0.1", 1)],
                ),
                UpdateMetadataRequest(
                    controller_id=old, controller_epoch=old_epoch, broker_epoch=-1
                ),
                StopReplicaRequest(
                    controller_id=old,
                    controller_epoch=old_epoch,
                    broker_epoch=-1,
                    topic_states=[StopReplicaTopicState(WRITTEN, [stop])],
                ),
            )
            for version, request in zip((6, 8, 3), requests, strict=True):
                answer = await client.call(version, request)
                assert answer.error_code == ErrorCode.STALE_CONTROLLER_EPOCH, request
    now_told = await newest(cluster)
    assert now_told[:2] == told[:2], now_told


async def view_with_id(client: RawClient) -> MetadataResponseTopic:
    request = MetadataRequest([MetadataRequestTopic(name=WRITTEN)], False)
    answer = await client.call(12, request)
    found: MetadataResponseTopic = answer.topics[0]
    return found


@pytest.mark.timeout(400)
@pytest.mark.requirement("CTL-02", "CTL-03", "CTL-15", "CTL-18")
async def test_a_broker_that_wakes_up_after_its_session_acknowledges_and_changes_nothing(
    tmp_path: Path,
) -> None:
    """P-02, C-01: what it believes when it wakes is the past."""
    with (
        ZooKeeperServer() as zookeeper,
        RealCluster(tmp_path, zookeeper.address, options=OPTIONS) as cluster,
    ):
        assert await story(cluster, 1) > 100


@pytest.mark.soak
@pytest.mark.timeout(3600)
async def test_forty_frozen_brokers_acknowledge_and_change_nothing(tmp_path: Path) -> None:
    """Whether timers or sockets come first at wake-up differs every time."""
    with (
        Ensemble() as ensemble,
        RealCluster(tmp_path, ensemble.address, options=OPTIONS) as cluster,
    ):
        assert await story(cluster, 20) > 1_000
