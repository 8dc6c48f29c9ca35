"""A broker's login is good for that broker alone: ``ottla.broker.principals``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import ottla
from ottla import sync
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from ottla.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from ottla.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.protocol.secret import Secret
from ottla.wire.api import declare
from ottla.wire.clock import RealClock
from ottla.wire.connection_config import ConnectionConfig
from ottla.wire.negotiation import connect
from ottla.wire.real import RealNet
from ottla.wire.sasl import PasswordSasl
from ottla.wire.security import ConnectionSecurity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.protocol.ports import Address
    from ottla.wire.connection import Connection

FETCH = declare(ApiKey.FETCH, FetchRequest, FetchResponse, 5, 11)
OFFSETS = declare(ApiKey.LIST_OFFSETS, ListOffsetsRequest, ListOffsetsResponse, 4, 5)
CONTROL = declare(ApiKey.LEADER_AND_ISR, LeaderAndIsrRequest, LeaderAndIsrResponse, 5, 7)
SHUTDOWN = declare(
    ApiKey.CONTROLLED_SHUTDOWN, ControlledShutdownRequest, ControlledShutdownResponse, 3
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.Cluster]:
    """Three brokers, each with a user of its own."""
    with ottla.Cluster(brokers=3, security="sasl_plaintext", acls=[]) as made:
        made.create_topic("t")
        yield made


async def _connected(cluster: ottla.Cluster, user: str) -> Connection:
    """To the leader's listener for brokers."""
    assert cluster._members is not None
    assert cluster._security is not None
    address: Address = cluster._members.member(cluster.leader("t")).addresses["BROKERS"]
    sasl = PasswordSasl("SCRAM-SHA-256", user, Secret(cluster._security.passwords[user]))
    config = ConnectionConfig(security=ConnectionSecurity(sasl=sasl))
    return await connect(RealNet(), RealClock(), address, config)


async def _fetched(connection: Connection, replica_id: int) -> ErrorCode:
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000)
    request = FetchRequest(
        replica_id=replica_id,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1_000,
        topics=[FetchTopic(topic="t", partitions=[part])],
    )
    answer = await connection.send(FETCH, request)
    return ErrorCode(answer.responses[0].partitions[0].error_code)


async def _looked_up(connection: Connection, replica_id: int) -> ErrorCode:
    part = ListOffsetsPartition(partition_index=0, timestamp=-1, current_leader_epoch=-1)
    topic = ListOffsetsTopic(name="t", partitions=[part])
    answer = await connection.send(
        OFFSETS, ListOffsetsRequest(replica_id=replica_id, topics=[topic])
    )
    return ErrorCode(answer.topics[0].partitions[0].error_code)


async def test_a_broker_fetches_as_itself_only(cluster: ottla.Cluster) -> None:
    """What a replica fetches moves the high watermark, so another broker could lose records."""
    follower = next(one for one in cluster.brokers if one != cluster.leader("t"))
    other = next(one for one in cluster.brokers if one not in (cluster.leader("t"), follower))
    connection = await _connected(cluster, f"broker-{follower}")
    try:
        assert await _fetched(connection, other) is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert await _looked_up(connection, other) is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert await _fetched(connection, follower) is not ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert await _looked_up(connection, follower) is ErrorCode.NONE
    finally:
        connection.close()


async def test_neither_a_broker_nor_a_super_user_speaks_as_the_controller(
    cluster: ottla.Cluster,
) -> None:
    """Even with the right epochs; admin may do everything else."""
    assert cluster._members is not None
    leader = cluster.leader("t")
    image = cluster._members.nodes[leader].broker.metadata.image  # type: ignore[attr-defined]
    request = LeaderAndIsrRequest(
        controller_id=image.controller_id, controller_epoch=image.controller_epoch, broker_epoch=1
    )
    strangers = [f"broker-{one}" for one in cluster.brokers if one != image.controller_id]
    for user in ("admin", *strangers):
        connection = await _connected(cluster, user)
        try:
            answer = await connection.send(CONTROL, request)
            assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            asked = ControlledShutdownRequest(broker_id=image.controller_id, broker_epoch=1)
            refused = await connection.send(SHUTDOWN, asked)
            assert refused.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        finally:
            connection.close()
    connection = await _connected(cluster, f"broker-{image.controller_id}")
    answer = await connection.send(CONTROL, request)
    assert answer.error_code != ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    # With the controller's own login: a later epoch would shut out the real controller.
    request.controller_epoch += 1
    answer = await connection.send(CONTROL, request)
    assert answer.error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    connection.close()


def test_a_bound_cluster_replicates_and_fails_over(cluster: ottla.Cluster) -> None:
    """Its own brokers must get past the same checks."""
    settings = cluster.client_settings()
    servers = str(settings.pop("bootstrap.servers"))
    with sync.Producer(servers, security=settings, acks="all") as producer:
        producer.send("t", b"1").result()
        leader = cluster.leader("t")
        cluster.faults.kill(leader)
        producer.send("t", b"2").result()
        cluster.faults.restart(leader)
        producer.send("t", b"3").result()
