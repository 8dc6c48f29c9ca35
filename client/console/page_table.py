"""The table of pages: path, content and parameters of each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ottla.client.console.alive import read_alive
from ottla.client.console.browsing import read_messages, read_record
from ottla.client.console.connections import ConsoleConnection
from ottla.client.console.monitors import (
    read_audit,
    read_group_over_time,
    read_pipelines,
    read_throughput,
)
from ottla.client.console.operations import read_moves, read_security, read_transactions
from ottla.client.console.reading import (
    read_broker,
    read_cluster,
    read_groups,
    read_topic,
    read_topics,
)
from ottla.client.console.views.asked import Document, Parameter, Question
from ottla.protocol.named_tuples import NamedTuple

Read = Callable[[ConsoleConnection, Question], Awaitable[Document]]


class PageSpec(NamedTuple):
    """One page; with ``/api`` before its path it returns JSON. ``is_strict``: it refuses unknown
    parameters."""

    path: str
    template: str
    read: Read
    summary: str
    parameters: tuple[Parameter, ...] = ()
    is_strict: bool = False


LIST = (
    Parameter("search", "string", "words that the name must contain, in any case"),
    Parameter("page", "integer", "the number of the page, from 1 (default)"),
    Parameter("rows", "integer", "how many rows a page has: 50 by default, at most 500"),
)
SELECTION = (
    Parameter("partition", "integer", "only records of this partition; all by default"),
    Parameter("key", "string", "only records whose key contains this text"),
    Parameter("value", "string", "only records whose value contains this text"),
    Parameter("header", "string", "only records with this header: name, or name=value"),
    Parameter(
        "filter",
        "string",
        "only records for which this holds: an expression of ottla consume --filter without =~ "
        "and !~, such as value.user.id == 42 and key startswith 'eu'",
    ),
    Parameter("committed", "boolean", "whether to omit records of open transactions"),
)
PLACE = (
    Parameter("from", "string", "where to begin: newest (default), oldest, offset or time"),
    Parameter("offset", "integer", "with from=offset: the offset in each partition"),
    Parameter("time", "string", "with from=time: milliseconds since 1970, ISO 8601, or 1h ago"),
    Parameter("at", "string", "continue here: the value of 'newer' on the previous page"),
    Parameter("before", "string", "end before here: the value of 'older' on the previous page"),
    Parameter("limit", "integer", "how many records: 50 by default, at most 500"),
)
FORMAT = Parameter("format", "string", "auto (default), text, json or hex")
ALIVE = (
    Parameter("back", "integer", "how many seconds ago; 0 (default) is now"),
    Parameter("search", "string", "words that TOPIC-PARTITION must contain, in any case"),
    Parameter("order", "string", "worst (default): partitions with problems first; or name"),
    Parameter("troubled", "boolean", "whether to omit partitions without problems"),
    Parameter("page", "integer", "the number of the page, from 1 (default)"),
    Parameter("rows", "integer", "how many partitions a page has: 12 by default, at most 100"),
)
RECORD_PARAMETERS = (*PLACE, *SELECTION, FORMAT)
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
    PageSpec(
        "/topics/{topic}/messages",
        "messages.html",
        read_messages,
        "Records of a topic: the newest, or those from an offset or a time on",
        RECORD_PARAMETERS,
        # A misspelt filter would show all records.
        is_strict=True,
    ),
    PageSpec(
        "/topics/{topic}/record",
        "record.html",
        read_record,
        "One record with more of its key and value than a list shows",
        (
            Parameter("partition", "integer", "the partition; 0 by default"),
            Parameter("offset", "integer", "the offset"),
            FORMAT,
        ),
    ),
    PageSpec(
        "/topics/{topic}/alive",
        "alive.html",
        read_alive,
        "A topic as it is, or was within the last hour: leaders, followers, and what changed",
        ALIVE,
    ),
    PageSpec(
        "/alive",
        "alive.html",
        read_alive,
        "All partitions as they are, or were within the last hour, problems first",
        ALIVE,
    ),
    PageSpec("/groups", "groups.html", read_groups, "One page of the groups with lags", LIST),
    PageSpec(
        "/group",
        "group.html",
        read_group_over_time,
        "One group: its members, and the position and lag of each partition, with the last hour",
        (Parameter("id", "string", "the name of the group"),),
    ),
    PageSpec(
        "/transactions",
        "transactions.html",
        read_transactions,
        "The transactions that hold back the last stable offset, and all transactional ids",
        LIST,
    ),
    PageSpec(
        "/throughput",
        "throughput.html",
        read_throughput,
        "Records and bytes that are written in a second, by broker and by topic",
        LIST,
    ),
    PageSpec(
        "/pipelines",
        "pipelines.html",
        read_pipelines,
        "Mirrors and Spark queries that read this cluster with their lag, and what mirrors write",
    ),
    PageSpec(
        "/audit",
        "audit.html",
        read_audit,
        "The newest lines of the audit log, if it goes to the topic __audit",
        (
            Parameter("search", "string", "words that a line must contain, in any case"),
            Parameter("limit", "integer", "how many lines: 100 by default, at most 500"),
        ),
    ),
    PageSpec(
        "/moves", "moves.html", read_moves, "The moves of replicas under way, with their progress"
    ),
    PageSpec("/security", "security.html", read_security, "Users, access rules and quotas"),
)
