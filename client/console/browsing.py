"""Reads records for the record pages, within limits of records, bytes and time."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from ottla.client.console.record_runs import record_runs
from ottla.client.console.views.asked import BadRequest, whole_number
from ottla.client.console.views.failures import NOT_FOUND, Refused
from ottla.client.console.views.filters import EVERY_RECORD, read_filter
from ottla.client.console.views.formats import SHOWN_BYTES_MAX, checked_format
from ottla.client.console.views.record_views import record_row
from ottla.client.console.views.windows import (
    RecordWindow,
    backward,
    forward,
    has_newer,
    has_older,
    newest_first,
    older_places,
    places_text,
    read_places,
)
from ottla.client.fetching.offset_specs import spot_of
from ottla.client.fetching.positions import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from ottla.client.ranges import OffsetRange, read_ranges
from ottla.protocol.ids import TopicPartition
from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.clock import TimeLimit

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from ottla.client.admin import Admin
    from ottla.client.console.connections import ConsoleConnection
    from ottla.client.console.record_runs import SeenRecord
    from ottla.client.console.views.asked import Document, Question
    from ottla.client.console.views.filters import RecordFilter
    from ottla.client.console.views.windows import Placed, Places

RECORDS_SHOWN = 50
RECORDS_SHOWN_MAX = 500
RECORDS_READ_MAX = 20_000
BYTES_READ_MAX = 64 * 1024 * 1024
READ_MS_MAX = 8_000.0
PLACES = ("newest", "oldest", "offset", "time")


class Budget(NamedTuple):
    """Limits of one page: records, bytes of keys and values, and milliseconds."""

    records: int = RECORDS_READ_MAX
    size_bytes: int = BYTES_READ_MAX
    ms: float = READ_MS_MAX


class Scan:
    """One read of some windows: its matches and its progress. Owned by one request."""

    def __init__(self, wanted: RecordFilter, budget: Budget, matches_max: int) -> None:
        self.matches: list[Placed] = []
        self.positions: Places = {}
        self.read = 0
        self.size_bytes = 0
        self.stopped_by: str | None = None
        self._wanted = wanted
        self.budget = budget
        self._matches_max = matches_max

    def take(self, partition: int, records: Sequence[SeenRecord]) -> bool:
        """Examine records in order; False once a limit is reached."""
        for record in records:
            self.read += 1
            self.size_bytes += len(record.key or b"") + len(record.value or b"")
            self.positions[partition] = record.offset + 1
            if self._wanted.passes(record):
                self.matches.append((partition, record))
            if len(self.matches) >= self._matches_max:
                return False
            if self.read >= self.budget.records:
                self.stopped_by = "records"
            elif self.size_bytes >= self.budget.size_bytes:
                self.stopped_by = "bytes"
            if self.stopped_by is not None:
                return False
        return True


async def records_of(
    connection: ConsoleConnection,
    topic: str,
    windows: Sequence[RecordWindow],
    *,
    committed: bool,
    is_raw: bool = False,
) -> AsyncGenerator[tuple[int, list[SeenRecord]], None]:
    """Yield the records of windows, some of a partition at a time; ``is_raw`` leaves data of a
    schema registry as it is."""
    ranges = [
        OffsetRange(TopicPartition(topic, one.partition), one.start, one.stop)
        for one in windows
        if one.start < one.stop
    ]
    if not ranges:
        return
    decode = None if is_raw else connection.decode
    async with (
        connection.consumer(read_committed=committed) as consumer,
        aclosing(read_ranges(consumer, ranges)) as found,
    ):
        async for where, columns in found:
            async with aclosing(record_runs(where, columns, decode)) as runs:
                async for records in runs:
                    yield where.partition, records


async def scan(
    connection: ConsoleConnection,
    topic: str,
    windows: Sequence[RecordWindow],
    found: Scan,
    *,
    committed: bool,
    is_raw: bool = False,
) -> None:
    """Read windows until their end or a limit of the scan."""
    try:
        async with (
            TimeLimit(connection.environment.clock, found.budget.ms),
            aclosing(
                records_of(connection, topic, windows, committed=committed, is_raw=is_raw)
            ) as batches,
        ):
            async for partition, records in batches:
                if not found.take(partition, records):
                    return
    except TimeoutError:
        found.stopped_by = "time"
        return
    # All offsets have been passed, including markers and gaps at the end.
    found.positions |= {one.partition: one.stop for one in windows}


async def limits_of(
    admin: Admin, topic: str, partition: str
) -> tuple[dict[int, tuple[int, int]], list[int], int]:
    """Return the first and the end offset of one or all partitions, the unreadable ones, and the
    number of partitions. Raises BadRequest for a partition that does not exist."""
    view = await admin.describe_topic(topic)
    numbers = sorted(view.partitions)
    if partition:
        number = whole_number("partition", partition)
        if number not in view.partitions:
            raise BadRequest(f"topic {topic!r} has no partition {number}")
        numbers = [number]
    wanted = [TopicPartition(topic, number) for number in numbers]
    firsts = await admin.list_offsets(dict.fromkeys(wanted, EARLIEST_TIMESTAMP))
    lasts = await admin.list_offsets(dict.fromkeys(wanted, LATEST_TIMESTAMP))
    limits, unread = {}, []
    for where in wanted:
        first, last = firsts[where], lasts[where]
        if isinstance(first, Exception) or isinstance(last, Exception):
            unread.append(where.partition)
        else:
            limits[where.partition] = (first.offset, last.offset)
    return limits, unread, len(view.partitions)


async def starts_at_time(
    admin: Admin, topic: str, limits: dict[int, tuple[int, int]], text: str, wall_ms: int
) -> Places:
    """Return the first offset at or after a time in each partition; the end if there is none."""
    try:
        is_number = text.isascii() and text.isdigit()
        timestamp = whole_number("time", text) if is_number else None
        spot = spot_of(text, 0, wall_ms) if timestamp is None else None
    except ValueError as error:
        raise BadRequest(str(error)) from None
    if spot is not None:
        timestamp = spot.timestamp
    assert timestamp is not None
    wanted = {TopicPartition(topic, number): timestamp for number in limits}
    found = await admin.list_offsets(wanted)
    places = {}
    for where, at in found.items():
        if not isinstance(at, Exception):
            end = limits[where.partition][1]
            places[where.partition] = at.offset if at.offset >= 0 else end
    return places


async def read_messages(connection: ConsoleConnection, question: Question) -> Document:
    """Read one page of records: the newest, or those from an offset or a time on."""
    topic = question.path["topic"]
    wanted = read_filter(question)
    form = checked_format(question.text("format"))
    limit = question.number("limit", RECORDS_SHOWN, 1, RECORDS_SHOWN_MAX)
    place = question.text("from", "newest") or "newest"
    if place not in PLACES:
        raise BadRequest(f"from is one of {', '.join(PLACES)}")
    admin = await connection.admin()
    limits, unread, count = await limits_of(admin, topic, question.text("partition"))
    committed = question.flag("committed")
    document: Document = {
        "topic": topic,
        "partitions": count,
        "unread_partitions": unread,
        "query": dict(question.query),
        "format": form,
        "from": place,
        "older": None,
        "newer": None,
    }
    if place == "newest" and "at" not in question.query:
        sought = limit if wanted == EVERY_RECORD else RECORDS_READ_MAX
        windows = backward(limits, read_places("before", question.text("before")), sought)
        found = Scan(wanted, Budget(records=RECORDS_READ_MAX + len(limits)), 2**31)
        await scan(connection, topic, windows, found, committed=committed)
        rows = newest_first(found.matches, limit)
        older = older_places(windows, found.matches, rows)
        document["older"] = places_text(older) if has_older(limits, older) else None
    else:
        starts = read_places("at", question.text("at"))
        if not starts and place == "offset":
            starts = dict.fromkeys(limits, question.number("offset", 0))
        elif not starts and place == "time":
            wall_ms = connection.environment.clock.wall_ms()
            starts = await starts_at_time(admin, topic, limits, question.needed("time"), wall_ms)
        windows = forward(limits, starts)
        found = Scan(wanted, Budget(), limit)
        await scan(connection, topic, windows, found, committed=committed)
        rows = found.matches
        newer = {one.partition: one.start for one in windows} | found.positions
        document["newer"] = places_text(newer) if has_newer(limits, newer) else None
    return {
        **document,
        "read": found.read,
        "stopped_by": found.stopped_by,
        "records": [record_row(record, form) for _partition, record in rows],
    }


async def find_record(
    connection: ConsoleConnection, topic: str, partition: int, offset: int, *, is_raw: bool = False
) -> SeenRecord:
    """Return one whole record. Raises Refused if there is none at that offset."""
    admin = await connection.admin()
    limits, _unread, _count = await limits_of(admin, topic, str(partition))
    first, end = limits.get(partition, (0, 0))
    if first <= offset < end:
        found = Scan(EVERY_RECORD, Budget(), 1)
        windows = [RecordWindow(partition, offset, offset + 1)]
        await scan(connection, topic, windows, found, committed=False, is_raw=is_raw)
        for _partition, record in found.matches:
            return record
    raise Refused(
        NOT_FOUND, f"topic {topic!r} has no record at offset {offset} of partition {partition}"
    )


async def read_record(connection: ConsoleConnection, question: Question) -> Document:
    """Return one record with more of its key and value than a list contains."""
    topic = question.path["topic"]
    partition = question.number("partition", 0)
    form = checked_format(question.text("format"))
    record = await find_record(connection, topic, partition, question.number("offset", 0))
    row = record_row(record, form, SHOWN_BYTES_MAX)
    return {"topic": topic, "format": form, **row}
