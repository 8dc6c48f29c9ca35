"""Topics as data frames of Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.client.sync.producer import Producer
from tests.client.spark.topics import fill, frame

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession


def test_rows_are_the_records(
    spark: SparkSession, broker: str, new_topic: Callable[..., str]
) -> None:
    """All columns of Spark's own connector, with what it has in them."""
    topic = new_topic(2)
    with Producer(broker) as producer:
        producer.send(topic, b"v", b"k", partition=1, timestamp=1_500, headers=(("a", b"1"),))
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
    assert [row.headers for row in rows] == [[("a", b"1")], None]


@pytest.mark.requirement("OPS-07", "CON-23")
def test_each_partition_is_a_task(
    spark: SparkSession, broker: str, new_topic: Callable[..., str]
) -> None:
    """Parallelism is the topic's own, and more where it is asked for."""
    topic = new_topic(3)
    fill(broker, topic, 100, 3)

    plain = frame(spark, broker, subscribe=topic)
    parted = frame(spark, broker, subscribe=topic, minPartitions=7)

    assert plain.rdd.getNumPartitions() == 3
    assert parted.rdd.getNumPartitions() == 7
    assert plain.count() == parted.count() == 300
