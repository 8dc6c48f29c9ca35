"""Topics as Parquet: no row twice and none missing, whatever happens to a load."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as f

from ottla.client.administration.topic_requests import NewTopic
from ottla.client.cli.parsers.spark import parser
from ottla.client.spark.jobs import load, session
from ottla.client.spark.jobs.errors import JobRefused
from ottla.client.spark.jobs.files import Files
from ottla.client.spark.jobs.load import Loads, run
from ottla.client.spark.jobs.manifest import FILE, Manifest
from ottla.client.sync.admin import Admin
from ottla.client.sync.consumer import Consumer
from ottla.client.sync.producer import Producer
from ottla.protocol.ids import TopicPartition
from tests.client.spark.jobs.pipelines import KEPT
from tests.client.spark.support.topics import await_topic

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable

    from pyspark.sql import SparkSession

HOUR_MS = 3_600_000

# The usual is a few seconds, most of which Spark takes to start its processes.
pytestmark = pytest.mark.timeout(1_800)


class Lake:
    """A topic and the directory that it is loaded into."""

    def __init__(self, spark: SparkSession, broker: str, topic: str, place: Path) -> None:
        self.spark = spark
        self.broker = broker
        self.topic = topic
        self.place = place

    def fill(self, numbers: Iterable[int], *, hour: int = 0) -> None:
        with Producer(self.broker) as producer:
            for number in numbers:
                producer.send(
                    self.topic, b"%d" % number, partition=number % 2, timestamp=hour * HOUR_MS + 1
                )

    def arguments(self, *more: str) -> argparse.Namespace:
        words = ("-b", self.broker, "--topics", self.topic, "--to", str(self.place))
        return parser().parse_args(["load", *words, *more])

    def load(self, *more: str) -> list[int] | None:
        """The ends that were stored."""
        manifest = run(self.spark, self.arguments(*more))
        return None if manifest is None else [one.end for one in manifest.ranges.values()]

    def values(self) -> list[int]:
        """All rows, by their values."""
        return sorted(int(row.value) for row in self.rows().collect())

    def rows(self) -> Any:
        return self.spark.read.parquet(str(self.place))


@pytest.fixture
def lake(spark: SparkSession, broker: str, new_topic: Callable[..., str], tmp_path: Path) -> Lake:
    return Lake(spark, broker, new_topic(2, **KEPT), tmp_path / "lake")


@pytest.mark.requirement("OPS-08")
def test_a_load_goes_on_where_the_last_one_ended(lake: Lake) -> None:
    """A timer runs the load every hour and keeps no state."""
    lake.fill(range(10))
    assert lake.load() == [5, 5]
    assert lake.load() is None
    lake.fill(range(10, 16), hour=30)
    assert lake.load() == [8, 8]

    assert lake.values() == list(range(16))
    hours = {(row.hour, row.topic) for row in lake.rows().select("hour", "topic").collect()}
    assert hours == {("1970-01-01-00", lake.topic), ("1970-01-02-06", lake.topic)}


@pytest.mark.requirement("OPS-08", "CON-24")
@pytest.mark.parametrize("step", ["write", "rename"])
def test_a_load_that_was_killed_leaves_no_row_twice(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Between its last row and its commit are the worst places to die: before its offsets are
    written, and before rows and offsets get their name."""
    lake.fill(range(6))
    lake.load()
    lake.fill(range(6, 12))

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Files, step, die)
        with pytest.raises(KeyboardInterrupt):
            lake.load()
    assert lake.values() == list(range(6))

    assert lake.load() == [6, 6]
    assert lake.values() == list(range(12))


# PySpark looks at pandas, where it is installed, before it makes a function.
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
@pytest.mark.requirement("CON-24")
def test_a_task_that_failed_leaves_no_row_twice(lake: Lake, tmp_path: Path) -> None:
    """Spark runs it again, on another worker."""
    lake.fill(range(40))
    marker = str(tmp_path / "failed")

    def fail_once(value: bytes) -> bytes:
        # On the way: rows have been written when this one comes.
        if value == b"30" and not Path(marker).exists():
            Path(marker).touch()
            raise RuntimeError("the first attempt")
        return value

    loads = Loads(lake.spark, str(lake.place))
    partitions = [TopicPartition(lake.topic, number) for number in range(2)]
    work = load.work_of(loads.begin(), partitions, lake.arguments())
    rows = session.read(lake.spark, load.options_for(lake.arguments(), work.ranges))
    manifest = Manifest(1, work.ranges, 0, window="hour")
    tried = rows.withColumn("value", f.udf(lambda value: fail_once(value), "binary")("value"))
    stored = loads.commit(tried, manifest)

    assert Path(marker).exists()
    assert stored.row_count == 40
    assert lake.values() == list(range(40))


@pytest.mark.requirement("CON-25")
def test_a_load_is_done_again_from_a_time_on(lake: Lake) -> None:
    """A mistake was found in what came since noon, and corrected in the topic."""
    lake.fill(range(4), hour=1)
    lake.load()
    lake.fill(range(4, 8), hour=2)
    lake.fill(range(8, 12), hour=3)
    lake.load()
    lake.fill(range(12, 14), hour=4)

    again = lake.load("--from", str(2 * HOUR_MS))

    assert again == [7, 7]
    assert lake.values() == list(range(14))
    # The first load had nothing as late as that, and stays; the second one is in the third.
    names = sorted(path.name for path in lake.place.iterdir() if path.name.startswith("load="))
    assert names == ["load=00000001", "load=00000003"]


def test_a_load_from_a_later_time_leaves_nothing_out_before_it(lake: Lake) -> None:
    """These records are not loaded yet, and a later load would start behind this one."""
    lake.fill(range(4), hour=1)
    lake.load()
    lake.fill(range(4, 8), hour=2)
    lake.fill(range(8, 12), hour=3)

    assert lake.load("--from", str(3 * HOUR_MS)) == [6, 6]
    assert lake.values() == list(range(12))


def test_a_load_has_what_is_committed(lake: Lake) -> None:
    """Aborted records are never loaded, and those of an open transaction are loaded later."""
    with Producer(lake.broker, transactional_id=f"load-{lake.topic}") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(lake.topic, b"7", partition=0)
        producer.flush()
        producer.abort_transaction()
        # Markers alone are rows of no file.
        assert lake.load() == [2]
        producer.begin_transaction()
        producer.send(lake.topic, b"1", partition=0)
        producer.flush()
        assert lake.load() is None
        producer.commit_transaction()

    assert lake.load() == [4]
    assert lake.values() == [1]
    assert lake.load("--from", "0") == [4]
    assert lake.values() == [1]


def test_a_topic_that_was_made_anew_is_not_the_one_that_was_loaded(lake: Lake) -> None:
    """The new topic has more records than the old one, so offsets alone do not reveal it."""
    lake.fill(range(4))
    lake.load()
    with Admin(lake.broker) as admin:
        admin.delete_topics([lake.topic])
        await_topic(admin, lake.topic, is_there=False)
        admin.create_topic(NewTopic(lake.topic, 2, 1, KEPT))
        await_topic(admin, lake.topic)
    lake.fill(range(20, 40))

    with pytest.raises(JobRefused, match="was deleted and created again since it was loaded"):
        lake.load()
    assert lake.values() == list(range(4))


def test_loads_of_a_place_divide_their_rows_alike(lake: Lake) -> None:
    """Spark refuses to read directories of two kinds together: all that was loaded before."""
    lake.fill(range(4))
    lake.load("--window", "day")
    lake.fill(range(4, 8))

    with pytest.raises(JobRefused, match="is divided by --window day; leave the option away"):
        lake.load("--window", "hour")
    assert lake.load() == [4, 4]
    assert lake.values() == list(range(8))
    assert "day" in lake.rows().columns


def test_a_load_in_the_middle_of_replacing_others_counts_once(lake: Lake) -> None:
    """The load is killed when the new files are written and the old ones are not removed yet."""
    lake.fill(range(8), hour=1)
    lake.load()
    loads = Loads(lake.spark, str(lake.place))
    (old,) = loads.begin()
    files = loads.files
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Loads, "drop", lambda *_: None)
        lake.load("--from", "0")
    assert files.read("load=00000001", FILE) is not None

    assert lake.load() is None
    assert lake.values() == list(range(8))
    assert old.number == 1


def test_a_load_stops_at_a_time(lake: Lake) -> None:
    """The load of an hour is the same whenever it is run."""
    lake.fill(range(4), hour=1)
    lake.fill(range(4, 8), hour=2)

    assert lake.load("--until", str(2 * HOUR_MS)) == [2, 2]
    assert lake.values() == list(range(4))


def test_what_is_gone_before_it_was_loaded_is_told(lake: Lake) -> None:
    """Lost records must be reported at once, not when they are missed."""
    lake.fill(range(4))
    lake.load()
    lake.fill(range(4, 20))
    with Admin(lake.broker) as admin:
        admin.delete_records({TopicPartition(lake.topic, 0): 5})

    with pytest.raises(JobRefused, match="offsets 2 to 4 are gone"):
        lake.load()
    assert lake.load("--allow-loss") == [10, 10]
    assert len(lake.values()) == 17


@pytest.mark.requirement("OPS-05")
def test_a_load_and_a_live_reader_do_not_disturb_each_other(lake: Lake) -> None:
    """A load and a stream read the same topic without affecting each other."""
    lake.fill(range(10))
    lake.load()
    live = read_live(lake, 10)
    lake.fill(range(10, 20))
    live += read_live(lake, 10)
    lake.load()

    assert sorted(live) == list(range(20))
    assert lake.values() == list(range(20))


def read_live(lake: Lake, count: int) -> list[int]:
    """Read as a member of a group."""
    found: list[int] = []
    settings = {"group_id": f"live-{lake.topic}", "offset_reset": "earliest"}
    with Consumer(lake.broker, **settings) as consumer:  # type: ignore[arg-type]
        consumer.subscribe([lake.topic])
        while len(found) < count:
            found += [int(record.value or b"") for record in consumer.poll(200)]
    return found
