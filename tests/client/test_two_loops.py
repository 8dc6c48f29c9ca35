"""A client belongs to the event loop that it was started in, and raises an error in another one.

It used to wait for answers that arrive in the other loop: for a minute, or for ever.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import ottla
from ottla.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

P0 = TopicPartition("t", 0)
SENTENCE = "used and closed in the event loop that it was started in"
CALLS: list[tuple[type[Any], dict[str, Any], Callable[[Any], Awaitable[object]]]] = [
    (ottla.Producer, {}, lambda it: it.send("t", b"x")),
    (ottla.Producer, {}, lambda it: it.send_batch("t", [b"x"])),
    (ottla.Producer, {}, lambda it: it.flush()),
    (ottla.Producer, {}, lambda it: it.close()),
    (ottla.Producer, {"transactional_id": "i"}, lambda it: it.init_transactions()),
    (ottla.Consumer, {"group_id": "g"}, lambda it: it.poll(100)),
    (ottla.Consumer, {"group_id": "g"}, lambda it: it.subscribe(["t"])),
    (ottla.Consumer, {"group_id": "g"}, lambda it: it.commit({P0: 1})),
    (ottla.Consumer, {"group_id": "g"}, lambda it: it.committed()),
    (ottla.Consumer, {"group_id": "g"}, lambda it: it.close()),
    (ottla.Admin, {}, lambda it: it.list_topics()),
    (ottla.Admin, {}, lambda it: it.groups.list_all()),
]


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with ottla.Cluster() as cluster:
        cluster.create_topic("t")
        yield cluster.bootstrap_servers


@pytest.mark.parametrize(("kind", "settings", "call"), CALLS)
def test_another_event_loop_is_refused(
    servers: str,
    kind: type[Any],
    settings: dict[str, Any],
    call: Callable[[Any], Awaitable[object]],
) -> None:
    """In its own loop the client keeps working."""

    async def wrongly() -> None:
        async with asyncio.timeout(10):
            await call(client)

    with asyncio.Runner() as home:
        client = kind(servers, **settings)
        home.run(client.start())
        with pytest.raises(RuntimeError, match=SENTENCE):
            asyncio.run(wrongly())
        home.run(_close(client))


def test_a_loop_that_has_ended_is_named(servers: str) -> None:
    """As when each test has an event loop and all tests share one client."""

    async def begin() -> ottla.Admin:
        admin = ottla.Admin(servers)
        await admin.start()
        return admin

    async def use() -> None:
        await admin.list_topics()

    admin = asyncio.run(begin())
    with pytest.raises(RuntimeError, match="which has been closed: make a client in each loop"):
        asyncio.run(use())
    admin.close()


async def _close(client: Any) -> None:
    ended = client.close()
    if ended is not None:
        await ended
