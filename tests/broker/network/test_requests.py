"""Requests and answers of one connection: order, lanes, failures, endings."""

from __future__ import annotations

import asyncio
import random
import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.broker.network.settings import NetworkSettings
from tests.support.loops import on_each_reader
from tests.support.network_site import Site

if TYPE_CHECKING:
    from ottla.broker.engine.context import ReplySlot


@pytest.mark.requirement("NET-09")
@on_each_reader
async def test_pipelined_requests_are_answered_in_request_order() -> None:
    """A client matches answers to requests by their order (N-08)."""
    async with Site() as site:
        client = await site.connect()
        client.send(b"park:1", b"park:2", b"echo:3")
        await site.until(lambda: len(site.toy.requests) == 3)
        site.toy.parked["2"].send([b"two"])
        site.toy.parked["1"].send([b"one"])

        assert await client.answers(3) == [b"one", b"two", b"echo 3"]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(["park", "echo", "skip"]), max_size=40), st.randoms())
def test_answers_leave_in_order_whatever_the_order_of_completion(
    names: list[str], order: random.Random
) -> None:
    """N-08 under random completion: no answer is lost, none overtakes, acks=0 yields none."""

    async def exchange() -> list[bytes]:
        async with Site() as site:
            client = await site.connect()
            client.send(*(f"{name}:{number}".encode() for number, name in enumerate(names)))
            await site.until(lambda: len(site.toy.requests) == len(names))
            parked = list(site.toy.parked.items())
            order.shuffle(parked)
            for number, reply in parked:
                reply.send([b"echo " + number.encode()])
                if order.random() < 0.3:
                    await asyncio.sleep(0)
            return await client.answers(sum(name != "skip" for name in names))

    expected = [f"echo {number}".encode() for number, name in enumerate(names) if name != "skip"]
    assert asyncio.run(exchange()) == expected


@on_each_reader
async def test_frames_in_any_pieces_are_put_together() -> None:
    """TCP cuts where it likes, also inside the length."""
    requests = [b"echo:" + bytes([65 + number]) * number * 50 for number in range(20)]
    stream = b"".join(struct.pack(">i", len(one)) + one for one in requests)
    async with Site() as site:
        client = await site.connect()
        for start in range(0, len(stream), 333):
            client.writer.write(stream[start : start + 333])
            await asyncio.sleep(0)

        assert await client.answers(20) == [b"echo " + one[5:] for one in requests]


@on_each_reader
async def test_large_requests_and_answers_cross_whole() -> None:
    """Produce and fetch of several megabytes: growth, partial writes, resumption."""
    async with Site() as site:
        client = await site.connect()
        sizes = [100_000, 1_048_700, 5_000_000, 10, 2_000_000]
        requests = [b"echo:" + random.Random(size).randbytes(size) for size in sizes]
        client.send(*requests)

        for request in requests:
            assert await client.answer() == b"echo " + request[5:]
        assert site.server.diagnostics().unfinished_request_bytes == 0


@on_each_reader
async def test_next_request_waits_while_the_ordered_part_is_suspended() -> None:
    """Two batches of one producer must not overtake each other while one is being checked."""
    async with Site() as site:
        client = await site.connect()
        client.send(b"suspend:a", b"echo:1")
        await site.until(lambda: "a" in site.toy.gates)
        client.send(b"echo:2")
        await asyncio.sleep(0.02)
        assert site.toy.requests == [b"suspend:a"]
        site.toy.open_gate("a")

        assert await client.answers(3) == [b"suspended a", b"echo 1", b"echo 2"]


@on_each_reader
async def test_suspended_connection_does_not_hold_up_others() -> None:
    """The lane is one connection's, not the processor's."""
    async with Site(NetworkSettings(processors=1)) as site:
        slow, quick = await site.connect(), await site.connect()
        slow.send(b"suspend:a")
        await site.until(lambda: "a" in site.toy.gates)
        quick.send(b"echo:1")

        assert await quick.answer() == b"echo 1"
        site.toy.open_gate("a")
        assert await slow.answer() == b"suspended a"


@pytest.mark.parametrize("name", ["fail", "fail_late"])
@on_each_reader
async def test_exception_out_of_a_handler_closes_that_connection_and_nothing_else(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A fault in one request must be seen in the log and by one client only."""
    async with Site() as site:
        failing, other = await site.connect(), await site.connect()
        failing.send(b"echo:1", f"{name}:".encode(), b"echo:2")

        assert await failing.answer() == b"echo 1"
        assert await failing.is_closed()
        other.send(b"echo:3")
        assert await other.answer() == b"echo 3"
        assert [handler.serving for handler in site.server.diagnostics().handlers] == [""] * 8
    assert "handler-0 failed on connection" in caplog.text
    assert "a fault of ours" in caplog.text


@on_each_reader
async def test_close_lets_earlier_answers_leave_first() -> None:
    """An unsupported version ends the connection, but not what was asked correctly before."""
    async with Site() as site:
        client = await site.connect()
        client.send(b"park:1", b"close:because", b"echo:3")
        await site.until(lambda: len(site.toy.requests) == 2)
        # Unread bytes make the kernel answer a close with a reset, which would destroy the answer
        # on its way.
        client.send(b"echo:4")
        await asyncio.sleep(0.01)
        site.toy.parked["1"].send([bytes(300_000)])

        assert await client.answer() == bytes(300_000)
        assert await client.reader.read() == b"", "an orderly end, not a reset"
        assert site.toy.requests == [b"park:1", b"close:because"]


@on_each_reader
async def test_answer_after_the_peer_has_gone_is_dropped_and_its_owner_told_once() -> None:
    """Parked requests of lost clients must free what waits for them (N-09)."""
    async with Site() as site:
        client = await site.connect()
        client.send(b"park:1")
        await site.until(lambda: site.toy.parked)
        peer = site.toy.peers[0]
        calls: list[str] = []
        peer.on_close(lambda: calls.append("registered before"))
        client.close()
        await site.until(lambda: peer.closed)
        peer.on_close(lambda: calls.append("registered after"))
        site.toy.parked["1"].send([b"too late"])
        await asyncio.sleep(0.01)

        assert calls == ["registered before", "registered after"]
        assert site.server.connection_count == 0


@on_each_reader
async def test_frame_of_a_suspended_handler_outlives_its_connection() -> None:
    """Its buffer must not serve another connection while the handler still reads it."""
    async with Site() as site:
        client, other = await site.connect(), await site.connect()
        client.send(b"park:1", b"park:2", b"suspend:a")
        await site.until(lambda: "a" in site.toy.gates)
        client.writer.transport.abort()
        await asyncio.sleep(0.01)
        site.toy.parked["1"].send([b"provokes a reset"])
        await asyncio.sleep(0.01)
        site.toy.parked["2"].send([b"finds the peer gone"])
        await site.until(lambda: site.toy.peers[0].closed)
        for _ in range(20):
            other.send(b"echo:" + b"x" * 100)
            await other.answer()
        site.toy.open_gate("a")
        await site.until(lambda: not site.tasks.names)

        assert site.toy.faults == []


@on_each_reader
async def test_muted_connection_is_answered_and_then_not_read_for_that_long() -> None:
    """KIP-219: the client learns its throttle time at once; what it sends meanwhile waits."""
    async with Site() as site:
        client = await site.connect()
        began_ms = site.clock.now_ms()
        client.send(b"mute:1200", b"echo:1")
        assert await client.answer() == b"muted"
        assert site.clock.now_ms() - began_ms < 1_000
        client.send(b"echo:2")

        assert await client.answers(2) == [b"echo 1", b"echo 2"]
        assert site.clock.now_ms() - began_ms >= 1_200


@pytest.mark.parametrize(
    "first_bytes",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\xff\xff\xff\xff",
        struct.pack(">i", 104_857_601),
    ],
)
@on_each_reader
async def test_foreign_protocols_and_absurd_lengths_close_the_connection(
    first_bytes: bytes,
) -> None:
    """The first four bytes decide an allocation, and any process can send them (N-01)."""
    async with Site() as site:
        client = await site.connect()
        client.writer.write(first_bytes)

        assert await client.is_closed()
        assert site.toy.requests == []


@on_each_reader
async def test_malformed_length_lets_earlier_answers_leave() -> None:
    """A parse error ends the connection (N-08), not the answers already owed."""
    async with Site() as site:
        client = await site.connect()
        client.send(b"park:1")
        client.writer.write(b"\x80\x00\x00\x00")
        await site.until(lambda: site.toy.parked)
        await asyncio.sleep(0.01)
        site.toy.parked["1"].send([b"one"])

        assert await client.answer() == b"one"
        assert await client.is_closed()


@on_each_reader
async def test_requests_sent_before_a_half_close_are_served() -> None:
    """A producer with acks=0 sends and hangs up; what arrived must be appended."""
    async with Site() as site:
        client = await site.connect()
        client.send(*[b"skip:"] * 200)
        client.writer.write_eof()
        await site.until(lambda: site.server.connection_count == 0)

        assert len(site.toy.requests) == 200


@on_each_reader
async def test_request_cannot_be_answered_twice() -> None:
    """A second answer would go to the wrong request of the client."""
    async with Site() as site:
        client = await site.connect()
        client.send(b"park:1", b"park:2")
        await site.until(lambda: len(site.toy.parked) == 2)
        reply: ReplySlot = site.toy.parked["1"]
        reply.send([b"one"])

        with pytest.raises(AssertionError):
            reply.send([b"again"])
        with pytest.raises(AssertionError):
            reply.skip()
