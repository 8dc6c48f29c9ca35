"""Queries and prepares the cluster before a job begins."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ottla.client.administration.topic_requests import NewTopic
from ottla.client.cli.connection import with_given
from ottla.client.settings.config import ClientConfig, Isolation
from ottla.client.spark.jobs.errors import JobRefused
from ottla.client.spark.jobs.session import check_options
from ottla.client.sync.admin import Admin
from ottla.protocol.ids import TopicPartition
from ottla.wire.errors import ClientError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping

    from ottla.client.cluster.metadata import TopicView

END_TIME = -1


def views_of(bootstrap: str, topics: Iterable[str]) -> dict[str, TopicView]:
    """Describe the topics. Raises RequestRefused for one that does not exist."""
    with Admin(bootstrap, with_given(ClientConfig())) as admin:
        return {topic: admin.describe_topic(topic) for topic in topics}


def partitions_of(views: Mapping[str, TopicView]) -> list[TopicPartition]:
    """All partitions of these topics."""
    return [
        TopicPartition(topic, number) for topic, view in views.items() for number in view.partitions
    ]


def prepare_stream(arguments: argparse.Namespace) -> None:
    """Check a streaming job's options, and create its target topic if missing.

    Raises JobRefused and ClientError."""
    check_options(arguments, is_stream=True)
    if arguments.to in arguments.topics:
        raise JobRefused(
            f"topic {arguments.to!r}: a topic cannot be written into itself, there would be no end"
        )
    if have_topic(arguments.bootstrap, arguments.to, arguments.topics):
        sys.stderr.write(f"ottla: created topic {arguments.to!r}\n")


def have_topic(bootstrap: str, name: str, like: Iterable[str]) -> bool:
    """Create the topic unless it exists, with as many partitions as the largest of the others.
    Returns whether it was created. Raises RequestRefused, also if one of the others does not
    exist."""
    with Admin(bootstrap, with_given(ClientConfig())) as admin:
        counts = [admin.describe_topic(topic).partition_count for topic in like]
        if any(view.name == name for view in admin.list_topics()):
            return False
        admin.create_topic(NewTopic(name, max(counts)))
    return True


def offsets_at_times(
    bootstrap: str,
    times: Mapping[TopicPartition, int],
    isolation: Isolation = Isolation.READ_COMMITTED,
) -> dict[TopicPartition, int]:
    """The first offset at that time (ms since 1970) or later; the end without one. Raises the first
    ClientError."""
    if not times:
        return {}
    with Admin(bootstrap, with_given(ClientConfig())) as admin:
        found = admin.list_offsets(times, isolation)
        late = [
            where
            for where, one in found.items()
            if not isinstance(one, ClientError) and one.offset < 0
        ]
        found = {**found, **admin.list_offsets(dict.fromkeys(late, END_TIME), isolation)}
    offsets = {}
    for where, answer in found.items():
        if isinstance(answer, ClientError):
            raise answer
        offsets[where] = answer.offset
    return offsets
