"""The pages: where each is, what it shows, and which parameters it understands."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ottla.client.console.asked import Document, Parameter, Question
from ottla.client.console.connections import ConsoleConnection
from ottla.client.console.reading import (
    read_broker,
    read_cluster,
    read_group,
    read_groups,
    read_topic,
    read_topics,
)
from ottla.protocol.named_tuples import NamedTuple

Read = Callable[[ConsoleConnection, Question], Awaitable[Document]]


class PageSpec(NamedTuple):
    """One page; ``/api`` before its path is the same as JSON."""

    path: str
    template: str
    read: Read
    summary: str
    parameters: tuple[Parameter, ...] = ()


LIST = (
    Parameter("search", "string", "words that the name must contain, in any case"),
    Parameter("page", "integer", "the number of the page, from 1 (default)"),
    Parameter("rows", "integer", "how many rows a page has: 50 by default, at most 500"),
)
PAGES = (
    PageSpec(
        "/cluster",
        "cluster.html",
        read_cluster,
        "The brokers, the controller and the partitions that lack a leader or replicas",
    ),
    PageSpec(
        "/brokers/{broker:int}",
        "broker.html",
        read_broker,
        "One broker: its log directories and settings",
    ),
    PageSpec(
        "/topics",
        "topics.html",
        read_topics,
        "One page of the topics",
        (*LIST, Parameter("internal", "boolean", "whether to list internal topics, too")),
    ),
    PageSpec(
        "/topics/{topic}",
        "topic.html",
        read_topic,
        "One topic: partitions with ISR, epochs, offsets and sizes, and settings",
    ),
    PageSpec("/groups", "groups.html", read_groups, "One page of the groups with lags", LIST),
    PageSpec(
        "/group",
        "group.html",
        read_group,
        "One group: its members, and the position and lag of each partition",
        (Parameter("id", "string", "the name of the group"),),
    ),
)
