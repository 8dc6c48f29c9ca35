"""A toy cluster for tests of connections."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.wire.real import RealNet
from tests.client.support.toy_broker import ToyCluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def toy() -> AsyncIterator[ToyCluster]:
    """A running toy cluster of one broker."""
    cluster = ToyCluster(RealNet())
    cluster.start()
    yield cluster
    cluster.close()
