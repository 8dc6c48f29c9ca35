"""Toy clusters for client tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.client.real import RealNet
from tests.client.toy_broker import ToyCluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def toy() -> AsyncIterator[ToyCluster]:
    """A running toy cluster of one broker."""
    cluster = ToyCluster(RealNet())
    cluster.start()
    yield cluster
    cluster.close()
