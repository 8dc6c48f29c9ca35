"""The sink of Spark on Apache Kafka, in both versions of its transactions."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any

import pytest

from ottla.client.administration.topic_requests import NewTopic
from ottla.client.sync.admin import Admin
from tests.client.spark import test_sink_replays as replays
from tests.interop.support.apache import apache_kafka
from tests.interop.support.clients import JAVA_VERSIONS, needs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.interop, pytest.mark.slow]

CASES: list[Callable[..., None]] = [
    case for name, case in vars(replays).items() if name.startswith("test_")
]


@pytest.fixture(scope="module", params=JAVA_VERSIONS)
def apache(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A broker of each version."""
    needs("java", "mvn")
    with apache_kafka(request.param, tmp_path_factory.mktemp("kafka")) as address:
        yield address


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__.removeprefix("test_"))
def test_what_holds_on_our_brokers_holds_on_kafkas(
    apache: str, topic: str, case: Callable[..., None]
) -> None:
    """The sink is a client like any other: it must not lean on what only our brokers do."""
    with Admin(apache) as admin:
        admin.create_topics([NewTopic(topic, 3)])
    given: dict[str, Any] = {
        "broker": apache,
        "query": replays.Query(apache, topic, topic),
    }
    case(**{name: given[name] for name in signature(case).parameters})
