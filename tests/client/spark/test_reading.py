"""Topics in a real Spark: what only it can show."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from ottla.client.spark.jobs.running import sentence_of
from ottla.client.sync.producer import Producer
from tests.client.spark.support.topics import fill, frame, given

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    Handle = Callable[[DataFrame, int], None]
    NewTopicName = Callable[..., str]


# The usual is a few seconds, most of which Spark takes to start its processes.
pytestmark = pytest.mark.timeout(1_800)
END_S = 600
SLOW_START = "Python worker failed to connect back"


def test_rows_are_the_records(spark: SparkSession, broker: str, new_topic: NewTopicName) -> None:
    """All columns of Spark's own connector, with what it has in them."""
    topic = new_topic(2)
    with Producer(broker) as producer:
        headers = (("a", b"1"), ("b", None))
        producer.send(topic, b"v", b"k", partition=1, timestamp=1_500, headers=headers)
        producer.send(topic, None, None, partition=1, timestamp=1_600)
        producer.flush()

    found = frame(spark, broker, subscribe=topic, includeHeaders=True)
    rows = found.orderBy("offset").collect()

    assert [tuple(row)[:5] for row in rows] == [
        (b"k", b"v", topic, 1, 0),
        (None, None, topic, 1, 1),
    ]
    assert [row.timestamp.timestamp() for row in rows] == [1.5, 1.6]
    assert [row.timestampType for row in rows] == [0, 0]
    assert [row.headers for row in rows] == [[("a", b"1"), ("b", None)], None]


@pytest.mark.requirement("OPS-07")
def test_each_partition_is_a_task(
    spark: SparkSession, broker: str, new_topic: NewTopicName
) -> None:
    """Parallelism is the topic's own, and more where it is asked for; nothing is read twice."""
    topic = new_topic(4)
    fill(broker, topic, 100, 4)
    spark.sql(
        f"create or replace temporary view v using ottla options "
        f"(`kafka.bootstrap.servers` '{broker}', subscribe '{topic}')"
    )

    assert frame(spark, broker, subscribe=topic).rdd.getNumPartitions() == 4
    assert frame(spark, broker, subscribe=topic, minPartitions=6).rdd.getNumPartitions() == 6
    sums = spark.sql(
        "select partition, count(distinct offset), count(*), sum(cast(string(value) as int)) "
        "from v where offset >= 10 group by partition order by partition"
    )
    assert [tuple(row) for row in sums.collect()] == [(n, 90, 90, 4905) for n in range(4)]
    assert len(frame(spark, broker, subscribe=topic).limit(3).collect()) == 3


@pytest.mark.parametrize("trigger", [{"availableNow": True}, {"processingTime": "1 second"}])
def test_what_is_wrong_about_a_stream_is_told_with_its_option(
    spark: SparkSession, broker: str, topic: str, tmp_path: Path, trigger: dict[str, Any]
) -> None:
    """The sentence is on the last line of the error, where users look first."""
    options = given(broker, {"subscribe": topic, "endingOffsets": "latest"})
    stream = spark.readStream.format("ottla").options(**options).load()
    writer = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path))

    with pytest.raises(PySparkException) as caught:
        writer.trigger(**trigger).start().awaitTermination()
    assert sentence_of(caught.value) == (
        "the option endingOffsets is for batch queries: a stream has no end"
    )


def started(
    spark: SparkSession, checkpoint: Path, handle: Handle, options: dict[str, str]
) -> StreamingQuery:
    """A query that ends when it has read what there is."""
    stream = spark.readStream.format("ottla").options(**options).load()
    writer = stream.writeStream.foreachBatch(handle).option("checkpointLocation", str(checkpoint))
    return writer.trigger(availableNow=True).start()


def run(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """Start the query and wait for its end. Raises its error.

    Spark gives its own processes ten seconds to start, which a busy machine may not.
    """
    for tries_left in (2, 1, 0):
        query = start()
        try:
            assert query.awaitTermination(END_S), "the query does not end"
            break
        except PySparkException as error:
            if tries_left == 0 or SLOW_START not in str(error):
                raise
        finally:
            query.stop()
    return query


@pytest.mark.requirement("OPS-07", "CON-24")
def test_a_query_that_fails_and_begins_again_reads_the_same_again(
    spark: SparkSession, broker: str, new_topic: NewTopicName, tmp_path: Path
) -> None:
    """Its checkpoint says where. Otherwise no output could be free of repetitions."""
    topic = new_topic(2)
    fill(broker, topic, 30, 2)
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "20"}
    seen: dict[int, list[list[tuple[int, int]]]] = {}

    def keep(batch: DataFrame, number: int) -> None:
        rows = batch.select("partition", "offset").collect()
        seen.setdefault(number, []).append(sorted((row[0], row[1]) for row in rows))
        if len(seen) == 2 and len(seen[number]) == 1:
            raise RuntimeError("the sink is full")

    def start() -> StreamingQuery:
        return started(spark, tmp_path, keep, given(broker, options))

    with pytest.raises(PySparkException, match="the sink is full"):
        run(start)
    fill(broker, topic, 10, 2)
    again = run(start)

    assert [len(rows) for rows in seen.values()] == [1, 2, 1, 1]
    assert seen[1][0] == seen[1][1]
    done = [row for rows in seen.values() for row in rows[-1]]
    assert all(len(rows[-1]) == 20 for rows in seen.values())
    assert sorted(done) == [(part, offset) for part in (0, 1) for offset in range(40)]
    ends = again.recentProgress[-1]["sources"][0]["latestOffset"]
    assert json.loads(ends) == {topic: {"0": 40, "1": 40}}


def test_what_users_get_wrong_is_in_what_spark_tells_them(
    spark: SparkSession, broker: str, topic: str, tmp_path: Path
) -> None:
    """Spark wraps the message, which has to be in it."""

    def told(action: Callable[[], object]) -> str:
        with pytest.raises(PySparkException) as caught:
            action()
        return str(caught.value)

    assert "no option 'subscrib'; did you mean 'subscribe'?" in told(
        lambda: frame(spark, broker, subscrib=topic).count()
    )
    assert "the option subscribe names topic 'nowhere', which does not exist" in told(
        lambda: frame(spark, broker, subscribe="nowhere").count()
    )
    assert "the data source ottla has the columns key binary" in told(
        lambda: (
            spark.read.schema("key string")
            .format("ottla")
            .options(**given(broker, {"subscribe": topic}))
            .load()
            .count()
        )
    )
    bad = given(broker, {"subscribe": topic, "startingOffsets": "first"})
    assert "startingOffsets is one of 'earliest', 'latest', not 'first'" in told(
        lambda: run(lambda: started(spark, tmp_path, lambda batch, number: None, bad))
    )
