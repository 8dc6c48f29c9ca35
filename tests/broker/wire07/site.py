"""A broker with a listener for 0.7, inside the test."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from ottla.protocol.records.old_messages import read_any
from tests.broker.support.requests import fetched
from tests.protocol.wire07.client_07 import Client07
from tests.support.in_process import RunningBroker, running_broker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.raw_client import RawClient

WITH_07 = {"ottla.listener.07": "127.0.0.1:0"}


class Site07(RunningBroker):
    """A running broker and its clients of both times."""

    def connect_07(self) -> Client07:
        """A connection of 0.7, for ``async with``."""
        listener = self.broker.state.listener_07
        assert listener is not None
        return Client07(listener.address)


@asynccontextmanager
async def site_07(settings: dict[str, str] | None = None, **more: Any) -> AsyncIterator[Site07]:
    """Start with Kafka's settings by name, stop at the end."""
    async with running_broker({**WITH_07, **(settings or {})}, **more) as running:
        yield Site07(running.broker)


async def values_of(client: RawClient, offset: int, count: int, **more: Any) -> list[bytes | None]:
    """The values that a client of today reads, as soon as there are so many."""
    while True:
        part = await fetched(client, offset, 11, **more)
        assert part.error_code == 0
        found = [one.value for one in read_any(part.records or b"") if one.offset >= offset]
        if len(found) >= count:
            return [None if one is None else bytes(one) for one in found]
