"""Through which processor an answer leaves, in a whole broker."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from tests.broker.support.requests import batch, create, fetch, produced
from tests.support.in_process import running_broker

PROCESSORS = 3
CONNECTIONS = 6


@pytest.mark.requirement("NET-06")
async def test_each_answer_leaves_through_the_processor_that_owns_its_connection() -> None:
    """A produce of one connection answers the fetches that wait on all the others. Each of them
    goes into the queue of its own processor, which the event of another one does not empty."""
    async with running_broker({"num.network.threads": str(PROCESSORS)}) as running:
        network = running.broker.network
        assert network is not None

        def responses() -> list[int]:
            return [one.response_count for one in network.diagnostics().processors]

        async with AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(running.connect()) for _ in range(CONNECTIONS)
            ]
            await create(clients[0])
            owner = []
            for client in clients:
                before = responses()
                await client.call(0, ApiVersionsRequest())
                owner.append([now - then for then, now in zip(before, responses(), strict=True)])
            # The first one of each processor asks once, the second one four times.
            asked = [1] * PROCESSORS + [4] * (CONNECTIONS - PROCESSORS)
            for client, count in zip(clients, asked, strict=True):
                for _ in range(count):
                    client.send(12, fetch(0, max_wait_ms=60_000, min_bytes=1))
            while running.broker.parts.shared.waiting.count < CONNECTIONS:
                await asyncio.sleep(0.01)
            before = responses()
            async with running.connect() as writer:
                assert (await produced(writer, batch(b"x"))).error_code == ErrorCode.NONE
            for client, count in zip(clients, asked, strict=True):
                for _ in range(count):
                    answer = await client.answer(12, fetch(0))
                    assert b"x" in bytes(answer.responses[0].partitions[0].records)
            sent = [now - then for then, now in zip(before, responses(), strict=True)]

    # In turn, as they came; the writer was the seventh.
    expected = [
        [int(number % PROCESSORS == one) for one in range(PROCESSORS)]
        for number in range(CONNECTIONS)
    ]
    assert owner == expected
    assert sent == [1 + 4 + 1, 1 + 4, 1 + 4]
