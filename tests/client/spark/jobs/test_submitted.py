"""Jobs submitted to a cluster, whose executors are separate processes."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from ottla.client.spark.jobs.session import home_without_zip
from tests.client.spark.jobs.pipelines import committed
from tests.client.spark.support.standalone import Standalone, script_of
from tests.client.spark.support.topics import fill
from tests.tidy.tree import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


def test_no_file_of_a_job_hides_a_module_of_python() -> None:
    """The directory of a submitted file comes first on Python's path."""
    names = {path.stem for path in (ROOT / "client" / "spark" / "jobs").glob("*.py")}

    assert names & sys.stdlib_module_names == set()


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    folder = tmp_path_factory.mktemp("standalone")
    home = home_without_zip(tmp_path_factory.mktemp("home"))
    with Standalone(folder, home) as running:
        yield running


@pytest.mark.soak
@pytest.mark.timeout(1_800)
@pytest.mark.requirement("OPS-08", "CON-23")
def test_a_load_that_is_submitted_to_a_cluster_loads(
    standalone: Standalone, broker: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """The documented command, without the driver's directory on the executors' path."""
    topic, place = new_topic(2), tmp_path / "lake"
    fill(broker, topic, 50, 2)
    words = ("-b", broker, "--topics", topic, "--to", str(place))

    first = standalone.submit(script_of("load"), *words)
    second = standalone.submit(script_of("load"), *words)

    assert first.returncode == 0, first.stderr
    assert '"rows": 100' in first.stdout
    assert second.returncode == 0, second.stderr
    # Warnings of Python come before it: spark-submit writes all output to one stream.
    assert second.stdout.endswith("nothing new\n")
    files = [path for path in place.rglob("*.parquet") if not path.name.startswith(".")]
    rows = Counter(
        (row["offset"], bytes(row["value"]))
        for path in files
        for row in pq.ParquetFile(path).read(columns=["offset", "value"]).to_pylist()
    )
    assert rows == Counter({(number, b"%d" % number): 2 for number in range(50)})


@pytest.mark.soak
@pytest.mark.timeout(1_800)
def test_a_transformation_that_is_submitted_to_a_cluster_repeats_nothing(
    standalone: Standalone, broker: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """Its transactions are begun on executors and committed by the driver, on other connections."""
    topic, kept = new_topic(2), new_topic(2)
    fill(broker, topic, 50, 2)
    words = ("-b", broker, "--topics", topic, "--to", kept, "--once")
    for _ in range(2):
        done = standalone.submit(
            script_of("transform"), *words, "--checkpoint", str(tmp_path / "cp")
        )
        assert done.returncode == 0, done.stderr

    found = Counter(record.value for record in committed(broker, kept))

    assert found == Counter({b"%d" % number: 2 for number in range(50)})
