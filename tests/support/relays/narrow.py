"""Relays in front of real brokers that let through only what another kind of broker serves.

The ApiVersions answer is narrowed to a profile and reports no features. A request outside of it
ends its connection, as in Redpanda (connection_context.cc), and is remembered. An ApiVersions
request that is too new is answered in version 0 with error 35 and the ranges, as there. Brokers in
answers are replaced by their relays, which are made when a broker is first named.
"""

from __future__ import annotations

import asyncio
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Self

from ottla.client.process.loop_thread import LoopThread
from ottla.protocol.apis import ApiKey
from tests.support.relays.narrow_link import Link

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import Mapping

    from ottla.protocol.headers import RequestHeader
    from ottla.wire.api import VersionRange

HOST = "127.0.0.1"


class Narrowed:
    """The relays of one profile. Leaving it closes everything."""

    def __init__(self, profile: Mapping[int, VersionRange]) -> None:
        self._profile = profile
        self._servers: dict[int, asyncio.Server] = {}
        self._links: set[asyncio.Task[None]] = set()
        self._refused: list[str] = []

    def __enter__(self) -> Self:
        self._thread = LoopThread("relays", asyncio.SelectorEventLoop())
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.call(self._close)
        self._thread.stop()

    def addresses_of(self, bootstrap_servers: str) -> str:
        """The relays of these brokers, which are all on this machine."""
        ports = [int(one.rpartition(":")[2]) for one in bootstrap_servers.split(",")]

        async def work() -> list[int]:
            return [await self._relay_of(port) for port in ports]

        return ",".join(f"{HOST}:{port}" for port in self._thread.call(work))

    def taken_refusals(self) -> list[str]:
        """Refused requests since the last call: ``client: API version``."""
        refused, self._refused = self._refused, []
        return refused

    async def _relay_of(self, port: int) -> int:
        """The port of that broker's relay."""
        if port not in self._servers:

            async def serve(reader: StreamReader, writer: StreamWriter) -> None:
                await self._serve(port, reader, writer)

            self._servers[port] = await asyncio.start_server(serve, HOST, 0)
        found: int = self._servers[port].sockets[0].getsockname()[1]
        return found

    async def _close(self) -> None:
        for server in self._servers.values():
            server.close()
        for task in self._links:
            task.cancel()
        await asyncio.gather(*self._links, return_exceptions=True)

    async def _serve(self, port: int, reader: StreamReader, writer: StreamWriter) -> None:
        """One connection, until either side ends it."""
        task = asyncio.current_task()
        assert task is not None
        self._links.add(task)
        # A broker that is dead refuses, and one that is killed resets.
        with closing(writer), suppress(OSError, asyncio.CancelledError):
            inner, outer = await asyncio.open_connection(HOST, port)
            with closing(outer):
                link = Link(self._profile, self._refuse, self._relay_of)
                pumps = [
                    asyncio.create_task(link.ask(reader, outer)),
                    asyncio.create_task(link.answer(inner, writer)),
                ]
                try:
                    await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for pump in pumps:
                        pump.cancel()
                    await asyncio.gather(*pumps, return_exceptions=True)
        self._links.discard(task)

    def _refuse(self, header: RequestHeader) -> None:
        known = header.api_key in set(ApiKey)
        name = ApiKey(header.api_key).name if known else str(header.api_key)
        self._refused.append(f"{header.client_id}: {name} {header.api_version}")
