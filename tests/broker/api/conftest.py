"""A broker and a connection to it for each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.in_process import running_broker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.raw_client import RawClient


@pytest.fixture
async def client() -> AsyncIterator[RawClient]:
    """A connection to a fresh broker."""
    async with running_broker() as running, running.connect() as connected:
        yield connected
