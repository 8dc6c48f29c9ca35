"""Where the logs of leaders and followers end."""

from __future__ import annotations

import asyncio

import ottla
from ottla.wire.errors import ClientError

LIMIT_S = 60


async def test_each_replica_tells_where_its_log_ends() -> None:
    """A leader tells clients its high watermark alone; how far a follower has come is seen here."""
    with ottla.Cluster(brokers=3) as cluster:
        cluster.create_topic("t", partitions=1, replication_factor=3)
        where = ottla.TopicPartition("t", 0)
        async with (
            ottla.Producer(cluster.bootstrap_servers) as producer,
            ottla.Admin(cluster.bootstrap_servers) as admin,
        ):
            await producer.send("t", b"one", partition=0)
            await producer.flush()
            ends: dict[int, object] = {}
            async with asyncio.timeout(LIMIT_S):
                while ends != {node_id: {where: 1} for node_id in (1, 2, 3)}:
                    ends = dict(await admin.brokers.replica_ends({n: [where] for n in (1, 2, 3)}))
            unknown = ottla.TopicPartition("t", 7)
            others = await admin.brokers.replica_ends({1: [unknown], 9: [where]})

    assert others[1] == {}
    assert isinstance(others[9], ClientError)
