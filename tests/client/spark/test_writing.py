"""Frames and streams written to topics by a real Spark."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

import pytest

from ottla.client.sync.admin import Admin
from ottla.client.sync.consumer import Consumer
from tests.client.spark.support.killing import in_topic, settle
from tests.client.spark.support.topics import fill

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from ottla.client.records.consumer_record import ConsumerRecord

    NewTopicName = Callable[..., str]

pytestmark = pytest.mark.slow


def write(frame: DataFrame, broker: str, mode: str = "append", **options: str) -> None:
    given = {"kafka.bootstrap.servers": broker, **options}
    frame.write.format("ottla").mode(mode).options(**given).save()


def records(broker: str, topic: str) -> list[ConsumerRecord[bytes, bytes]]:
    with Consumer(broker) as consumer:
        partitions = consumer.partitions_of(topic)
        ends = consumer.end_offsets(partitions)
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        found: list[ConsumerRecord[bytes, bytes]] = []
        while any((consumer.position(where) or 0) < end for where, end in ends.items()):
            found += consumer.poll(1_000)
    return found


def test_every_column_of_a_row_arrives(
    spark: SparkSession, broker: str, new_topic: NewTopicName
) -> None:
    """Text and bytes, keys and headers, topics and partitions that rows name themselves."""
    first, second = new_topic(partitions=2), new_topic(partitions=2)
    frame = spark.sql(
        f"""select '{first}' as topic, 1 as partition, 'k' as key, x'00ff' as value, 0.5 as other,
                   array(named_struct('key', 'h', 'value', x'01')) as headers
            union all
            select '{second}', 0, null, null, 0.5, null"""
    )
    write(frame, broker)

    (one,) = records(broker, first)
    assert (one.partition, one.key, one.value) == (1, b"k", b"\x00\xff")
    assert one.headers == (("h", b"\x01"),)
    (other,) = records(broker, second)
    assert (other.partition, other.key, other.value, other.headers) == (0, None, None, ())


def test_modes_that_a_topic_cannot_have_are_refused(
    spark: SparkSession, broker: str, topic: str
) -> None:
    """Kafka cannot overwrite, and Spark's default mode asks whether a table exists."""
    frame = spark.sql("select 'v' as value")

    with pytest.raises(Exception, match=r"mode\('overwrite'\) is not supported"):
        write(frame, broker, "overwrite", topic=topic)
    with pytest.raises(Exception, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
        write(frame, broker, "error", topic=topic)
    with pytest.raises(Exception, match="needs the column 'value'"):
        write(spark.sql("select 'v' as valeu"), broker, topic=topic)
    assert records(broker, topic) == []


def test_a_failed_job_leaves_nothing_behind_if_it_is_to_write_once(
    spark: SparkSession, broker: str, topic: str
) -> None:
    """All tasks are committed together, or none."""
    good = spark.range(100, numPartitions=2).selectExpr("cast(id as string) as value")
    bad = good.selectExpr("if(value = '99', raise_error('no'), value) as value")
    with pytest.raises(Exception, match="no"):
        write(bad, broker, topic=topic, exactlyOnce="true")
    settle(broker, topic, [0])
    assert in_topic(broker, topic) == {}

    write(good, broker, topic=topic, exactlyOnce="true")
    settle(broker, topic, [0])
    assert len(in_topic(broker, topic)[0]) == 100


class Copying:
    """A query from one topic to another, and its checkpoint."""

    def __init__(
        self, spark: SparkSession, broker: str, new_topic: NewTopicName, folder: Path
    ) -> None:
        self.source, self.target = new_topic(partitions=2), new_topic(partitions=2)
        self._spark, self._broker, self._folder = spark, broker, folder

    def run(self, value: str = "value", **options: str) -> StreamingQuery:
        """Copy what there is, and end."""
        servers = {"kafka.bootstrap.servers": self._broker}
        frame = (
            self._spark.readStream.format("ottla")
            .options(subscribe=self.source, startingOffsets="earliest", **servers, **options)
            .load()
            .selectExpr(f"{value} as value", "partition")
        )
        query = (
            frame.writeStream.format("ottla")
            .options(topic=self.target, checkpointLocation=str(self._folder), **servers)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return query

    def forget_the_last_batch(self) -> None:
        """Restore the state of a query that was killed before it noted that the batch is done."""
        commits = self._folder / "commits"
        last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
        (commits / str(last)).unlink()
        (commits / f".{last}.crc").unlink(missing_ok=True)


@pytest.fixture
def copying(spark: SparkSession, broker: str, new_topic: NewTopicName, tmp_path: Path) -> Copying:
    return Copying(spark, broker, new_topic, tmp_path)


def test_a_replayed_batch_is_written_once(broker: str, copying: Copying) -> None:
    """The one promise of the sink, with Spark's own replay; also with other tasks than before."""
    fill(broker, copying.source, 30, partitions=2)
    copying.run()
    copying.forget_the_last_batch()
    copying.run()
    copying.forget_the_last_batch()
    copying.run(minPartitions="4")
    fill(broker, copying.source, 5, partitions=2, first=30)
    copying.run()

    settle(broker, copying.target, range(2))
    expected = [b"%d" % number for number in range(35)]
    assert in_topic(broker, copying.target) == {0: expected, 1: expected}


def test_a_first_batch_that_is_repeated_when_its_ledger_has_expired_is_refused(
    broker: str, copying: Copying, tmp_path: Path
) -> None:
    """Only the checkpoint, which Spark passes to the sink, shows how old the batch is."""
    fill(broker, copying.source, 3)
    copying.run()
    copying.forget_the_last_batch()
    with Admin(broker) as admin:
        query_id = json.loads((tmp_path / "metadata").read_text("utf-8"))["id"]
        admin.groups.delete(f"ottla-spark-{query_id}-0")
    long_ago_s = time.time() - 8 * 86_400
    os.utime(tmp_path / "offsets" / "0", (long_ago_s, long_ago_s))

    with pytest.raises(Exception, match="first begun longer ago than the brokers keep"):
        copying.run()
    settle(broker, copying.target, range(2))
    assert len(in_topic(broker, copying.target)[0]) == 3


def test_an_aggregation_is_written_as_a_whole_and_not_as_updates(
    spark: SparkSession, broker: str, new_topic: NewTopicName, tmp_path: Path
) -> None:
    """Spark refuses a Python sink for a mode that could have updates, with an error that says
    so."""
    source, target = new_topic(), new_topic()
    fill(broker, source, 3)
    given = {"kafka.bootstrap.servers": broker, "startingOffsets": "earliest"}
    rows = spark.readStream.format("ottla").options(**given, subscribe=source).load()
    counts = rows.groupBy("partition").count().selectExpr("cast(count as string) as value")

    def run(mode: str) -> None:
        writer = counts.writeStream.format("ottla").options(**given, topic=target).outputMode(mode)
        writer = writer.option("checkpointLocation", str(tmp_path / mode))
        writer.trigger(availableNow=True).start().awaitTermination()

    run("complete")
    with pytest.raises(Exception, match="does not support Update mode"):
        run("update")
    settle(broker, target, range(1))
    assert in_topic(broker, target) == {0: [b"3"]}


def test_a_query_that_gives_other_rows_is_refused(broker: str, copying: Copying) -> None:
    """Spark would not notice, and readers would find neither the old nor the new rows whole."""
    fill(broker, copying.source, 3)
    copying.run(value="cast(uuid() as binary)")
    settle(broker, copying.target, range(2))
    before = in_topic(broker, copying.target)
    copying.forget_the_last_batch()

    with pytest.raises(Exception, match="nondeterministic"):
        copying.run(value="cast('other' as binary)")
    settle(broker, copying.target, range(2))
    assert in_topic(broker, copying.target) == before
