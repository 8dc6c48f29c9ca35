"""Toy clusters for client tests, and real brokers for what the toy does not serve."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from ottla.client.real import RealNet
from tests.client.sites import OTTLA, SITES, Apaches, difference
from tests.client.toy_broker import ToyCluster
from tests.support.memory_broker import memory_broker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


@pytest.fixture
async def toy() -> AsyncIterator[ToyCluster]:
    """A running toy cluster of one broker."""
    cluster = ToyCluster(RealNet())
    cluster.start()
    yield cluster
    cluster.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what is otherwise with Apache Kafka."""
    for item in items:
        if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
            kind = item.callspec.params.get("kind", OTTLA)
            if kind == OTTLA:
                continue
            reason = difference(str(kind), item.originalname, item.callspec.id)
            if reason is not None:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session", params=SITES)
def kind(request: pytest.FixtureRequest) -> str:
    """Whose brokers: ``ottla``, or a version of Apache Kafka."""
    name: str = request.param
    return name


@pytest.fixture(scope="session")
def apaches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apaches]:
    """Apache Kafka, where a test asks for it."""
    with ExitStack() as stack:
        yield Apaches(stack, tmp_path_factory)


@pytest.fixture(scope="session")
def broker(kind: str, apaches: Apaches) -> Iterator[str]:
    """The address of a broker; Ottla's keeps everything in memory."""
    if kind != OTTLA:
        yield apaches.cluster(kind).bootstrap_servers
        return
    with memory_broker() as address:
        yield address


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def cluster(toy: ToyCluster, request: pytest.FixtureRequest) -> ToyCluster:
    """A toy cluster with a topic, in each version of the protocol."""
    toy.transaction_version = request.param
    toy.add_topic("out", 2)
    return toy
