"""Copies topics of one cluster to another, once and in parallel; a mirror copies continuously.

Keys, values, headers and partition numbers are kept; timestamps are those of the copy, and a task
that is retried writes its records again.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from ottla.client.administration.topic_requests import NewTopic
from ottla.client.cli.connection import with_given
from ottla.client.settings.config import ClientConfig
from ottla.client.spark.jobs.errors import JobRefused
from ottla.client.spark.jobs.running import Job, run_as
from ottla.client.spark.jobs.session import (
    FORMAT,
    check_options,
    read,
    read_options,
    write_options,
)
from ottla.client.sync.admin import Admin

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

MARK = "{topic}"


def new_names(topics: list[str], pattern: str) -> dict[str, str]:
    """The name of each topic on the target. Raises JobRefused."""
    names = {topic: pattern.replace(MARK, topic) for topic in topics}
    if MARK not in pattern:
        raise JobRefused(f"--rename is made of {MARK}, not {pattern!r}")
    return names


def make_topics(source: str, target: str, names: Mapping[str, str]) -> None:
    """Create the topics on the target with the source's partition counts. Raises JobRefused."""
    with Admin(source, with_given(ClientConfig())) as admin:
        source_id = admin.describe_cluster().cluster_id
        counts = {
            there: admin.describe_topic(topic).partition_count for topic, there in names.items()
        }
    with Admin(target, with_given(ClientConfig())) as admin:
        # A topic copied into itself would double with each run.
        if admin.describe_cluster().cluster_id == source_id and any(
            topic == there for topic, there in names.items()
        ):
            raise JobRefused(
                f"{source} and {target} are one cluster, and a topic cannot be copied onto itself; "
                "--rename gives it another name"
            )
        known = {view.name: view.partition_count for view in admin.list_topics()}
        for topic, count in counts.items():
            if topic not in known:
                admin.create_topic(NewTopic(topic, count))
            elif known[topic] < count:
                raise JobRefused(
                    f"topic {topic!r} has {known[topic]} partitions on the target, {count} here"
                )


def prepare(arguments: argparse.Namespace) -> None:
    """Create the topics on the target. Raises JobRefused, ClientError."""
    check_options(arguments, is_stream=False)
    names = new_names(arguments.topics, arguments.rename)
    make_topics(arguments.bootstrap, arguments.to_cluster, names)


def perform(spark: SparkSession, arguments: argparse.Namespace) -> str:
    """Copy all present records. Raises JobRefused."""
    names = new_names(arguments.topics, arguments.rename)
    options = read_options(arguments.bootstrap, arguments.options)
    rows = read(spark, {"subscribe": ",".join(names), "includeHeaders": "true", **options})
    there = f.create_map(*(f.lit(word) for pair in names.items() for word in pair))
    (
        rows.select("key", "value", "headers", "partition", there[f.col("topic")].alias("topic"))
        .write.format(FORMAT)
        .options(**write_options(arguments.to_cluster))
        .mode("append")
        .save()
    )
    if arguments.format == "json":
        return json.dumps(names) + "\n"
    return "".join(f"{topic} -> {name}\n" for topic, name in names.items())


JOB = Job(prepare, perform)


def main() -> int:
    """Run as a module, or with spark-submit."""
    return run_as(JOB, ["copy", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
