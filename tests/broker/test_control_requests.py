"""The controller's requests on the wire, from a client that claims to be the controller."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from ottla.broker.system.memory_disk import MemoryDisk
from ottla.broker.system.real_disk import RealDisk, RealOffload
from ottla.coordinator.metadata.changes import INCREMENTAL_UPDATE
from ottla.coordinator.store import paths
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from ottla.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from tests.broker.support.requests import batch, produce
from tests.support.broker_process import ROOT
from tests.support.cluster import RunningCluster, running_cluster

if TYPE_CHECKING:
    from pathlib import Path

    from ottla.coordinator.store.store import MetadataSession
    from ottla.protocol.ids import Uuid

REPLICAS = [1, 2, 3]


async def with_topic(cluster: RunningCluster, partitions: int = 2) -> Uuid:
    """A topic with three replicas; its id."""
    wanted = CreatableTopic(name="t", num_partitions=partitions, replication_factor=3)
    async with cluster.connect(cluster.controller.node_id) as client:
        answer = await client.call(7, CreateTopicsRequest([wanted], timeout_ms=10_000))
    assert answer.topics[0].error_code == ErrorCode.NONE
    topic_id: Uuid = answer.topics[0].topic_id
    return topic_id


def controller_of(cluster: RunningCluster, epochs_later: int = 0) -> dict[str, Any]:
    """The fields in which every request of the controller says who it is."""
    image = cluster[1].metadata.image
    return {
        "controller_id": image.controller_id,
        "controller_epoch": image.controller_epoch + epochs_later,
        "broker_epoch": 1,
    }


def role(index: int, leader: int, leader_epoch: int) -> LeaderAndIsrPartitionState:
    """That broker leads, and all are in sync."""
    return LeaderAndIsrPartitionState(
        partition_index=index,
        controller_epoch=1,
        leader=leader,
        leader_epoch=leader_epoch,
        isr=REPLICAS,
        partition_epoch=leader_epoch,
        replicas=REPLICAS,
    )


def _living(cluster: RunningCluster) -> list[UpdateMetadataBroker]:
    return [
        UpdateMetadataBroker(
            id=node_id,
            endpoints=[
                UpdateMetadataEndpoint(
                    cluster[node_id].address.port, "127.0.0.1", "PLAINTEXT", security_protocol=0
                )
            ],
        )
        for node_id in REPLICAS
    ]


async def ask(cluster: RunningCluster, node_id: int, version: int, request: Any) -> Any:
    """Sends one request on a new connection."""
    async with cluster.connect(node_id) as client:
        return await client.call(version, request)


@pytest.mark.requirement("NET-33")
async def test_roles_are_answered_one_by_one_and_an_old_controller_is_not_heard() -> None:
    """One bad partition must not spoil the others (C-12), nor a deposed controller anything."""
    async with running_cluster(3) as cluster:
        topic_id = await with_topic(cluster)
        states = [role(0, 2, 7), role(1, 2, -1)]
        topic = LeaderAndIsrTopicState("t", topic_id, states)
        stale = await ask(
            cluster, 2, 6, LeaderAndIsrRequest(**controller_of(cluster, -1), topic_states=[topic])
        )
        answer = await ask(
            cluster, 2, 6, LeaderAndIsrRequest(**controller_of(cluster), topic_states=[topic])
        )
        leading = cluster[2].partitions.find("t", 0)

        assert stale.error_code == ErrorCode.STALE_CONTROLLER_EPOCH
        assert answer.error_code == ErrorCode.NONE
        (errors,) = [each.partition_errors for each in answer.topics]
        codes = {each.partition_index: ErrorCode(each.error_code) for each in errors}
        assert codes[0] is ErrorCode.NONE
        assert codes[1] is not ErrorCode.NONE
        assert leading is not None
        assert (leading.replica.is_leader, leading.leader_epoch) == (True, 7)


@pytest.mark.parametrize(
    ("topic", "index", "differs"),
    [
        ("t", 0, {"isr": [2]}),
        ("t", 0, {"isr": [1, 2, 1]}),
        ("t", 0, {"leader_epoch": -1}),
        ("t", -1, {}),
        ("../t", 0, {}),
        ("..", 0, {}),
        ("", 0, {}),
        ("t" * 300, 0, {}),
    ],
)
async def test_an_order_that_makes_no_sense_is_refused_and_does_no_harm(
    topic: str, index: int, differs: dict[str, Any]
) -> None:
    """Any client that reaches the port can send one; it must not end the broker or become a
    path."""
    disk = MemoryDisk()
    async with running_cluster(1, disk=disk) as cluster:
        before = {path: sorted(await disk.scan(path)) for path in ("/data", "/data/1")}
        state = role(index, 1, 7)
        for name, value in differs.items():
            setattr(state, name, value)
        made = LeaderAndIsrTopicState(topic, b"sixteen bytes id", [state])
        request = LeaderAndIsrRequest(**controller_of(cluster), topic_states=[made])

        answer = await ask(cluster, 1, 6, request)

        assert answer.topics[0].partition_errors[0].error_code == ErrorCode.INVALID_REQUEST
        assert {path: sorted(await disk.scan(path)) for path in before} == before
        assert not cluster[1].has_failed
        assert len(cluster[1].partitions) == 0
        assert not cluster[1].partitions._refusals


@pytest.mark.requirement("NET-34")
async def test_a_stopped_replica_fetches_no_more_and_a_deleted_one_leaves_no_directory(
    tmp_path: Path,
) -> None:
    """A replica that kept fetching would fill a disk that the operator wanted to free."""
    offload = RealOffload(2)
    settings = {"log.dirs": str(tmp_path)}
    async with running_cluster(3, settings, RealDisk(offload)) as cluster:
        await with_topic(cluster)
        leaders = {cluster[1].metadata.leader_of("t", index)[0] for index in (0, 1)}
        (follower,) = set(REPLICAS) - leaders
        before = _followed(cluster, follower)
        states = [
            StopReplicaPartitionState(0, 0, delete_partition=False),
            StopReplicaPartitionState(1, -2, delete_partition=True),
        ]
        request = StopReplicaRequest(
            **controller_of(cluster), topic_states=[StopReplicaTopicState("t", states)]
        )
        answer = await ask(cluster, follower, 3, request)
        there = {one.name for one in (tmp_path / str(follower)).iterdir()}

        assert before == {("t", 0), ("t", 1)}
        assert [each.error_code for each in answer.partition_errors] == [0, 0]
        assert _followed(cluster, follower) == set()
        assert cluster[follower].partitions.find("t", 1) is None
        assert "t-0" in there
        assert "t-1" not in there
    offload.close()


@pytest.mark.requirement("CTL-48")
async def test_every_broker_rejects_every_request_of_a_controller_with_an_older_epoch() -> None:
    """Its requests may lie in sockets while its successor decides otherwise (C-01)."""
    async with running_cluster(3) as cluster:
        topic_id = await with_topic(cluster)
        before = {one: cluster[one].metadata.image.topics["t"] for one in REPLICAS}
        who = controller_of(cluster, -1)
        roles = LeaderAndIsrTopicState("t", topic_id, [role(0, 2, 70)])
        stopped = [StopReplicaPartitionState(0, -2, delete_partition=True)]
        led = UpdateMetadataPartitionState(partition_index=0, leader=2, leader_epoch=70)
        told = [UpdateMetadataTopicState("t", topic_id, [led])]
        requests = (
            (6, LeaderAndIsrRequest(**who, topic_states=[roles])),
            (3, StopReplicaRequest(**who, topic_states=[StopReplicaTopicState("t", stopped)])),
            (
                8,
                UpdateMetadataRequest(**who, topic_states=told, live_brokers=_living(cluster)),
            ),
        )
        codes = [
            (await ask(cluster, node_id, version, request)).error_code
            for node_id in REPLICAS
            for version, request in requests
        ]

        assert codes == [ErrorCode.STALE_CONTROLLER_EPOCH] * 9
        assert {one: cluster[one].metadata.image.topics["t"] for one in REPLICAS} == before
        for node_id in REPLICAS:
            found = cluster[node_id].partitions.find("t", 0)
            assert found is not None
            assert found.leader_epoch < 70


@pytest.mark.requirement("NET-35")
async def test_metadata_answers_what_the_controller_said_last() -> None:
    """Without asking the store, which says something else here."""
    async with running_cluster(3) as cluster:
        topic_id = await with_topic(cluster, 1)
        leader = cluster[2].metadata.leader_of("t", 0)[0]
        other = leader % 3 + 1
        state = UpdateMetadataPartitionState(
            partition_index=0,
            leader=other,
            leader_epoch=9,
            isr=REPLICAS,
            replicas=REPLICAS,
            zk_version=9,
        )
        topic = UpdateMetadataTopicState("t", topic_id, [state])
        request = UpdateMetadataRequest(
            **controller_of(cluster),
            type=INCREMENTAL_UPDATE,
            topic_states=[topic],
            live_brokers=_living(cluster),
        )
        answer = await ask(cluster, 2, 8, request)
        wanted = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
        (found,) = (await ask(cluster, 2, 9, wanted)).topics

        assert answer.error_code == ErrorCode.NONE
        assert found.partitions[0].leader_id == other
        assert found.partitions[0].leader_epoch == 9


@pytest.mark.requirement("ZKT-24")
async def test_the_store_says_where_brokers_are_and_which_topics_there_are() -> None:
    """Tools that look into ZooKeeper find what Kafka's brokers would have written."""
    async with running_cluster(3) as cluster:
        before = await _topics(cluster)
        await with_topic(cluster, 3)
        session = _session(cluster)
        payload = paths.parse_topic((await session.get(paths.topic("t"))).data)
        broker = paths.parse_broker((await session.get(paths.broker(2))).data)

        assert (before, await _topics(cluster)) == ([], ["t"])
        assert payload is not None
        assert sorted(payload.partitions) == [0, 1, 2]
        assert broker is not None
        (endpoint,) = broker.endpoints
        assert (endpoint.host, endpoint.port) == ("127.0.0.1", cluster[2].address.port)


@pytest.mark.requirement("REP-27")
async def test_followers_that_keep_up_are_fed_from_memory(tmp_path: Path) -> None:
    """Disks serve writes; what was written a moment ago is still in the page cache, which the
    leader asks about every region of a sealed segment that it sends."""
    offload = RealOffload(2)
    settings = {"log.dirs": str(tmp_path), "log.segment.bytes": "20000"}
    async with running_cluster(3, settings, RealDisk(offload)) as cluster:
        await with_topic(cluster, 1)
        leader = cluster[cluster[1].metadata.leader_of("t", 0)[0]]
        async with cluster.connect(leader.node_id) as client:
            for _ in range(200):
                answer = await client.call(9, produce(batch(b"x" * 1000)))
                assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
        partition = leader.partitions.find("t", 0)
        assert partition is not None

        assert partition.replica.high_watermark == 200
        assert len(partition.log.segments) > 5
        assert leader.requests.dispatcher._services.reads.cold_read_count == 0
    offload.close()


@pytest.mark.requirement("REP-25")
def test_the_first_page_says_against_which_failures_replicas_help() -> None:
    """Users must learn the failure model from the README, not from an incident.

    No other page and no comment in the code may claim more."""
    page = " ".join((ROOT / "README.md").read_text("utf-8").split())
    code = [path for room in ("broker", "coordinator") for path in (ROOT / room).rglob("*.py")]
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *code]
    texts = [" ".join(path.read_text("utf-8").split()) for path in pages]
    claims = [found for text in texts for found in re.findall(r"[^.]*Byzantine[^.]*", text)]

    assert "Ottla tolerates crash faults, not Byzantine ones" in page
    assert claims
    assert [one for one in claims if "not Byzantine" not in one] == []


def _session(cluster: RunningCluster) -> MetadataSession:
    lifecycle = cluster[1].state.lifecycle
    assert lifecycle is not None
    return lifecycle.session


def _followed(cluster: RunningCluster, node_id: int) -> set[tuple[str, int]]:
    return {
        (one.partition.topic, one.partition.partition)
        for one in cluster[node_id].parts.fetchers.followed
    }


async def _topics(cluster: RunningCluster) -> list[str]:
    return await _session(cluster).children(paths.TOPICS)
