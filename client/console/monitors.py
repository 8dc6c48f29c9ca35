"""Reads the pages about lag over time, throughput, mirrors, Spark queries and the audit log."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.client.console.alive import ALL_TOPICS, ends_of_leaders, partitions_of
from ottla.client.console.browsing import Budget, Scan, limits_of, scan
from ottla.client.console.reading import GROUPS_AT_ONCE, end_offsets, read_group
from ottla.client.console.views.failures import Refused
from ottla.client.console.views.filters import EVERY_RECORD
from ottla.client.console.views.group_views import lag_of
from ottla.client.console.views.paging import cut, selected
from ottla.client.console.views.pipeline_views import (
    AUDIT_TOPIC,
    NOTES_TOPIC,
    audit_rows,
    kind_of,
    note_rows,
)
from ottla.client.console.views.series import LagHistory
from ottla.client.console.views.throughput import FlowRate, LogMoment, ThroughputHistory
from ottla.client.console.views.windows import backward, newest_first
from ottla.protocol.ids import TopicPartition
from ottla.wire.errors import ClientError, RequestRefused

if TYPE_CHECKING:
    from collections.abc import Collection

    from ottla.client.console.connections import ConsoleConnection
    from ottla.client.console.record_runs import SeenRecord
    from ottla.client.console.views.asked import Document, Question

AUDIT_READ_MAX = 20_000
AUDIT_SHOWN_MAX = 500
NOTES_READ_MAX = 5_000
# Above this number of groups, only groups named like a Spark query are read.
DESCRIBED_MAX = 300


async def read_group_over_time(connection: ConsoleConnection, question: Question) -> Document:
    """Return one group with the lag of the last hour; the first request starts the recording."""
    document = await read_group(connection, question)
    group_id = question.needed("id")

    async def read(_watched: Collection[TopicPartition]) -> dict[TopicPartition, int | None]:
        admin = await connection.admin()
        offsets = await admin.groups.offsets(group_id)
        ends = await end_offsets(admin, offsets)
        return {where: lag_of(one.offset, ends.get(where)) for where, one in offsets.items()}

    recording = await connection.recordings.of(f"lag of {group_id}", read, LagHistory)
    history = recording.history
    for row in document["partitions"]:
        where = TopicPartition(row["topic"], row["partition"])
        row["lag_over_time"] = history.of(where)
    return {**document, "lag_over_time": history.total.points()}


async def read_throughput(connection: ConsoleConnection, question: Question) -> Document:
    """Return the write rates by broker and by topic, the busiest first."""
    page = question.page()

    async def read(_watched: Collection[TopicPartition]) -> LogMoment:
        return await log_moment_of(connection)

    recording = await connection.recordings.of("throughput", read, ThroughputHistory)
    if recording.history.at_ms is not None and not recording.history.topics:
        # A rate needs two moments.
        await connection.environment.clock.sleep(1_000.0)
        await recording.take()
    history = recording.history
    names = selected(sorted(history.topics), page.search, lambda name: name)
    names.sort(key=lambda name: (-history.topics[name].records, name))
    rows, facts = cut(names, page)
    total = FlowRate()
    for rate in history.topics.values():
        total = total.plus(rate)
    return {
        **facts,
        "at": history.at_ms,
        **_rounded(total),
        "brokers": [
            {"broker": one, **_rounded(rate), "records_over_time": history.points_of(one)}
            for one, rate in sorted(history.brokers.items())
        ],
        "topics": [
            {
                "topic": name,
                **_rounded(history.topics[name]),
                "records_over_time": history.points_of(name),
            }
            for name in rows
        ],
    }


def _rounded(rate: FlowRate) -> Document:
    return {
        "records_per_second": round(rate.records, 1),
        "bytes_per_second": round(rate.size_bytes),
    }


async def log_moment_of(connection: ConsoleConnection) -> LogMoment:
    """Read the ends and sizes of all partitions. Raises ClientError."""
    admin = await connection.admin()
    parts = await partitions_of(connection, ALL_TOPICS)
    leaders = {where: part.leader_id for where, part in parts.items() if part.leader_id >= 0}
    ends, log_dirs = await asyncio.gather(
        ends_of_leaders(connection, admin, leaders), admin.brokers.log_dirs()
    )
    sizes = {
        replica.partition: replica.size_bytes
        for broker, found in log_dirs.items()
        if isinstance(found, list)
        for directory in found
        for replica in directory.replicas
        if leaders.get(replica.partition) == broker and not replica.is_future
    }
    return LogMoment(ends, sizes, leaders)


async def read_pipelines(connection: ConsoleConnection, question: Question) -> Document:
    """Return mirrors and Spark queries that read this cluster, with their lag, and mirrors that
    write to it."""
    admin = await connection.admin()
    listed = await admin.groups.list_all()
    asked = [one for one in listed if kind_of(one.group_id, ())]
    if len(listed) <= DESCRIBED_MAX:
        asked = listed
    gate = asyncio.Semaphore(GROUPS_AT_ONCE)

    async def row_of(group_id: str) -> Document | None:
        async with gate:
            try:
                view = await admin.groups.describe(group_id)
                kind = kind_of(group_id, [member.client_id for member in view.members])
                if kind is None:
                    return None
                offsets = await admin.groups.offsets(group_id)
                ends = await end_offsets(admin, offsets)
            except ClientError:
                return None
        lags = [lag_of(one.offset, ends.get(where)) for where, one in offsets.items()]
        known = [lag for lag in lags if lag is not None]
        return {
            "kind": kind,
            "group": group_id,
            "state": view.state,
            "members": len(view.members),
            "topics": sorted({where.topic for where in offsets}),
            "partitions": len(offsets),
            "lag": sum(known) if known else None,
        }

    found = await asyncio.gather(*(row_of(one.group_id) for one in asked))
    notes = await newest_records(connection, NOTES_TOPIC, NOTES_READ_MAX)
    return {
        "readers": [row for row in found if row is not None],
        "groups_left_out": len(listed) - len(asked),
        "copied": note_rows(notes or []),
    }


async def read_audit(connection: ConsoleConnection, question: Question) -> Document:
    """Return the newest lines of the audit log, if it is written to a topic."""
    limit = question.number("limit", 100, 1, AUDIT_SHOWN_MAX)
    search = question.text("search")
    found = await newest_records(connection, AUDIT_TOPIC, AUDIT_READ_MAX)
    rows = [] if found is None else audit_rows(found, search)
    return {
        "has_topic": found is not None,
        "search": search,
        "limit": limit,
        "read": len(found or []),
        "entries": rows[:limit],
    }


async def newest_records(
    connection: ConsoleConnection, topic: str, records_max: int
) -> list[SeenRecord] | None:
    """Return the newest records of a topic, the latest first; None if the topic does not exist or
    the visitor may not see it."""
    admin = await connection.admin()
    if topic not in {view.name for view in await connection.topics()}:
        return None
    try:
        limits, _unread, _count = await limits_of(admin, topic, "")
    except (RequestRefused, Refused):
        return None
    windows = backward(limits, {}, records_max)
    found = Scan(EVERY_RECORD, Budget(records=records_max + len(limits)), 2**31)
    await scan(connection, topic, windows, found, committed=True)
    return [record for _partition, record in newest_first(found.matches, records_max)]
