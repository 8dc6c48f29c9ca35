"""The source for Spark on Apache Kafka: what is shown of it on Ottla holds there as well."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import pytest

from tests.client.spark import test_batches, test_streams
from tests.client.spark.support.topics import maker_of_topics
from tests.interop.support.apache import apache_kafka
from tests.interop.support.clients import JAVA_VERSIONS, needs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

CASES = [
    function
    for module in (test_batches, test_streams)
    for name, function in vars(module).items()
    if name.startswith("test_")
]


@pytest.fixture(scope="module", params=JAVA_VERSIONS)
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker of that version."""
    needs("java", "mvn")
    with apache_kafka(request.param, tmp_path_factory.mktemp("kafka")) as address:
        yield address


@pytest.fixture(scope="module")
def new_topic(site: str) -> Callable[..., str]:
    """Makes a topic there and gives its name."""
    return maker_of_topics(site)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_it_holds_there(
    case: Callable[..., None], site: str, new_topic: Callable[..., str]
) -> None:
    """The source must not depend on features of our broker."""
    given = {"broker": site, "new_topic": new_topic, "topic": new_topic()}
    case(**{name: given[name] for name in inspect.signature(case).parameters})
