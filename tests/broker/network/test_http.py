"""The little HTTP server: what it answers, and what it does not put up with."""

from __future__ import annotations

import asyncio
import errno
from contextlib import asynccontextmanager
from http import HTTPStatus
from http.client import parse_headers
from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple

import pytest

from ottla.broker.network.http import (
    CONNECTIONS_MAX,
    EXCHANGE_MS_MAX,
    LINES_PER_TURN,
    REQUEST_BYTES_MAX,
    HttpServer,
    Page,
)
from ottla.protocol.ports import Address
from ottla.wire.clock import RealClock, RealTimer
from ottla.wire.real import RealNet

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from ottla.protocol.ports import Listener, Net, Socket, SocketOptions

LOOPBACK = Address("127.0.0.1", 0)
LINES = [f"line {number}\n" for number in range(10 * LINES_PER_TURN)]


def _site(path: str) -> Page | None:
    if path == "/fails":
        raise ValueError("a fault of ours")
    pages: dict[str, Callable[[], Page]] = {
        "/": lambda: Page(HTTPStatus.OK, ("hello\n",)),
        "/long": lambda: Page(HTTPStatus.OK, iter(LINES)),
        "/half": lambda: Page(HTTPStatus.OK, _broken()),
        "/no": lambda: Page(HTTPStatus.SERVICE_UNAVAILABLE, ("not yet\n",)),
    }
    return pages[path]() if path in pages else None


def _broken() -> Iterator[str]:
    yield from LINES
    raise ValueError("a fault of ours, later")


class HastyClock(RealClock):
    """One on which the time for an exchange is soon over."""

    def call_at(self, deadline_ms: float, callback: Callable[[], object]) -> RealTimer:
        return super().call_at(deadline_ms - EXCHANGE_MS_MAX + 50, callback)


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes
    is_whole: bool


@asynccontextmanager
async def _serving(
    clock: RealClock | None = None, net: Net | None = None
) -> AsyncIterator[tuple[HttpServer, Address]]:
    server = HttpServer(net or RealNet(), clock or RealClock(), _site)
    address = server.bind(LOOPBACK)
    try:
        yield server, address
    finally:
        server.close()


async def _ask(address: Address, request: bytes) -> Answer:
    reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        writer.write(request)
        async with asyncio.timeout(60):
            return _parse(await reader.read())
    finally:
        writer.close()


def _parse(raw: bytes) -> Answer:
    status_line, _, rest = raw.partition(b"\r\n")
    stream = BytesIO(rest)
    headers = {name.lower(): value for name, value in parse_headers(stream).items()}
    body = bytearray()
    while size := int(stream.readline() or b"-1", 16):
        if size < 0:
            return Answer(int(status_line.split()[1]), headers, bytes(body), False)
        body += stream.read(size)
        assert stream.read(2) == b"\r\n"
    return Answer(int(status_line.split()[1]), headers, bytes(body), True)


def _get(path: str, method: str = "GET") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: broker\r\n\r\n".encode()


async def test_a_page_is_answered_and_the_connection_ended() -> None:
    """What a scraper and a health check need, and no more."""
    async with _serving() as (server, address):
        answer = await _ask(address, _get("/?name=value"))
        assert server.connection_count == 0

    assert (answer.status, answer.body, answer.is_whole) == (200, b"hello\n", True)
    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.headers["connection"] == "close"


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (_get("/other"), 404),
        (_get("/no"), 503),
        (_get("/fails"), 500),
        (_get("/", "POST"), 405),
        (b"GET /\r\n\r\n", 400),
        (b"\x00\x00\x00\x12\x00\x12\x00\x03\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * REQUEST_BYTES_MAX, 431),
    ],
)
async def test_what_is_not_to_be_had_is_said(request_bytes: bytes, status: int) -> None:
    """A probe acts on the status alone, so it must be right; odd bytes cost nothing else."""
    async with _serving() as (_server, address):
        if status == 431:
            # The connection is held until the reader has seen the answer.
            reader, writer = await asyncio.open_connection(address.host, address.port)
            writer.write(request_bytes)
            assert (await reader.readuntil(b"\r\n")).split()[1] == b"431"
            writer.close()
        else:
            assert (await _ask(address, request_bytes)).status == status
        assert (await _ask(address, _get("/"))).status == 200


async def test_a_head_has_no_body() -> None:
    """Some load balancers ask that way, and would take a body for the next answer."""
    async with _serving() as (_server, address):
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(_get("/", "HEAD"))
        raw = await reader.read()
        writer.close()

    assert raw.startswith(b"HTTP/1.1 200 OK\r\n")
    assert raw.endswith(b"\r\n\r\n")


async def test_a_long_page_takes_turns_with_everything_else() -> None:
    """Requests of clients must not wait until all figures are rendered."""
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with _serving() as (_server, address):
        task = asyncio.create_task(others())
        answer = await _ask(address, _get("/long"))
        task.cancel()

    assert answer.body == "".join(LINES).encode()
    assert answer.is_whole
    assert turns > len(LINES) // LINES_PER_TURN


async def test_a_page_that_fails_half_way_is_not_taken_for_a_whole_one() -> None:
    """Figures that end too early would look like partitions that are gone."""
    async with _serving() as (_server, address):
        answer = await _ask(address, _get("/half"))

    assert answer.status == 200
    assert not answer.is_whole


async def test_who_sends_nothing_or_reads_nothing_is_cut_off() -> None:
    """Otherwise idle connections would fill the places of those who ask."""
    async with _serving(HastyClock()) as (server, address):
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(b"GET / HT")

        assert await reader.read() == b""
        writer.close()
        assert server.connection_count == 0


async def test_more_connections_than_there_is_room_for_are_closed() -> None:
    """A scraper gone wild must not take the broker's descriptors."""
    async with _serving() as (server, address):
        idle = [
            await asyncio.open_connection(address.host, address.port)
            for _ in range(CONNECTIONS_MAX)
        ]
        while server.connection_count < CONNECTIONS_MAX:
            await asyncio.sleep(0)
        reader, writer = await asyncio.open_connection(address.host, address.port)
        assert await reader.read() == b""
        idle[0][1].close()
        while server.connection_count == CONNECTIONS_MAX:
            await asyncio.sleep(0)

        assert (await _ask(address, _get("/"))).status == 200

        for _reader, one in [*idle, (reader, writer)]:
            one.close()


class ExhaustedListener:
    """Out of descriptors: readable, and nothing can be accepted."""

    address = LOOPBACK

    def __init__(self) -> None:
        self.callbacks: list[Callable[[], object] | None] = []

    def accept(self) -> Socket:
        raise OSError(errno.EMFILE, "too many open files")

    def on_readable(self, callback: Callable[[], object] | None) -> None:
        self.callbacks.append(callback)

    def close(self) -> None:
        """Nothing to close."""


class ExhaustedNet:
    """Listens with it."""

    def __init__(self, listener: ExhaustedListener) -> None:
        self.listener = listener

    def listen(self, _address: Address, _options: SocketOptions) -> Listener:
        return self.listener

    async def connect(self, _address: Address, _options: SocketOptions) -> Socket:
        raise OSError(errno.EMFILE, "too many open files")


async def test_without_descriptors_it_waits_instead_of_spinning() -> None:
    """The listener stays readable, and the loop would do nothing else."""
    listener = ExhaustedListener()
    async with _serving(net=ExhaustedNet(listener)):
        accept = listener.callbacks[-1]
        assert accept is not None
        accept()

        assert listener.callbacks[-1] is None
