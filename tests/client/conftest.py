"""Toy clusters for client tests, and real brokers for what the toy does not serve."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from ottla.wire.real import RealNet
from tests.client.support.sites import ALWAYS, OTTLA, SITES, Apaches, broker_of, difference
from tests.client.support.toy_broker import ToyCluster
from tests.support.relays.profiles import PROFILES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


@pytest.fixture
async def toy() -> AsyncIterator[ToyCluster]:
    """A running toy cluster of one broker."""
    cluster = ToyCluster(RealNet())
    cluster.start()
    yield cluster
    cluster.close()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what is otherwise with other brokers, and what is for ``make interop`` alone."""
    for item in items:
        if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
            kind = str(item.callspec.params.get("kind", OTTLA))
            if kind == OTTLA:
                continue
            if kind in PROFILES and item.module.__name__ not in ALWAYS:
                item.add_marker(pytest.mark.interop)
            reason = difference(kind, item.originalname, item.callspec.id)
            if reason is not None:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session", params=SITES)
def kind(request: pytest.FixtureRequest) -> str:
    """Whose brokers: ``ottla``, a version of Apache Kafka, or the profile of others."""
    name: str = request.param
    return name


@pytest.fixture(scope="session")
def apaches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apaches]:
    """Apache Kafka and relays, where a test asks for them."""
    with ExitStack() as stack:
        yield Apaches(stack, tmp_path_factory)


@pytest.fixture(autouse=True)
def nothing_newer(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test whose client asks for a version that the profile does not serve."""
    if "apaches" not in request.fixturenames:
        yield
        return
    found: Apaches = request.getfixturevalue("apaches")
    found.taken_refusals()
    yield
    assert found.taken_refusals() == []


@pytest.fixture(scope="session")
def broker(kind: str, apaches: Apaches) -> Iterator[str]:
    """The address of a broker."""
    with broker_of(kind, apaches) as address:
        yield address


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def cluster(toy: ToyCluster, request: pytest.FixtureRequest) -> ToyCluster:
    """A toy cluster with a topic, in each version of the protocol."""
    toy.transaction_version = request.param
    toy.add_topic("out", 2)
    return toy
