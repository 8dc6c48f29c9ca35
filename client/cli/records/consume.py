"""``ottla consume TOPIC``: writes records to standard output.

Without a group the places are looked up once and every partition is read from there;
``consume_group`` reads as a member of a group.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ottla.client.admin import Admin
from ottla.client.cli.output import check_reader, write_bytes
from ottla.client.cli.position_specs import END, PositionKind, PositionSpec
from ottla.client.cli.progress import WaitingNote
from ottla.client.cli.records.consume_group import read_as_member
from ottla.client.cli.records.decoding import decoder_of
from ottla.client.cli.records.records import filter_of, formatter, writes_values_only
from ottla.client.cli.records.schemas import registry_of
from ottla.client.cli.run import CommandError, UsageError, run
from ottla.client.cli.settings import command_config, consumer_config
from ottla.client.cli.start_offset import at_time, resolve
from ottla.client.consumer import Consumer
from ottla.protocol.ids import TopicPartition
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from ottla.client.fetching.batches import ConsumerRecord, FetchedBatch

    Record = ConsumerRecord[bytes, bytes]

RECORDS_PER_WRITE_MAX = 5_000
POLL_MS = 1_000.0


def main(arguments: argparse.Namespace) -> int:
    """Run the command."""
    return run(perform, arguments, is_busy=True)


class OffsetSpan(NamedTuple):
    """Where to begin and to stop; None for the default beginning, and for no end."""

    start: PositionSpec | None
    stop: PositionSpec | None


def span_of(places: Sequence[PositionSpec]) -> OffsetSpan:
    """Combine several ``-o``. Raises UsageError if they contradict each other."""
    starts = [place for place in places if not place.is_stop]
    stops = [place for place in places if place.is_stop]
    if len(starts) > 1 or len(stops) > 1:
        raise UsageError("give at most one start and one stop: -o s@TIME -o e@TIME")
    return OffsetSpan(starts[0] if starts else None, stops[0] if stops else None)


async def perform(arguments: argparse.Namespace) -> int:
    """Write records until done or interrupted."""
    span = span_of(arguments.places)
    is_stored = span.start is not None and span.start.kind is PositionKind.STORED
    if is_stored and arguments.group is None:
        raise UsageError("-o stored means the committed offsets of a group: name it with -g GROUP")
    render = formatter(arguments)
    filter_of(arguments)
    registry_of(arguments)
    if arguments.group is not None and arguments.partition is None:
        return await read_as_member(arguments, span.start, span.stop, render)
    topics = await matching(arguments.bootstrap, arguments.topics)
    config = consumer_config(read_committed=arguments.read_committed)
    async with Consumer(arguments.bootstrap, config) as consumer:
        partitions = await partitions_of(consumer, topics, arguments.partition)
        starts, ends = await find_range(consumer, partitions, span, arguments)
        consumer.assign(partitions)
        for partition, offset in starts.items():
            consumer.seek(partition, offset)
        copy = RecordPrinter(consumer, render, arguments, ends)
        if arguments.count is None and writes_values_only(arguments):
            await copy.values(arguments.delimiter)
        else:
            await copy.records()
    return 0


async def matching(bootstrap: str, wanted: Sequence[str]) -> list[str]:
    """The named topics, and all that match a name with ``^``."""
    patterns = [name for name in wanted if name.startswith("^")]
    if not patterns:
        return list(dict.fromkeys(wanted))
    async with Admin(bootstrap, command_config()) as admin:
        known = [view.name for view in await admin.list_topics() if not view.is_internal]
    found = [name for name in wanted if not name.startswith("^")]
    for pattern in patterns:
        found += [name for name in known if re.match(pattern, name)]
    if not found:
        raise CommandError(f"no topic matches {' or '.join(patterns)}")
    return list(dict.fromkeys(found))


async def partitions_of(
    consumer: Consumer, topics: Sequence[str], wanted: Sequence[int] | None
) -> list[TopicPartition]:
    """All partitions of the topics, or those with the wanted numbers. Raises CommandError."""
    found: list[TopicPartition] = []
    for topic in topics:
        known = await consumer.partitions_of(topic)
        for number in wanted or ():
            if TopicPartition(topic, number) not in known:
                raise CommandError(
                    f"topic {topic!r} has no partition {number}; it has {len(known)}, counted "
                    "from 0"
                )
        found += [where for where in known if wanted is None or where.partition in wanted]
    return found


async def find_range(
    consumer: Consumer,
    partitions: list[TopicPartition],
    span: OffsetSpan,
    arguments: argparse.Namespace,
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int] | None]:
    """Where to begin in each partition, and where to stop; None for no end."""
    start = span.start or END
    stored: dict[TopicPartition, int] = {}
    if arguments.group is not None and (span.start is None or start.kind is PositionKind.STORED):
        async with Admin(arguments.bootstrap, command_config()) as admin:
            committed = await admin.groups.offsets(arguments.group, partitions)
        stored = {where: found.offset for where, found in committed.items()}
    place = END if start.kind is PositionKind.STORED else start
    starts, ends = await resolve(consumer.offsets_at, partitions, place)
    stops = ends if arguments.exit else None
    if span.stop is not None:
        stops = await at_time(consumer.offsets_at, ends, span.stop.number)
    return {**starts, **stored}, stops


class RecordPrinter:
    """Writes a consumer's records to standard output, until every partition has reached its end, if
    there is one, and at most ``count`` records."""

    def __init__(
        self,
        consumer: Consumer,
        render: Callable[[Record], bytes],
        arguments: argparse.Namespace,
        ends: dict[TopicPartition, int] | None,
    ) -> None:
        self._consumer = consumer
        self._render = render
        self._left: int | None = arguments.count
        self._keep = filter_of(arguments)
        self._decoder = decoder_of(arguments)
        self._ends = ends
        self._note = WaitingNote(is_wanted=ends is None)

    async def records(self) -> None:
        """Write records one by one, formatted."""
        while not self._has_ended():
            most = RECORDS_PER_WRITE_MAX
            wanted = most if self._left is None else min(self._left, most)
            records = await self._consumer.poll(POLL_MS, wanted)
            ends = self._ends
            if ends is not None:
                records = [
                    record
                    for record in records
                    if record.offset < ends.get(TopicPartition(record.topic, record.partition), 0)
                ]
            if not records:
                check_reader()
                self._note.tell()
            records = await self._decoder.decoded(records)
            if self._keep is not None:
                records = list(filter(self._keep, records))
            if records:
                write_bytes(b"".join(map(self._render, records)))
            if self._left is not None:
                self._left -= len(records)
                if self._left == 0:
                    return
            self._decoder.check()

    async def values(self, delimiter: bytes) -> None:
        """Write only values, straight from batches, without making records."""
        while not self._has_ended():
            batches = await self._consumer.poll_batches(POLL_MS)
            parts: list[bytes] = []
            for batch in batches:
                parts += self._values_of(batch)
            if parts:
                parts.append(b"")
                write_bytes(delimiter.join(parts))
            else:
                check_reader()
                self._note.tell()

    def _values_of(self, batch: FetchedBatch) -> list[bytes]:
        if self._ends is None:
            return [value or b"" for value in batch.values()]
        end = self._ends.get(TopicPartition(batch.topic, batch.partition), 0)
        if batch.next_offset <= end:
            return [value or b"" for value in batch.values()]
        return [record.value or b"" for record in batch.records() if record.offset < end]

    def _has_ended(self) -> bool:
        """Whether all partitions are at their ends; pauses those that are."""
        if self._ends is None:
            return False
        for where, end in list(self._ends.items()):
            position = self._consumer.position(where)
            if position is not None and position >= end:
                self._consumer.pause(where)
                del self._ends[where]
        return not self._ends
