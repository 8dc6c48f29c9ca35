"""Toy clusters for client tests, and one real broker for what the toy does not serve."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.client.real import RealNet
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


@pytest.fixture(scope="session")
def broker() -> Iterator[str]:
    """The address of a broker that keeps everything in memory."""
    with memory_broker() as address:
        yield address


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def cluster(toy: ToyCluster, request: pytest.FixtureRequest) -> ToyCluster:
    """A toy cluster with a topic, in each version of the protocol."""
    toy.transaction_version = request.param
    toy.add_topic("out", 2)
    return toy
