"""A ledger that has expired while its query stood still."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import ottla
from ottla.client.spark.checkpoint import planned_at_ms
from ottla.client.spark.sink_ledger import WriteRefused
from ottla.client.spark.sink_wire import connected, is_late
from ottla.client.spark.writer import run, write_once
from tests.client.spark.test_sink_replays import FIRST, SECOND, Query, batches

if TYPE_CHECKING:
    from pathlib import Path

    from ottla.client.spark.sink_options import SinkOptions
    from ottla.client.spark.writer import Written

DAY_S = 86_400
# Longer than brokers keep committed offsets by default.
LONG_S = 8 * DAY_S
# Brokers look for what has expired in the end, not only before a long time passes.
SETTINGS = {"offsets.retention.check.interval.ms": "60000", "log.retention.ms": "-1"}


def plan(checkpoint: Path, batch_id: int, *, age_s: float = 0) -> None:
    """Write the checkpoint files of Spark before the first attempt at a micro-batch, so old."""
    offsets = checkpoint / "offsets"
    offsets.mkdir(parents=True, exist_ok=True)
    (offsets / str(batch_id)).touch()
    then_s = time.time() - age_s
    os.utime(offsets / str(batch_id), (then_s, then_s))


def test_a_ledger_that_expired_is_never_taken_for_a_new_query(tmp_path: Path) -> None:
    """The first micro-batch was committed, the driver died before it noted that, and came back
    after eight days: only the age of the checkpoint's file distinguishes that from a new query."""
    with ottla.Cluster(settings=SETTINGS) as cluster:
        cluster.create_topic("t", partitions=3)
        place = {"checkpointLocation": str(tmp_path)}
        query = Query(cluster.bootstrap_servers, "t", "t", **place)
        plan(tmp_path, 0)
        query.batch(0, FIRST)
        cluster.faults.advance(LONG_S * 1_000)
        while query.entry(0) is not None:
            time.sleep(0.1)
        plan(tmp_path, 0, age_s=LONG_S)
        before = query.committed()

        told = query.write_all(0, FIRST)
        with pytest.raises(WriteRefused, match=r"first begun longer ago .* missingLedger=begin"):
            query.writer.commit(told, 0)
        query.writer.abort(told, 0)
        assert query.committed() == before
        # As is a later one, whose own attempt is young.
        plan(tmp_path, 1)
        told = query.write_all(1, SECOND)
        with pytest.raises(WriteRefused, match="is not the first of this query"):
            query.writer.commit(told, 1)
        query.writer.abort(told, 1)

        bold = Query(cluster.bootstrap_servers, "t", "t", missingLedger="begin", **place)
        bold.batch(0, FIRST)
        assert bold.committed()[0] == 2 * FIRST[0]


def test_a_first_micro_batch_may_take_longer_than_a_ledger_lives(tmp_path: Path) -> None:
    """In a backfill of many days the tasks checked the ledger at their start, and the tasks before
    them could not commit since."""
    with ottla.Cluster() as cluster:
        cluster.create_topic("t", partitions=3)
        query = Query(cluster.bootstrap_servers, "t", "t", checkpointLocation=str(tmp_path))
        plan(tmp_path, 0)
        told = query.write_all(0, FIRST)

        plan(tmp_path, 0, age_s=LONG_S)
        query.writer.commit([looked(one, LONG_S - 60) for one in told], 0)
        assert query.committed()[0] == FIRST[0]


def looked(told: Written, age_s: float) -> Written:
    """The commit message of a task that began so long ago."""
    assert told.part is not None
    then_ms = told.part.looked_ms - age_s * 1_000
    return replace(told, part=told.part._replace(looked_ms=then_ms))


def test_a_task_has_not_begun_before_its_driver(tmp_path: Path) -> None:
    """The clock of its machine may be slow by years: nothing expired is to look young by that."""
    with ottla.Cluster() as cluster:
        cluster.create_topic("t", partitions=1)
        query = Query(cluster.bootstrap_servers, "t", "t", checkpointLocation=str(tmp_path))
        later_ms = (time.time() + DAY_S) * 1_000
        task = query.task(0, 0)._replace(planned_ms=later_ms)
        told = write_once(query.options, task, batches(0, FIRST[0]))

        assert told.part is not None
        assert told.part.looked_ms == later_ms
        query.writer.abort([told], 0)


def late(options: SinkOptions, age_s: float = 0) -> bool:
    """For tasks that have looked so long ago."""

    async def ask() -> bool:
        async with connected(options) as cluster:
            return await is_late(cluster, options, 0, (time.time() - age_s) * 1_000)

    return run(ask())


def test_a_first_micro_batch_is_late_by_the_brokers_own_figure(tmp_path: Path) -> None:
    """A crash and a restart within it are the everyday case, and leave nothing to fear."""
    with ottla.Cluster(settings={"offsets.retention.minutes": "60"}) as cluster:
        options = Query(
            cluster.bootstrap_servers, "t", "t", checkpointLocation=f"file://{tmp_path}"
        ).options
        assert not late(options)
        plan(tmp_path, 0, age_s=50 * 60)
        assert not late(options)
        plan(tmp_path, 0, age_s=70 * 60)
        assert late(options)
        assert late(options, -DAY_S)
        assert not late(options, 20 * 60)
        assert not late(options._replace(checkpoint=None))
        assert not late(options._replace(checkpoint="hdfs://there/cp"))


def test_a_checkpoint_is_found_as_spark_names_it(tmp_path: Path) -> None:
    """The checkpoint may be a path or a URI of Hadoop's."""
    plan(tmp_path, 3, age_s=DAY_S)

    for name in (str(tmp_path), f"file:{tmp_path}", f"file://{tmp_path}"):
        found = planned_at_ms(name, 3)
        assert found is not None
        assert abs(time.time() * 1_000 - DAY_S * 1_000 - found) < DAY_S * 1_000 / 2
    assert planned_at_ms(str(tmp_path), 4) is None
    assert planned_at_ms(None, 3) is None
