"""A stream whose brokers die."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import ottla
from tests.client.spark.support.driven import Query
from tests.client.spark.support.topics import fill, given

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


def test_a_stream_goes_on_when_a_leader_dies() -> None:
    """An error where Spark asks for offsets would end the query: it does not try again."""
    with ottla.Cluster(brokers=3) as cluster:
        cluster.create_topic("t", partitions=2)
        broker = cluster.bootstrap_servers
        fill(broker, "t", 5, 2)
        query = Query(broker, subscribe="t", startingOffsets="earliest")
        assert query.batch() == {0: [0, 1, 2, 3, 4], 1: [0, 1, 2, 3, 4]}

        cluster.faults.kill(cluster.leader("t"))
        fill(broker, "t", 2, 2)

        assert query.batch() == {0: [5, 6], 1: [5, 6]}


def test_what_passes_is_asked_for_again() -> None:
    """Leaders move, coordinators load and connections break without failing the query."""
    with ottla.Cluster() as cluster:
        cluster.create_topic("t")
        broker = cluster.bootstrap_servers
        fill(broker, "t", 5)
        query = Query(broker, subscribe="t", startingOffsets="earliest")
        for api, error in (
            ("ListOffsets", "NOT_LEADER_OR_FOLLOWER"),
            ("Fetch", "NOT_LEADER_OR_FOLLOWER"),
            ("OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS"),
        ):
            cluster.faults.fail_request(api, error, count=2)
        assert query.batch() == {0: [0, 1, 2, 3, 4]}

        fill(broker, "t", 2)
        for api in ("ListOffsets", "Fetch", "Metadata", "OffsetCommit"):
            cluster.faults.lose_reply(api)
        assert query.batch() == {0: [5, 6]}


ROUNDS = 6
RECORDS = 500


@pytest.mark.soak
@pytest.mark.timeout(1_800)
def test_a_query_of_spark_goes_on_while_brokers_die(spark: SparkSession, tmp_path: Path) -> None:
    """Brokers die in turn while the query reads; it gets every record once and in order."""
    seen: dict[int, list[tuple[int, int]]] = {}

    def keep(batch: DataFrame, number: int) -> None:
        rows = batch.select("partition", "offset").collect()
        seen[number] = [(row[0], row[1]) for row in rows]

    with ottla.Cluster(brokers=3, subprocess=True) as cluster:
        cluster.create_topic("t", partitions=3)
        broker = cluster.bootstrap_servers
        options = given(broker, {"subscribe": "t", "startingOffsets": "earliest"})
        stream = spark.readStream.format("ottla").options(**options).load()
        writer = stream.writeStream.foreachBatch(keep)
        query = writer.option("checkpointLocation", str(tmp_path)).start()
        try:
            for number in range(ROUNDS):
                victim = 1 + number % 3
                fill(broker, "t", RECORDS, 3)
                cluster.faults.kill(victim)
                fill(broker, "t", RECORDS, 3)
                query.processAllAvailable()
                cluster.faults.restart(victim)
                assert query.isActive
        finally:
            query.stop()

    read: dict[int, list[int]] = {}
    for number in sorted(seen):
        for partition, offset in seen[number]:
            read.setdefault(partition, []).append(offset)
    everything = list(range(2 * ROUNDS * RECORDS))
    assert read == {0: everything, 1: everything, 2: everything}
