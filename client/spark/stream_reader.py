"""Reads topics as a stream: ``spark.readStream.format("ottla")``.

The progress of the query is stored only in its checkpoint, its start included: each place has the
first offsets of partitions that the batch before it reads for the first time. When the very first
batch is repeated Spark asks for the start again, and a topic that has grown would return another
one; the batch then reads what the checkpoint says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.client.process.environment import real_environment
from ottla.client.spark.metadata import Metadata, ids_of
from ottla.client.spark.offsets import Offsets, QueryOffsets, nested
from ottla.client.spark.options import Options
from ottla.client.spark.plan import (
    Limits,
    advanced,
    cut,
    is_beyond,
    is_other,
    new_at,
    ranges_of,
    split,
    start_of,
    starts_of,
)
from ottla.client.spark.pyspark_api import (
    DataSourceStreamReader,
    ReadAllAvailable,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from ottla.client.spark.reader import (
    as_partitions,
    chosen,
    found_times,
    report,
    rows_of,
    without_loss,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from ottla.client.spark.pyspark_api import InputPartition, ReadLimit
    from ottla.protocol.ids import TopicPartition

QUERY_ID_BYTES = 6


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of a streaming query: one in the driver for each run, another pickled to its
    tasks, for ``read``."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._given = dict(options)
        self._options = Options.of(options, is_stream=True)
        self._metadata = Metadata(self._options)
        self._clock = real_environment().clock
        self._initial: QueryOffsets | None = None
        # The end of an AvailableNow run.
        self._target: tuple[Offsets, dict[str, str]] | None = None
        self._reported: Offsets = {}
        self._last_trigger_ms: float | None = None

    def __reduce__(self) -> tuple[type[StreamReader], tuple[dict[str, str]]]:
        return StreamReader, (self._given,)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where a new query begins; the same place at every call in one run."""
        if self._initial is None:
            self._initial = self._resolved_start()
        return self._initial.as_json()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Where the next batch ends; ``start`` itself if there is none."""
        place = QueryOffsets.from_json(start)
        self._commit(place)
        end = self._available(place)
        starts = starts_of(place, end)
        count = sum(end.offsets[where] - starts[where] for where in starts)
        if (not count and end.offsets == place.offsets) or self._is_too_little(count, limit):
            return start
        if self._options.max_offsets is not None and not isinstance(limit, ReadAllAvailable):
            end = cut(place, end, self._options.max_offsets)
        self._last_trigger_ms = self._clock.now_ms()
        return end.as_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The limit of the options; Trigger.Once overrides it and reads everything."""
        if self._options.max_offsets is not None:
            return ReadMaxRows(self._options.max_offsets)
        if self._options.min_offsets is not None:
            return ReadMinRows(self._options.min_offsets)
        return ReadAllAvailable()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The last known ends of the topics, for Spark's progress report."""
        return nested(self._reported) or None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the present ends as the end of this run."""
        self._target = self._ends(None)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The ranges that the batch's tasks read."""
        place = QueryOffsets.from_json(end)
        ranges = ranges_of(QueryOffsets.from_json(start), place)
        if ranges:
            gone = self._made_anew(place)
            ranges = [one for one in ranges if one.partition.topic not in gone]
        parts = split(ranges, self._options.min_partitions, self._options.max_records)
        return as_partitions(parts, place.topic_ids)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a range in a worker."""
        return rows_of(partition, self._options)

    def commit(self, end: dict[str, Any]) -> None:
        """Note that the batch which ends here is done."""
        self._commit(QueryOffsets.from_json(end))

    def stop(self) -> None:
        """Close connections. Called if the query failed; otherwise Spark ends the process."""
        self._metadata.close()

    def _resolved_start(self) -> QueryOffsets:
        options, metadata = self._options, self._metadata
        partitions = chosen(metadata, options)
        ids = ids_of(metadata.topics())
        limits = metadata.limits(partitions)
        found = found_times(metadata, options.start, partitions)
        late = options.late_start_is_latest
        outcome = start_of(options.start, limits, found, late_is_latest=late)
        offsets = without_loss(outcome, options)
        query_id = real_environment().random.token(QUERY_ID_BYTES).hex()
        known = {name: text for name, text in ids.items() if text}
        return QueryOffsets(offsets, dict(offsets), known, query_id)

    def _available(self, place: QueryOffsets) -> QueryOffsets:
        """The place at the end of the logs. Raises RecordsLost."""
        lasts, topic_ids = self._target or self._ends(place)
        if self._target is not None and is_beyond(place, lasts):
            # Spark asks for the end before the start, which may be the end of a growing topic; and
            # the broker asked may have lagged.
            self._target = lasts, topic_ids = self._ends(place)
        firsts = self._metadata.firsts(new_at(place, lasts, topic_ids))
        end, losses = advanced(place, Limits(firsts, lasts), topic_ids)
        report(losses, self._options)
        return end

    def _ends(self, place: QueryOffsets | None) -> tuple[Offsets, dict[str, str]]:
        metadata = self._metadata
        reached: Mapping[TopicPartition, int] = {} if place is None else place.offsets
        topics = metadata.topics(reached)
        self._reported = metadata.lasts(metadata.partitions(topics), reached)
        return self._reported, ids_of(topics)

    def _is_too_little(self, count: int, limit: ReadLimit) -> bool:
        """Whether to wait for more records, for minOffsetsPerTrigger."""
        least = self._options.min_offsets
        if least is None or self._target is not None or isinstance(limit, ReadAllAvailable):
            return False
        if count >= least or self._last_trigger_ms is None:
            return False
        return self._clock.now_ms() - self._last_trigger_ms < self._options.max_delay_ms

    def _made_anew(self, place: QueryOffsets) -> list[str]:
        """The topics that were recreated. Raises RecordsLost.

        Their records at these offsets are different ones, and the next batch reads all of them.
        Matters for batches that are repeated after a restart."""
        topic_ids = ids_of(self._metadata.topics())
        names = [name for name in sorted(place.topic_ids) if is_other(place, name, topic_ids)]
        report([f"topic {name!r} was deleted and created again" for name in names], self._options)
        return names

    def _commit(self, place: QueryOffsets) -> None:
        """Commit the query's progress, as of a group without members, for monitoring.

        Spark reports a finished batch only when it begins the next; the start of that is known
        before, even without new records."""
        options = self._options
        if options.commits and place.offsets:
            group_id = options.group_id or f"{options.group_prefix}-{place.query_id}"
            self._metadata.commit(group_id, place.offsets)
