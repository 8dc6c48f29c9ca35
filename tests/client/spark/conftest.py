"""One Spark for all tests that need it, and topics of a broker of their own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from ottla.client.spark.jobs.session import home_without_zip
from tests.client.spark.support.sessions import SETTINGS, small_session
from tests.client.spark.support.topics import maker_of_topics
from tests.support.memory_broker import memory_broker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

# A task may fail three times, as on a cluster; without the 4 a local Spark never tries again.
MASTER = "local[2,4]"


# Ten times what the slowest test takes on a busy machine; the first test also starts Spark.
TIMEOUT_S = 1_800


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give those time that use Spark and do not say themselves how much they need."""
    for item in items:
        uses_spark = "spark" in getattr(item, "fixturenames", ())
        if uses_spark and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session of this run, with the data source registered."""
    os.environ["SPARK_HOME"] = str(home_without_zip(tmp_path_factory.mktemp("spark")))
    places = {"spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}
    session = small_session(MASTER, {**SETTINGS, **places})
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def broker() -> Iterator[str]:
    """The address of a broker for the tests of Spark alone."""
    with memory_broker() as address:
        yield address


@pytest.fixture(scope="session")
def new_topic(broker: str) -> Callable[..., str]:
    """Makes a topic and gives its name: ``new_topic(partitions=2)``."""
    return maker_of_topics(broker)


@pytest.fixture
def topic(new_topic: Callable[..., str]) -> str:
    """A topic of one partition."""
    return new_topic()
