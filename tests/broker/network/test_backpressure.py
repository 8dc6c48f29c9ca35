"""Limits: what is not read, so that what is held stays bounded."""

from __future__ import annotations

import asyncio
import struct
from typing import TYPE_CHECKING

import pytest

from ottla.broker.network.settings import NetworkSettings
from tests.support.loops import on_each_reader
from tests.support.network_site import Site

if TYPE_CHECKING:
    from tests.support.network_site import Client

MIB = 1024 * 1024


async def waits(client: Client) -> bool:
    """Whether no answer comes while everything else has had time to happen."""
    answer = asyncio.ensure_future(client.reader.read(1))
    done, _ = await asyncio.wait([answer], timeout=0.05)
    answer.cancel()
    await asyncio.wait([answer])
    return not done


@pytest.mark.requirement("NET-05")
@on_each_reader
async def test_full_request_queue_stops_reading_and_drops_nothing() -> None:
    """All handlers busy and the queue full: requests wait where they are, none is refused."""
    settings = NetworkSettings(handlers=2, queued_requests_max=3)
    async with Site(settings) as site:
        clients = [await site.connect() for _ in range(12)]
        for number, client in enumerate(clients):
            client.send(f"suspend:{number}".encode(), f"echo:{number}".encode())
        await site.until(lambda: site.server.diagnostics().request_queue.parked_count == 7)
        status = site.server.diagnostics()
        assert status.request_queue.queued_count == 3
        assert [bool(handler.serving) for handler in status.handlers] == [True, True]
        assert len(site.toy.requests) == 2
        for number in range(12):
            site.toy.open_gate(str(number))

        for number, client in enumerate(clients):
            assert await client.answer() == f"suspended {number}".encode()
            assert await client.answer() == f"echo {number}".encode()
        status = site.server.diagnostics()
        assert (status.request_queue.queued_count, status.request_queue.parked_count) == (0, 0)


@on_each_reader
async def test_queued_request_of_a_lost_connection_is_never_started() -> None:
    """Work for clients that have gone must not take handlers from those that wait."""
    async with Site(NetworkSettings(handlers=1)) as site:
        busy, lost, waiting = [await site.connect() for _ in range(3)]
        lost.send(b"park:1", b"park:2")
        await site.until(lambda: len(site.toy.parked) == 2)
        busy.send(b"suspend:a")
        await site.until(lambda: "a" in site.toy.gates)
        lost.send(b"echo:never")
        waiting.send(b"echo:2")
        await site.until(lambda: site.server.diagnostics().request_queue.queued_count == 2)
        lost.writer.transport.abort()
        await asyncio.sleep(0.01)
        site.toy.parked["1"].send([b"provokes a reset"])
        await asyncio.sleep(0.01)
        site.toy.parked["2"].send([b"finds the peer gone"])
        await site.until(lambda: site.server.connection_count == 2)
        site.toy.open_gate("a")

        assert await busy.answer() == b"suspended a"
        assert await waiting.answer() == b"echo 2"
        assert b"echo:never" not in site.toy.requests


@on_each_reader
async def test_unanswered_requests_of_one_connection_are_limited() -> None:
    """A client may pipeline as it likes; what it has in flight here stays bounded."""
    async with Site(NetworkSettings(unanswered_requests_max=4)) as site:
        client = await site.connect()
        client.send(*(f"park:{number}".encode() for number in range(10)))
        await site.until(lambda: len(site.toy.parked) == 4)
        assert await waits(client)
        assert len(site.toy.parked) == 4
        site.toy.parked["0"].send([b"0"])
        await site.until(lambda: len(site.toy.parked) == 5)
        for number in range(1, 10):
            await site.until(lambda number=number: str(number) in site.toy.parked)
            site.toy.parked[str(number)].send([str(number).encode()])

        assert await client.answers(10) == [str(number).encode() for number in range(10)]


@pytest.mark.requirement("NET-07")
@on_each_reader
async def test_peer_that_does_not_read_its_answers_is_not_read_from() -> None:
    """A stalled reader costs one answer's memory, however much it asks for (N-05)."""
    async with Site(NetworkSettings(unsent_bytes_max=MIB)) as site:
        stalled, other = await site.connect(), await site.connect()
        stalled.writer.transport.pause_reading()  # type: ignore[attr-defined]
        stalled.send(*[b"big:1000000"] * 200)
        await asyncio.sleep(0.05)
        started_count = len(site.toy.requests)
        assert started_count < 20
        other.send(b"echo:1")
        assert await other.answer() == b"echo 1"
        stalled.writer.transport.resume_reading()  # type: ignore[attr-defined]

        for _ in range(200):
            assert len(await stalled.answer()) == 1_000_000


@on_each_reader
async def test_slow_senders_share_one_budget_and_small_requests_pass_by() -> None:
    """Many unfinished requests must not add up (N-02), nor keep the others out."""
    settings = NetworkSettings(queued_request_bytes_max=4 * MIB)
    async with Site(settings) as site:
        slow = [await site.connect() for _ in range(20)]
        for client in slow:
            client.writer.write(struct.pack(">i", 3 * MIB) + b"echo:" + bytes(2 * MIB))
        await asyncio.sleep(0.1)
        assert site.server.diagnostics().unfinished_request_bytes <= 4 * MIB + 3 * MIB + MIB
        small = await site.connect()
        small.send(b"echo:small")
        assert await small.answer() == b"echo small"
        for client in slow:
            client.writer.write(bytes(MIB - 5))

        for client in slow:
            assert len(await client.answer()) == 3 * MIB
        assert site.server.diagnostics().unfinished_request_bytes == 0


@on_each_reader
async def test_request_that_never_finishes_is_ended_sooner_while_others_wait_for_its_memory() -> (
    None
):
    """A few slow senders could otherwise hold the whole budget for minutes (N-02)."""
    settings = NetworkSettings(
        queued_request_bytes_max=2 * MIB,
        connections_idle_ms_max=80,
        request_read_ms_max=60_000,
        request_read_pressed_ms_max=100,
    )
    async with Site(settings) as site:
        slow = [await site.connect() for _ in range(4)]

        async def drip(client: Client) -> None:
            client.writer.write(struct.pack(">i", 5 * MIB) + bytes(MIB))
            while not client.writer.is_closing():
                client.writer.write(b"x")
                await asyncio.sleep(0.01)

        drips = [asyncio.ensure_future(drip(client)) for client in slow]
        await asyncio.sleep(0.05)
        honest = await site.connect()
        honest.send(b"echo:" + bytes(MIB))

        assert len(await honest.answer()) == MIB + 5
        for client in slow:
            client.close()
        await asyncio.gather(*drips)


@on_each_reader
async def test_idle_connection_is_closed_and_a_waiting_or_muted_one_is_not() -> None:
    """connections.max.idle.ms; time in which we are the ones to act does not count
    (KAFKA-12427)."""
    async with Site(NetworkSettings(connections_idle_ms_max=500)) as site:
        idle, parked, muted, active = [await site.connect() for _ in range(4)]
        parked.send(b"park:1")
        muted.send(b"mute:2000")
        began_ms = site.clock.now_ms()
        while site.clock.now_ms() < began_ms + 1_500:
            active.send(b"echo:x")
            assert await active.answer() == b"echo x"
            await site.clock.sleep(10)

        assert await idle.is_closed()
        site.toy.parked["1"].send([b"parked"])
        assert await parked.answer() == b"parked"
        assert await muted.answer() == b"muted"
        assert await waits(muted)
        assert await muted.is_closed()


@on_each_reader
async def test_deep_pipeline_of_one_connection_leaves_turns_to_others() -> None:
    """Six hundred requests in one read must not be one turn (fairness)."""
    async with Site(NetworkSettings(processors=1, unanswered_requests_max=10_000)) as site:
        greedy, modest = await site.connect(), await site.connect()
        modest.send(b"echo:first")
        await modest.answer()
        greedy.send(*[b"echo:greedy"] * 4000)
        modest.send(b"echo:modest")
        assert await modest.answer() == b"echo modest"
        position = site.toy.requests.index(b"echo:modest")

        assert position < 1000
        assert await greedy.answers(4000) == [b"echo greedy"] * 4000
