"""Three brokers for each test that asks for them; a module may say how they are set up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.broker.brokers import Brokers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping


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
