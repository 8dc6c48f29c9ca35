"""Jobs that write topics: copies, transformations and counts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from ottla.client.administration.topic_requests import NewTopic
from ottla.client.cli.parsers.spark import parser
from ottla.client.spark.jobs import aggregate, bulk_copy, transform
from ottla.client.spark.jobs.errors import JobRefused
from ottla.client.spark.jobs.session import read_options
from ottla.client.sync.admin import Admin
from ottla.client.sync.producer import Producer
from tests.client.spark.jobs.pipelines import KEPT, committed, patiently, send
from tests.client.spark.support.topics import fill
from tests.support.memory_broker import memory_broker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

# The usual is a few seconds, most of which Spark takes to start its processes.
pytestmark = pytest.mark.timeout(1_800)


def test_topics_are_copied_to_another_cluster(
    spark: SparkSession, broker: str, new_topic: Callable[..., str]
) -> None:
    """Partition by partition, under new names."""
    topic = new_topic(2)
    fill(broker, topic, 20, 2)
    with Producer(broker) as producer:
        producer.send(topic, None, b"k", partition=1, headers=(("h", b"1"),))
    with memory_broker() as other:
        words = ("-b", broker, "--topics", topic, "--to-cluster", other, "--rename", "from.{topic}")
        arguments = parser().parse_args(["copy", *words])
        bulk_copy.JOB.prepare(arguments)
        told = bulk_copy.JOB.perform(spark, arguments)
        copies = committed(other, f"from.{topic}")

    assert told == f"{topic} -> from.{topic}\n"
    for partition in range(2):
        values = [one.value for one in copies if one.partition == partition]
        assert values[:20] == [b"%d" % number for number in range(20)]
    assert (copies[-1].key, copies[-1].value, copies[-1].headers) == (b"k", None, (("h", b"1"),))


def test_a_copy_does_not_squeeze_partitions_together(
    broker: str, new_topic: Callable[..., str]
) -> None:
    """Order by key would be lost silently."""
    topic = new_topic(3)
    with memory_broker() as other:
        with Admin(other) as admin:
            admin.create_topic(NewTopic(topic, 1))
        words = ("-b", broker, "--topics", topic, "--to-cluster", other)
        with pytest.raises(JobRefused, match="has 1 partitions on the target, 3 here"):
            bulk_copy.JOB.prepare(parser().parse_args(["copy", *words]))


def test_a_transformation_goes_on_and_repeats_nothing(
    spark: SparkSession, broker: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """Run every minute with --once it is the same as one that never ends."""
    topic, large = new_topic(2), new_topic()
    words = ["transform", "-b", broker, "--topics", topic, "--to", large, "--once"]
    words += [
        "--checkpoint",
        str(tmp_path / "cp"),
        "--where",
        "cast(cast(value as string) as int) >= 5",
    ]
    words += ["--value", "concat('n', cast(value as string))"]
    arguments = parser().parse_args(words)
    fill(broker, topic, 10, 2)
    patiently(transform.perform, spark, arguments)
    fill(broker, topic, 5, 2, first=10)
    patiently(transform.perform, spark, arguments)
    patiently(transform.perform, spark, arguments)

    values = sorted(one.value for one in committed(broker, large))

    assert values == sorted(b"n%d" % number for number in range(5, 15) for _ in range(2))


def test_what_was_aborted_is_neither_copied_nor_counted(
    spark: SparkSession, broker: str, new_topic: Callable[..., str]
) -> None:
    """In the copy it would be committed, for ever."""
    topic = new_topic(1)
    with Producer(broker, transactional_id=f"copied-{topic}") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"dropped")
        producer.flush()
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send(topic, b"kept")
        producer.commit_transaction()
    with memory_broker() as other:
        words = ("-b", broker, "--topics", topic, "--to-cluster", other)
        arguments = parser().parse_args(["copy", *words])
        bulk_copy.JOB.prepare(arguments)
        patiently(bulk_copy.JOB.perform, spark, arguments)
        assert [one.value for one in committed(other, topic)] == [b"kept"]

    assert read_options(broker, ())["kafka.isolation.level"] == "read_committed"
    chosen = read_options(broker, [("KAFKA.Isolation.level", "read_uncommitted")])
    assert chosen["kafka.isolation.level"] == "read_uncommitted"


def test_a_view_from_the_future_does_not_make_all_others_late(
    spark: SparkSession, broker: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """One wrong clock would move the watermark and stop the counting silently."""
    topic, told = new_topic(1, **KEPT), new_topic(1)
    view = {"member": "ann", "page": "/a"}
    send(broker, topic, [(1, {**view, "at": "2199-01-01T00:00:00Z"}), (2, view)])
    words = ["aggregate", "-b", broker, "--topics", topic, "--to", told, "--once"]
    words += ["--checkpoint", str(tmp_path / "cp")]
    arguments = parser().parse_args(words)
    patiently(aggregate.perform, spark, arguments)
    send(broker, topic, [(3, view), (1_000, {"member": "end", "page": "/"})])
    patiently(aggregate.perform, spark, arguments)

    (record,) = committed(broker, told)

    assert json.loads(record.value)["views"] == 3


def test_views_are_counted_by_member_and_window(
    spark: SparkSession, broker: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """All counts of a member are in one partition, in order."""
    topic, told = new_topic(2, **KEPT), new_topic(4)
    views = [(1, "ann", "/a"), (2, "ann", "/b"), (3, "bob", "/a"), (70, "ann", "/a")]
    events = [(minute, {"member": member, "page": page}) for minute, member, page in views]
    send(broker, topic, [*events, (5, "no view"), (1_000, {"member": "end", "page": "/"})])
    words = ["aggregate", "-b", broker, "--topics", topic, "--to", told, "--once"]
    words += ["--checkpoint", str(tmp_path / "cp"), "--window", "1 hour"]

    patiently(aggregate.perform, spark, parser().parse_args(words))

    records = committed(broker, told)
    found = [json.loads(one.value) for one in records]
    assert sorted(
        (one["member"], one["from"][11:16], one["views"], one["pages"]) for one in found
    ) == [
        ("ann", "00:00", 2, 2),
        ("ann", "01:00", 1, 1),
        ("bob", "00:00", 1, 1),
    ]
    assert len({one.partition for one in records if one.key == b"ann"}) == 1
