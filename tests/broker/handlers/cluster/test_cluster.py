"""What administrators' clients ask about the cluster as a whole."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from ottla.broker.system.real_disk import RealDisk, RealOffload
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from ottla.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.support.requests import batch, create, created_meanwhile, produce
from tests.support.cluster import running_cluster
from tests.support.in_process import running_broker

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.raw_client import RawClient


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_every_broker_describes_the_same_cluster(version: int) -> None:
    """Clients take any broker's word for where the others and the controller are."""
    async with running_cluster(3) as cluster:
        answers = []
        for node_id in (1, 2, 3):
            async with cluster.connect(node_id) as client:
                answers.append(await client.call(version, DescribeClusterRequest()))
        ports = {node_id: cluster[node_id].address.port for node_id in (1, 2, 3)}

    for answer in answers:
        assert answer.error_code == ErrorCode.NONE
        assert {node.broker_id: node.port for node in answer.brokers} == ports
    assert len({(answer.cluster_id, answer.controller_id) for answer in answers}) == 1
    assert answers[0].controller_id in ports


@pytest.mark.parametrize(
    ("kind", "error"),
    [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (9, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)],
)
async def test_only_brokers_can_be_described(
    client: RawClient, kind: int, error: ErrorCode
) -> None:
    """A client that looks for KRaft controllers must not take brokers for them."""
    answer = await client.call(1, DescribeClusterRequest(endpoint_type=kind))

    assert answer.error_code == error
    assert answer.brokers == []


async def test_partitions_come_in_portions(client: RawClient) -> None:
    """One answer about a large cluster would be larger than clients accept (KIP-966)."""
    await create(client, "a", partitions=3)
    await create(client, "b", partitions=2)

    seen = []
    cursor: Cursor | None = None
    portions = 0
    while portions == 0 or cursor is not None:
        request = DescribeTopicPartitionsRequest(response_partition_limit=2, cursor=cursor)
        answer = await client.call(0, request)
        seen += [
            (topic.name, part.partition_index)
            for topic in answer.topics
            for part in topic.partitions
        ]
        cursor = answer.next_cursor
        portions += 1

    assert seen == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1)]
    assert portions == 3


async def test_an_unknown_topic_has_an_error_of_its_own(client: RawClient) -> None:
    """The others are described all the same."""
    await create(client, "a", partitions=1)

    request = DescribeTopicPartitionsRequest(topics=[TopicRequest("a"), TopicRequest("nowhere")])
    known, unknown = (await client.call(0, request)).topics

    assert (known.name, known.error_code) == ("a", ErrorCode.NONE)
    assert known.partitions[0].eligible_leader_replicas == []
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", [1, 2, 3, 4])
async def test_data_directories_tell_what_lies_in_them(client: RawClient, version: int) -> None:
    """Operators plan disks and moves by these sizes."""
    await create(client, "t", partitions=2)
    records = batch(b"x" * 1000)
    await client.call(9, produce(records))

    (everything,) = (await client.call(version, DescribeLogDirsRequest(topics=None))).results
    wanted = DescribeLogDirsRequest(topics=[DescribableLogDirTopic("t", [1])])
    (one,) = (await client.call(version, wanted)).results

    sizes = {
        (topic.name, part.partition_index): part.partition_size
        for topic in everything.topics
        for part in topic.partitions
    }
    assert everything.log_dir == "/data"
    assert sizes == {("t", 0): len(records), ("t", 1): 0}
    assert [part.partition_index for topic in one.topics for part in topic.partitions] == [1]
    sizes_told = (everything.usable_bytes > 0, everything.total_bytes >= everything.usable_bytes)
    assert sizes_told == ((True, True) if version == 4 else (False, True))


async def test_a_relative_data_directory_is_told_by_its_absolute_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tools name a directory by this path when they move a replica into it."""
    monkeypatch.chdir(tmp_path)
    disk = RealDisk(RealOffload())
    async with running_broker({"log.dirs": "here"}, disk) as running, running.connect() as client:
        (found,) = (await client.call(4, DescribeLogDirsRequest(topics=None))).results

    volume = os.statvfs(tmp_path)
    assert found.log_dir == str(tmp_path / "here")
    assert found.total_bytes == volume.f_blocks * volume.f_frsize


async def test_a_replica_without_a_role_has_no_lag() -> None:
    """-1 means unknown; 0 would say that it has every committed record."""
    async with running_broker() as running, running.connect() as client:
        await create(client)
        (runtime,) = running.broker.partitions
        running.broker.partitions._forget(runtime)
        (found,) = (await client.call(4, DescribeLogDirsRequest(topics=None))).results

        assert [one.offset_lag for topic in found.topics for one in topic.partitions] == [-1]


async def test_a_topic_that_a_client_asks_about_is_created_wherever_the_controller_is() -> None:
    """Producers find topics through any broker; only one of them is the controller."""
    async with running_cluster(3) as cluster:
        other = next(node for node in (1, 2, 3) if node != cluster.controller.node_id)
        async with cluster.connect(other) as client:
            wanted = MetadataRequest(topics=[MetadataRequestTopic(name="new")])
            await client.call(9, wanted)
            answer = await created_meanwhile(client, "new")

    (topic,) = answer.topics
    assert topic.error_code == ErrorCode.NONE
    assert topic.partitions[0].leader_id in (1, 2, 3)
