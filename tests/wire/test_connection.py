"""One connection, against a toy broker on a real socket."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ottla.client.cluster.cluster import METADATA
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.ports import Address, SocketOptions
from ottla.wire.clock import RealClock
from ottla.wire.connection_config import ConnectionConfig
from ottla.wire.errors import (
    AnswerTooLarge,
    BrokerUnreachable,
    ConnectionLost,
    RequestTimedOut,
    UnsupportedByBroker,
)
from ottla.wire.negotiation import connect
from ottla.wire.real import RealNet
from tests.client.support.toy_broker import Fate

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import AsyncIterator

    from ottla.wire.connection import Connection
    from tests.client.support.toy_broker import Seen, ToyCluster

CONFIG = ConnectionConfig(request_timeout_ms=5000, connect_timeout_ms=500)


async def reach(toy: ToyCluster, config: ConnectionConfig = CONFIG) -> Connection:
    """A connection to the first broker."""
    return await connect(RealNet(), RealClock(), toy.nodes[1].address, config)


def question(topic: str) -> MetadataRequest:
    """A request whose answer can be identified."""
    return MetadataRequest([MetadataRequestTopic(name=topic)])


@asynccontextmanager
async def paced(address: Address, pause_s: float) -> AsyncIterator[Address]:
    """A way to the broker that lets one answer through in that time."""

    async def ask(client: StreamReader, broker: StreamWriter) -> None:
        while chunk := await client.read(65_536):
            broker.write(chunk)
        broker.close()

    async def serve(client: StreamReader, answers: StreamWriter) -> None:
        reader, broker = await asyncio.open_connection(address.host, address.port)
        asking = asyncio.ensure_future(ask(client, broker))
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readexactly(4)
                frame = await reader.readexactly(int.from_bytes(head))
                await asyncio.sleep(pause_s)
                answers.write(head + frame)
        answers.close()
        await asking

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield Address("127.0.0.1", server.sockets[0].getsockname()[1])


async def test_what_waits_behind_others_is_late_when_they_are(toy: ToyCluster) -> None:
    """On a slow link five requests take longer than one may, and each in its turn does not."""
    config = replace(CONFIG, request_timeout_ms=1_000)
    async with paced(toy.nodes[1].address, 0.4) as address:
        connection = await connect(RealNet(), RealClock(), address, config)
        names = [f"topic-{number}" for number in range(5)]
        answers = await asyncio.gather(*(connection.send(METADATA, question(n)) for n in names))
        connection.close()
        await asyncio.sleep(0.01)

    assert [answer.topics[0].name for answer in answers] == names


@asynccontextmanager
async def with_spoiled_headers(address: Address, answer_header: bytes) -> AsyncIterator[Address]:
    """A way to the broker that passes on the first answer, and of later ones the correlation id
    and these bytes."""

    async def ask(client: StreamReader, broker: StreamWriter) -> None:
        while chunk := await client.read(65_536):
            broker.write(chunk)
        broker.close()

    async def serve(client: StreamReader, answers: StreamWriter) -> None:
        reader, broker = await asyncio.open_connection(address.host, address.port)
        asking = asyncio.ensure_future(ask(client, broker))
        is_first = True
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readexactly(4)
                frame = await reader.readexactly(int.from_bytes(head))
                if not is_first:
                    frame = frame[:4] + answer_header
                answers.write(len(frame).to_bytes(4) + frame)
                is_first = False
        answers.close()
        await asking

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield Address("127.0.0.1", server.sockets[0].getsockname()[1])


@pytest.mark.parametrize("answer_header", [b"", b"\x01", b"\xff\xff\xff\xff\xff\xff"])
async def test_a_request_fails_when_the_header_of_its_answer_is_malformed(
    toy: ToyCluster, answer_header: bytes
) -> None:
    """The connection has taken it for answered, and nothing else would end its wait."""
    async with with_spoiled_headers(toy.nodes[1].address, answer_header) as address:
        connection = await connect(RealNet(), RealClock(), address, CONFIG)
        with pytest.raises(ConnectionLost, match="its answer to Metadata is malformed") as caught:
            await asyncio.wait_for(connection.send(METADATA, question("t")), 20)
        await asyncio.sleep(0.01)

    assert caught.value.was_sent
    assert connection.closed


async def test_pipelined_requests_get_their_own_answers(toy: ToyCluster) -> None:
    """Many in flight at once, each future with the right one."""
    connection = await reach(toy)
    names = [f"topic-{number}" for number in range(100)]

    answers = await asyncio.gather(*(connection.send(METADATA, question(n)) for n in names))

    assert [answer.topics[0].name for answer in answers] == names
    assert connection.in_flight_count == 0
    connection.close()


async def test_the_newest_common_version_is_spoken(toy: ToyCluster) -> None:
    """KIP-35: neither the newest of ours nor of theirs, but of both."""
    toy.versions[ApiKey.METADATA] = (2, 7)
    connection = await reach(toy)

    await connection.send(METADATA, question("t"))

    assert toy.seen[-1].version == 7
    connection.close()


async def test_a_broker_that_speaks_no_common_version_is_named(toy: ToyCluster) -> None:
    """The sentence has to say who speaks what."""
    toy.versions[ApiKey.METADATA] = (0, 0)
    connection = await reach(toy)

    with pytest.raises(UnsupportedByBroker, match="speaks Metadata 0 to 0, this client 1 to 13"):
        connection.send(METADATA, question("t"))
    connection.close()


@pytest.mark.parametrize(("served", "spoken"), [((0, 2), 2), ((0, 0), 0)])
async def test_an_old_broker_is_asked_again_in_its_own_version(
    toy: ToyCluster, served: tuple[int, int], spoken: int
) -> None:
    """The broker answers the first ApiVersions with error 35 in version 0, with its range."""
    toy.versions[ApiKey.API_VERSIONS] = served

    def judge(seen: Seen) -> ErrorCode | None:
        too_new = seen.api_key is ApiKey.API_VERSIONS and seen.version > served[1]
        return ErrorCode.UNSUPPORTED_VERSION if too_new else None

    toy.judge = judge
    connection = await reach(toy)

    assert [seen.version for seen in toy.seen] == [3, spoken]
    assert ApiKey.METADATA in connection.versions
    connection.close()


async def test_a_lost_connection_tells_every_request_that_its_outcome_is_unknown(
    toy: ToyCluster,
) -> None:
    """All of them were sent; none may be taken for not done."""
    connection = await reach(toy)
    toy.judge = lambda seen: Fate.SWALLOW
    futures = [connection.send(METADATA, question("t")) for _ in range(3)]
    await asyncio.sleep(0.01)
    toy.nodes[1].drop_connections()

    results = await asyncio.gather(*futures, return_exceptions=True)

    assert connection.closed
    for result in results:
        assert isinstance(result, ConnectionLost)
        assert result.was_sent
        assert "unknown" in str(result)


async def test_a_request_on_a_closed_connection_was_certainly_not_sent(
    toy: ToyCluster,
) -> None:
    """The certainty makes it safe to send the request to another broker."""
    connection = await reach(toy)
    connection.close("for a test")

    with pytest.raises(ConnectionLost, match="for a test") as caught:
        await connection.send(METADATA, question("t"))

    assert not caught.value.was_sent


async def test_a_request_that_never_left_the_process_was_not_sent(toy: ToyCluster) -> None:
    """Behind a full socket buffer: the first is half out, the second not at all."""
    config = ConnectionConfig(socket=SocketOptions(send_buffer_bytes=4096))
    connection = await reach(toy, config)
    toy.nodes[1].connections[0].stop_reading()
    large = MetadataRequest([MetadataRequestTopic(name="x" * 30_000)] * 400)
    first = connection.send(METADATA, large)
    second = connection.send(METADATA, question("t"))
    await asyncio.sleep(0.01)
    connection.close()

    results = await asyncio.gather(first, second, return_exceptions=True)

    assert [r.was_sent for r in results if isinstance(r, ConnectionLost)] == [True, False]


async def test_a_large_request_goes_out_in_pieces(toy: ToyCluster) -> None:
    """More than any socket buffer, with a small one right behind it."""
    connection = await reach(toy, ConnectionConfig(socket=SocketOptions(send_buffer_bytes=4096)))
    large = MetadataRequest([MetadataRequestTopic(name="x" * 30_000)] * 100)

    answers = await asyncio.gather(
        connection.send(METADATA, large), connection.send(METADATA, question("t"))
    )

    assert [len(answer.topics) for answer in answers] == [100, 1]
    connection.close()


async def test_a_late_answer_ends_the_connection(toy: ToyCluster) -> None:
    """A late answer would otherwise be taken for the answer to the next request."""
    connection = await reach(toy)
    toy.judge = lambda seen: Fate.SILENCE
    slow = connection.send(METADATA, question("t"), timeout_ms=20)
    behind = connection.send(METADATA, question("u"), timeout_ms=5000)

    results = await asyncio.gather(slow, behind, return_exceptions=True)

    assert isinstance(results[0], RequestTimedOut)
    assert "no answer to Metadata within 20 ms" in str(results[0])
    assert isinstance(results[1], ConnectionLost)
    assert connection.closed


async def test_a_time_limit_counts_for_its_own_request_only(toy: ToyCluster) -> None:
    """An answered request's deadline must not end the connection later."""
    connection = await reach(toy)
    await connection.send(METADATA, question("t"), timeout_ms=1_000)
    await asyncio.sleep(1.1)

    await connection.send(METADATA, question("u"))

    assert not connection.closed
    connection.close()


async def test_an_answer_that_is_too_large_is_refused_at_once(toy: ToyCluster) -> None:
    """A whole answer that follows another one is refused, too; its request used to time out."""
    connection = await reach(toy, replace(CONFIG, response_bytes_max=4096))
    small = connection.send(METADATA, question("small"))
    names = [MetadataRequestTopic(name=f"topic-{number}") for number in range(500)]
    large = connection.send(METADATA, MetadataRequest(names))

    assert (await small).topics[0].name == "small"
    with pytest.raises(AnswerTooLarge, match="and 4096 are allowed"):
        await large
    assert connection.closed


async def test_a_future_that_was_given_up_does_not_disturb_the_others(
    toy: ToyCluster,
) -> None:
    """Its answer still comes and has to be taken off the wire."""
    connection = await reach(toy)
    given_up = connection.send(METADATA, question("t"))
    given_up.cancel()

    answer = await connection.send(METADATA, question("u"))

    assert answer.topics[0].name == "u"
    connection.close()


async def test_a_missing_listener_is_told_with_the_address(toy: ToyCluster) -> None:
    """The sentence that a person sees first."""
    address = toy.nodes[1].address
    toy.close()

    with pytest.raises(BrokerUnreachable, match=f"at {address}: connection refused"):
        await connect(RealNet(), RealClock(), address, CONFIG)


@pytest.mark.parametrize(
    ("greeting", "expected"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "broke the protocol"),
        (b"\0\0\0\5\0\0\0\0\x7f", "malformed"),
        (b"\0\0\0\6\0\0\0\7\0\0", "while 0 was due"),
        (b"", "closed it|reset by peer"),
    ],
)
async def test_something_else_than_a_broker_is_recognised(greeting: bytes, expected: str) -> None:
    """A wrong port must not look like a broken cluster, nor hang."""

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    async with server:
        with pytest.raises(BrokerUnreachable, match=expected):
            await connect(RealNet(), RealClock(), Address(host, port), CONFIG)


async def test_a_broker_that_says_nothing_is_given_up_in_time(toy: ToyCluster) -> None:
    """Connecting to a port that accepts and is silent must end."""
    toy.judge = lambda seen: Fate.SWALLOW

    with pytest.raises(BrokerUnreachable, match="no answer to ApiVersions within 1000 ms"):
        await reach(toy, ConnectionConfig(connect_timeout_ms=1_000))


async def test_the_end_of_a_connection_is_told_once(toy: ToyCluster) -> None:
    """The pool and others clean up behind it."""
    connection = await reach(toy)
    told: list[str] = []
    connection.on_close(lambda: told.append("early"))
    connection.close()
    connection.close()
    connection.on_close(lambda: told.append("late"))

    assert told == ["early", "late"]
