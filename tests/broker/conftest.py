"""A broker with a connection, or three brokers, for each test that asks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.broker.support.brokers import Brokers
from tests.support.in_process import running_broker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from tests.support.raw_client import RawClient


@pytest.fixture
def broker_settings() -> Mapping[str, str]:
    """Overridden where the usual ones do not fit."""
    return {}


@pytest.fixture
async def brokers(broker_settings: Mapping[str, str]) -> AsyncIterator[Brokers]:
    """A cluster in this process, with nothing in it."""
    made = Brokers(3, broker_settings)
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def client() -> AsyncIterator[RawClient]:
    """A connection to a fresh broker."""
    async with running_broker() as running, running.connect() as connected:
        yield connected
