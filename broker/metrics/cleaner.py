"""The log cleaner, under the names of Kafka's JMX exporter."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ottla.broker.metrics.exposition import GAUGE, Family, counter, gauge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.broker.cleaner.cleaner import CleanerRun, Cleaning, CleaningStatus
    from ottla.broker.metrics.exposition import Sample

_CLEANER = "kafka_log_logcleaner_"
# Kafka's bean LogCleanerManager.
_SURVEY = "kafka_log_logcleanermanager_"


def cleaner_families(cleaning: Cleaning, directories: list[str]) -> Iterator[Family]:
    """What an operator watches of compaction. ``directories``: those of ``log.dirs``."""
    status = cleaning.status()
    yield from _looks(status)
    yield from _uncleanable(cleaning, directories)
    yield from _last_run(status.last_run)
    yield from _totals(status)


def _looks(status: CleaningStatus) -> Iterator[Family]:
    yield gauge(
        f"{_CLEANER}deadthreadcount",
        "1 if the cleaner has died and no log is compacted any more.",
        int(status.is_dead),
    )
    yield gauge(
        f"{_SURVEY}time_since_last_run_ms",
        "Milliseconds since the cleaner looked at all logs.",
        round(status.unseen_ms),
    )
    yield gauge(
        f"{_SURVEY}max_dirty_percent",
        "The largest share of a log that is not compacted yet, at the last look.",
        round(100 * status.dirtiest_ratio),
    )
    yield gauge(
        f"{_CLEANER}max_compaction_delay_secs",
        "The longest time that a log is dirty beyond max.compaction.lag.ms, at the last look.",
        status.overdue_ms // 1000,
    )


def _uncleanable(cleaning: Cleaning, directories: list[str]) -> Iterator[Family]:
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for log in cleaning.uncleanable_logs():
        path = log.home.health.path
        counts[path] += 1
        sizes[path] += sum(
            one.size_bytes for one in log.segments if one.next_offset > log.cleaned_offset
        )
    for name, documentation, found in (
        ("partitions_count", "Logs that cannot be compacted; the broker's log says why.", counts),
        ("bytes", "Bytes of these logs that are not compacted.", sizes),
    ):
        samples: list[Sample] = [((path,), found[path]) for path in directories]
        yield Family(
            GAUGE, f"{_SURVEY}uncleanable_{name}", documentation, ("logdirectory",), samples
        )


def _last_run(run: CleanerRun) -> Iterator[Family]:
    yield gauge(
        f"{_CLEANER}max_clean_time_secs", "Seconds that the last run took.", round(run.seconds, 3)
    )
    yield gauge(
        f"{_CLEANER}cleaner_recopy_percent",
        "Of the bytes that the last run read, the share that it wrote again.",
        round(100 * run.written_bytes / run.read_bytes) if run.read_bytes else 0,
    )
    yield gauge(
        f"{_CLEANER}max_buffer_utilization_percent",
        "Of log.cleaner.dedupe.buffer.size, the share that the keys of the last run took.",
        round(100 * run.map_use),
    )


def _totals(status: CleaningStatus) -> Iterator[Family]:
    yield counter("ottla_log_cleaner_runs_total", "Runs that came to their end.", status.runs)
    yield counter(
        "ottla_log_cleaner_aborted_runs_total",
        "Runs that ended early because the log was cut, deleted or moved.",
        status.aborted,
    )
    yield counter(
        "ottla_log_cleaner_failures_total",
        "Looks and runs that failed; the broker's log says why.",
        status.failures,
    )
    yield counter("ottla_log_cleaner_read_bytes_total", "Bytes that runs read.", status.read_bytes)
    yield counter(
        "ottla_log_cleaner_freed_bytes_total", "Bytes by which logs shrank.", status.freed_bytes
    )
    yield gauge(
        "ottla_log_cleaner_dirty_bytes",
        "Bytes that a run could compact, due or not, at the last look.",
        status.dirty_bytes,
    )
