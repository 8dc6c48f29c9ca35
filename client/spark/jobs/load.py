"""Loads topics into Parquet, one load after the other, each with the offsets of its rows.

A load is a directory: rows by topic and hour (or day), and the offsets beside them. It is written
to a staging directory and renamed when complete, so rows and offsets appear together. A killed load
leaves only staging files, which the next load deletes; each load continues where the last one
ended.
"""

from __future__ import annotations

import json
import sys
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as f
from pyspark.sql.observation import Observation

from ottla.client.settings.config import Isolation
from ottla.client.spark.jobs.files import Files
from ottla.client.spark.jobs.manifest import (
    FILE,
    Manifest,
    Offsets,
    Range,
    merged,
    next_ranges,
    replaced,
    same_ids,
    stored_ends,
    touched,
    window_of,
)
from ottla.client.spark.jobs.running import Job, run_as
from ottla.client.spark.jobs.session import check_options, read, read_options
from ottla.client.spark.jobs.topics import offsets_at_times, partitions_of, views_of
from ottla.client.spark.metadata import ids_of
from ottla.client.spark.rows import spark_schema
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from ottla.protocol.ids import TopicPartition

STAGING = "_load"
PREFIX = "load="
BEGINNING, END = -2, -1
WINDOWS = {"hour": "yyyy-MM-dd-HH", "day": "yyyy-MM-dd"}


class Loads:
    """The loads in one directory."""

    def __init__(self, spark: SparkSession, place: str) -> None:
        self.files = Files(spark, place)
        self._spark = spark

    def begin(self) -> list[Manifest]:
        """All current loads, oldest first; deletes what a killed load left."""
        self.files.delete(STAGING)
        found = []
        for name in self.files.directories():
            text = self.files.read(name, FILE) if name.startswith(PREFIX) else None
            if text is not None:
                found.append(Manifest.read(text))
        gone = replaced(found)
        self.drop(gone)
        return sorted(load for load in found if load.number not in gone)

    def drop(self, numbers: Iterable[int]) -> None:
        """Delete loads that another load has replaced."""
        for number in numbers:
            self.files.delete(directory(number))

    def rows(self, loads: Sequence[Manifest]) -> DataFrame:
        """The rows of these loads."""
        # A topic name of digits must stay text.
        self._spark.conf.set("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
        paths = [self.files.path(directory(load.number)) for load in loads]
        reader = self._spark.read.option("basePath", self.files.place)
        return reader.parquet(*paths).drop("load")

    def commit(self, rows: DataFrame, manifest: Manifest) -> Manifest:
        """Write rows and offsets, then publish them. Returns the stored manifest."""
        seen = Observation()
        parts, window = ["topic"], manifest.window
        if window in WINDOWS:
            rows = rows.withColumn(window, f.date_format("timestamp", WINDOWS[window]))
            parts.append(window)
        (
            rows.observe(seen, f.count(f.lit(1)).alias("rows"))
            .sortWithinPartitions(*parts, "partition", "offset")
            .write.partitionBy(*parts)
            .parquet(self.files.path(STAGING))
        )
        whole = manifest._replace(row_count=int(seen.get["rows"]))
        self.files.write(whole.text(), STAGING, FILE)
        self.files.rename(STAGING, directory(manifest.number))
        self.drop(manifest.replaces)
        return whole


def directory(number: int) -> str:
    """The directory name of a load; names sort by age."""
    return f"{PREFIX}{number:08}"


class Work(NamedTuple):
    """The work of one load: rows of earlier loads to keep, and the ranges to read."""

    kept: list[Manifest]
    cuts: dict[TopicPartition, int]
    ranges: dict[TopicPartition, Range]


def run(spark: SparkSession, arguments: argparse.Namespace) -> Manifest | None:
    """Load new records; None if there are none. Raises JobRefused and ClientError."""
    loads = Loads(spark, arguments.to)
    done = loads.begin()
    window = window_of(done, arguments.window)
    views = views_of(arguments.bootstrap, arguments.topics)
    ids = same_ids(done, ids_of(views))
    work = work_of(done, partitions_of(views), arguments)
    if not work.ranges and not work.kept:
        return None
    number = max((load.number for load in done), default=0) + 1
    manifest = Manifest(
        number,
        merged([cut_off(load, work.cuts) for load in work.kept], work.ranges),
        0,
        tuple(load.number for load in work.kept),
        window,
        ids,
    )
    # Spark cannot read a directory without files, which a load of only transaction markers leaves.
    filled = [load for load in work.kept if load.row_count]
    frames = []
    if filled:
        frames.append(rows_before(loads.rows(filled), work.cuts))
    if work.ranges:
        frames.append(read(spark, options_for(arguments, work.ranges)))
    if not frames:
        frames.append(spark.createDataFrame([], spark_schema(include_headers=True)))
    columns = frames[-1].columns
    rows = reduce(lambda one, two: one.unionByName(two), (one.select(*columns) for one in frames))
    return loads.commit(rows, manifest)


def work_of(
    done: Sequence[Manifest], partitions: Sequence[TopicPartition], arguments: argparse.Namespace
) -> Work:
    """Compute the work of the next load."""
    bootstrap = arguments.bootstrap
    first = offsets_at_times(bootstrap, dict.fromkeys(partitions, BEGINNING))
    isolation = check_options(arguments, is_stream=False).config.isolation
    ends = offsets_at_times(bootstrap, dict.fromkeys(partitions, END), Isolation.READ_UNCOMMITTED)
    # Stop at the last stable offset: a transaction may be open for long, and the load does not wait
    # for it.
    stop = END if arguments.until is None else arguments.until
    stops = offsets_at_times(bootstrap, dict.fromkeys(partitions, stop), isolation)
    now = Offsets(first, ends, stops)
    stored = stored_ends(done)
    cuts: dict[TopicPartition, int] = {}
    kept: list[Manifest] = []
    if arguments.since is not None:
        cuts = offsets_at_times(bootstrap, dict.fromkeys(partitions, arguments.since), isolation)
        kept = touched(done, cuts)
        # Records before the cut that were never loaded are loaded now.
        starts = {where: min(cut, stored.get(where, cut)) for where, cut in cuts.items()}
        stored = {**stored, **starts}
    return Work(kept, cuts, next_ranges(stored, now, may_lose=arguments.allow_loss))


def cut_off(load: Manifest, cuts: Mapping[TopicPartition, int]) -> Manifest:
    """The part of a load before the cuts."""
    ranges = {}
    for where, one in load.ranges.items():
        end = min(one.end, cuts.get(where, one.end))
        if end > one.start:
            ranges[where] = Range(one.start, end)
    return load._replace(ranges=ranges)


def rows_before(rows: DataFrame, cuts: Mapping[TopicPartition, int]) -> DataFrame:
    """The rows before the cut of their partition."""
    if not cuts:
        return rows
    is_kept = f.lit(True)
    for (topic, partition), offset in cuts.items():
        is_there = (f.col("topic") == topic) & (f.col("partition") == partition)
        is_kept = is_kept & (~is_there | (f.col("offset") < offset))
    return rows.where(is_kept)


def options_for(
    arguments: argparse.Namespace, ranges: Mapping[TopicPartition, Range]
) -> dict[str, str]:
    """The read options for exactly these offsets."""
    wanted: dict[str, list[int]] = {}
    starts: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for (topic, partition), one in ranges.items():
        wanted.setdefault(topic, []).append(partition)
        starts.setdefault(topic, {})[str(partition)] = one.start
        ends.setdefault(topic, {})[str(partition)] = one.end
    return {
        **read_options(arguments.bootstrap, arguments.options),
        "assign": json.dumps(wanted),
        "startingOffsets": json.dumps(starts),
        "endingOffsets": json.dumps(ends),
        "includeHeaders": "true",
    }


def perform(spark: SparkSession, arguments: argparse.Namespace) -> str:
    """Run the job; returns the text to print."""
    manifest = run(spark, arguments)
    if manifest is not None:
        return manifest.text()
    return "null\n" if arguments.format == "json" else "nothing new\n"


def prepare(arguments: argparse.Namespace) -> None:
    """Check what can be checked before Spark starts. Raises JobRefused, ClientError."""
    check_options(arguments, is_stream=False)
    views_of(arguments.bootstrap, arguments.topics)


JOB = Job(prepare, perform)


def main() -> int:
    """Run as a module, or with spark-submit."""
    return run_as(JOB, ["load", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
