"""Reads the present content of topics: ``spark.read.format("ottla")``."""

from __future__ import annotations

import logging
from contextlib import closing
from typing import TYPE_CHECKING

from ottla.client.spark.errors import RecordsLost
from ottla.client.spark.metadata import Metadata, ids_of
from ottla.client.spark.options import Options
from ottla.client.spark.plan import (
    check_named,
    end_of,
    ranges_between,
    split,
    start_of,
)
from ottla.client.spark.pyspark_api import DataSourceReader, InputPartition
from ottla.client.spark.reading import read_rows
from ottla.client.spark.worker import begin_task

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa

    from ottla.client.ranges import OffsetRange
    from ottla.client.spark.offsets import Bound, Offsets
    from ottla.client.spark.plan import ResolvedOffsets
    from ottla.protocol.ids import TopicPartition

logger = logging.getLogger(__name__)


class RangePartition(InputPartition):
    """What one task reads; the topic's id is empty if the cluster has none."""

    def __init__(self, one: OffsetRange, topic_id: str = "") -> None:
        super().__init__((*one, topic_id))
        self.range, self.topic_id = one, topic_id


class BatchReader(DataSourceReader):
    """The reader of a batch query. Made by the driver, then pickled to its tasks."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._given = dict(options)
        self._options = Options.of(options)

    def __reduce__(self) -> tuple[type[BatchReader], tuple[dict[str, str]]]:
        # Sent as they were given: what is made of them has secrets, which are not pickled.
        return BatchReader, (self._given,)

    def partitions(self) -> list[InputPartition]:
        """What each task reads; offsets are resolved here, once per execution of the query."""
        options = self._options
        with closing(Metadata(options)) as metadata:
            topic_ids = ids_of(metadata.topics())
            starts, ends = _ends_of(metadata, options)
        ranges = ranges_between(starts, ends)
        parts = split(ranges, options.min_partitions, options.max_records)
        return as_partitions(parts, topic_ids)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a range in a worker."""
        return rows_of(partition, self._options)


def _ends_of(metadata: Metadata, options: Options) -> tuple[Offsets, Offsets]:
    assert options.end is not None
    partitions = chosen(metadata, options)
    limits = metadata.limits(partitions)
    starting = found_times(metadata, options.start, partitions)
    ending = found_times(metadata, options.end, partitions)
    late = options.late_start_is_latest
    start = start_of(options.start, limits, starting, late_is_latest=late)
    end = end_of(options.end, limits, ending)
    return without_loss(start, options), without_loss(end, options)


def chosen(metadata: Metadata, options: Options) -> list[TopicPartition]:
    """The partitions to be read. Raises ValueError if a named one does not exist, or if one has no
    start or end."""
    topics = metadata.topics()
    subscription = options.subscription
    for name in subscription.names or ():
        if name not in topics:
            raise ValueError(
                f"the option {subscription.option} names topic {name!r}, which does not exist"
            )
    found = metadata.partitions(topics)
    for where in subscription.partitions:
        if where not in found:
            raise ValueError(
                f"the option {subscription.option} names partition {where.partition} of topic "
                f"{where.topic!r}, which has {topics[where.topic].partition_count} only"
            )
    check_named(options.start, found)
    if options.end is not None:
        check_named(options.end, found)
    return found


def found_times(metadata: Metadata, bound: Bound, partitions: Iterable[TopicPartition]) -> Offsets:
    """The offsets for a bound that is a time."""
    times = {where: bound.time_of(where) for where in partitions}
    return metadata.at({where: time for where, time in times.items() if time is not None})


def without_loss(outcome: ResolvedOffsets, options: Options) -> Offsets:
    """The offsets. Raises RecordsLost if the query is to end for a loss."""
    report(outcome.losses, options)
    return outcome.offsets


def report(losses: list[str], options: Options) -> None:
    """Raise RecordsLost for the first loss, or log all as warnings."""
    if losses and options.fails_on_loss:
        raise RecordsLost(losses[0])
    for loss in losses:
        logger.warning("%s: continuing without the missing records", loss)


def as_partitions(ranges: list[OffsetRange], topic_ids: Mapping[str, str]) -> list[InputPartition]:
    """The ranges as Spark's partitions."""
    return [RangePartition(one, topic_ids.get(one.partition.topic, "")) for one in ranges]


def rows_of(partition: InputPartition, options: Options) -> Iterator[pa.RecordBatch]:
    """The rows of a task. Spark makes an empty partition of its own if there are none."""
    begin_task()
    if not isinstance(partition, RangePartition):
        return iter(())
    return read_rows(partition.range, options, partition.topic_id)
