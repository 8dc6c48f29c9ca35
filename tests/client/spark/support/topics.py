"""Records for the tests of Spark."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from ottla.client.administration.topic_requests import NewTopic
from ottla.client.spark.reader import BatchReader
from ottla.client.spark.stream_reader import StreamReader
from ottla.client.sync.admin import Admin
from ottla.client.sync.producer import Producer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from ottla.client.spark.pyspark_api import InputPartition

AnyReader = BatchReader | StreamReader


def maker_of_topics(broker: str) -> Callable[..., str]:
    """Makes a topic and gives its name: ``make(partitions=2)``."""
    numbers = count(1)

    def make(partitions: int = 1, **configs: str) -> str:
        name = f"spark-{next(numbers):03}"
        # Times of long ago stay, although no retention would keep them.
        kept = {"retention.ms": "-1", **configs}
        with Admin(broker) as admin:
            admin.create_topic(NewTopic(name, partitions, 1, kept))
            await_topic(admin, name)
        return name

    return make


def await_topic(admin: Admin, name: str, *, is_there: bool = True) -> None:
    """Apache Kafka answers before its broker knows."""
    while (name in {view.name for view in admin.list_topics()}) is not is_there:
        pass


def remade(broker: str, topic: str) -> None:
    """The topic deleted, and made again under its name."""
    with Admin(broker) as admin:
        admin.delete_topics([topic])
        await_topic(admin, topic, is_there=False)
        admin.create_topic(NewTopic(topic, 1))
        await_topic(admin, topic)


def fill(broker: str, topic: str, count: int, partitions: int = 1, first: int = 0) -> None:
    """Write so many records to each partition; the values are numbers from ``first`` on."""
    with Producer(broker) as producer:
        for partition in range(partitions):
            values = [b"%d" % number for number in range(first, first + count)]
            producer.send_batch(topic, values, partition=partition).result()


def frame(spark: SparkSession, broker: str, **options: object) -> DataFrame:
    """A batch query."""
    return spark.read.format("ottla").options(**given(broker, options)).load()


def given(broker: str, options: Mapping[str, object]) -> dict[str, str]:
    """Options as Spark passes them; underscores replace the dots of ``kafka_...``."""
    texts = {
        name.replace("_", ".") if name.startswith("kafka_") else name: str(value)
        for name, value in options.items()
    }
    return {"kafka.bootstrap.servers": broker, **texts}


def offsets_in(reader: AnyReader, tasks: Iterable[InputPartition]) -> dict[int, list[int]]:
    """Offsets that the tasks read, by partition, without Spark."""
    found: dict[int, list[int]] = {}
    for task in tasks:
        for batch in reader.read(task):
            columns = batch.to_pydict()
            for partition, offset in zip(columns["partition"], columns["offset"], strict=True):
                found.setdefault(partition, []).append(offset)
    return found
