"""One cluster of three brokers for the pages of a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import ottla
from tests.client.console.site import console_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    import httpx


@pytest.fixture(scope="module")
def brokers() -> Iterator[ottla.Cluster]:
    """Three brokers in memory."""
    with ottla.Cluster(brokers=3) as cluster:
        yield cluster


@pytest.fixture
async def browser(brokers: ottla.Cluster) -> AsyncIterator[httpx.AsyncClient]:
    """A browser of a console that only shows."""
    async with console_of(brokers.bootstrap_servers) as found:
        yield found
