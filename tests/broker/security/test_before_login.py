"""Nothing is executed before the login: every API at every place, and any bytes instead of it."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import AsyncExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.broker.api.dispatch import Dispatcher
from ottla.broker.api.table import TABLE
from ottla.broker.security.exchanges import PlainExchange
from ottla.protocol.apis import API, ApiKey
from ottla.protocol.compile import encode
from ottla.protocol.headers import RequestHeader, encode_request_header
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.broker.security.test_login import HANDSHAKE, RIGHT, VERSIONS, log_in
from tests.broker.security.test_tls_clients import listener
from tests.support.in_process import running_broker
from tests.support.sasl_broker import sasl_settings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from tests.support.in_process import RunningBroker
    from tests.support.raw_client import RawClient

    Begin = Callable[[RunningBroker, RawClient], Awaitable[object]]

OF_LOGIN = (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
SETTINGS = sasl_settings("PLAIN", "SCRAM-SHA-256", connection_failed_authentication_delay_ms="0")


@contextmanager
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, str]]]:
    """API keys and principals of the clients' requests that reach the dispatcher."""
    seen: list[tuple[int, str]] = []
    dispatch = Dispatcher.dispatch

    def watch(self: Dispatcher, peer: Any, frame: memoryview, reply: Any) -> Any:
        if peer.listener != "BROKERS":
            seen.append((int.from_bytes(frame[:2]), peer.principal))
        return dispatch(self, peer, frame, reply)

    with monkeypatch.context() as patch:
        patch.setattr(Dispatcher, "dispatch", watch)
        yield seen


def frame_of(key: int) -> bytes:
    """A request of the API that a decoder takes, where the defaults make one."""
    version = TABLE[key].max_version if key in TABLE else 0
    out = bytearray()
    encode_request_header(out, RequestHeader(key, version, 1, "sneaky"))
    if key in TABLE:
        try:
            out += encode(TABLE[key].request(), version)
        except (TypeError, ValueError):
            out += bytes(64)
    return bytes(out)


async def _to_the_end(client: RawClient) -> None:
    while True:
        try:
            await client.frame()
        except EOFError:
            return


async def _twice_versions(_running: RunningBroker, client: RawClient) -> None:
    for _ in range(2):
        await client.call(3, VERSIONS)


async def _raw_tokens(_running: RunningBroker, client: RawClient) -> None:
    await client.call(0, HANDSHAKE)


async def _between_two_tokens(_running: RunningBroker, client: RawClient) -> None:
    await client.call(1, SaslHandshakeRequest("SCRAM-SHA-256"))
    answer = await client.call(2, SaslAuthenticateRequest(b"n,,n=alice,r=abcdefghijkl"))
    assert answer.auth_bytes


async def _expired(running: RunningBroker, client: RawClient) -> None:
    await log_in(client)
    sessions = running.broker.parts.logins._sessions
    for session in list(sessions.values()):
        session.login.expire()


PLACES = [_twice_versions, _raw_tokens, _between_two_tokens, _expired]


@pytest.mark.parametrize("begin", PLACES)
async def test_every_api_is_closed_at_every_place(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tried (SEC-05): each API as the third frame, among tokens, and after a session's end."""
    with watched(monkeypatch) as seen:
        async with running_broker(SETTINGS) as running:
            for key in sorted(API.keys() - OF_LOGIN):
                async with running.connect() as client:
                    await begin(running, client)
                    client.send_frame(frame_of(key))
                    await _to_the_end(client)
    assert {key for key, _principal in seen} <= {ApiKey.API_VERSIONS}


async def test_behind_a_right_token_every_api_waits_for_its_verdict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tried (SEC-05): login and request in one segment, while the password is being checked."""
    gate, waiting = asyncio.Event(), asyncio.Semaphore(0)
    respond = PlainExchange.respond

    async def slow(self: PlainExchange, token: bytes) -> Any:
        waiting.release()
        await gate.wait()
        return await respond(self, token)

    keys = sorted(API.keys() - OF_LOGIN)
    monkeypatch.setattr(PlainExchange, "respond", slow)
    with watched(monkeypatch) as seen:
        async with AsyncExitStack() as stack:
            running = await stack.enter_async_context(running_broker(SETTINGS))
            clients = [await stack.enter_async_context(running.connect()) for _ in keys]
            for client, key in zip(clients, keys, strict=True):
                client.send(1, HANDSHAKE)
                client.send(2, SaslAuthenticateRequest(RIGHT))
                client.send_frame(frame_of(key))
            for _ in keys:
                await waiting.acquire()
            assert seen == []
            gate.set()
            async with asyncio.timeout(60):
                while len(seen) < len(keys):
                    await asyncio.sleep(0.01)
    assert {principal for _key, principal in seen} == {"User:alice"}


def _frame(key: int, version: int, body: bytes) -> bytes:
    out = bytearray()
    encode_request_header(out, RequestHeader(key, version, 1, "x"))
    return bytes(out) + body


TOKENS = st.one_of(
    st.binary(max_size=80),
    st.sampled_from(
        [b"\0alice\0", b"n,,n=alice,r=", b"n,,\x01auth=Bearer ", b"c=biws,r=a,p=", b"p="]
    ).flatmap(lambda head: st.binary(max_size=40).map(lambda rest: head + rest)),
)
MECHANISMS = st.sampled_from(["PLAIN", "SCRAM-SHA-256", "GSSAPI", "plain", "PLAIN\0", ""])
FRAMES = st.one_of(
    st.tuples(MECHANISMS, st.integers(0, 1)).map(
        lambda one: _frame(17, one[1], encode(SaslHandshakeRequest(one[0]), one[1]))
    ),
    st.tuples(TOKENS, st.integers(0, 2)).map(
        lambda one: _frame(36, one[1], encode(SaslAuthenticateRequest(one[0]), one[1]))
    ),
    st.tuples(st.integers(-1, 80), st.integers(-1, 14), st.binary(max_size=60)).map(
        lambda one: _frame(*one)
    ),
    st.binary(max_size=200),
    TOKENS,
)


@contextmanager
def _attacked(options: dict[str, str]) -> Iterator[tuple[asyncio.Runner, RunningBroker]]:
    """A broker on the loop of a runner, so that generated attempts follow each other."""
    with asyncio.Runner() as runner:
        manager = running_broker(options)
        running = runner.run(manager.__aenter__())
        try:
            yield runner, running
        finally:
            runner.run(manager.__aexit__(None, None, None))


def test_malformed_logins_execute_no_request_and_stop_no_broker(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Tried: generated frames in any order, whole and cut, where a login belongs."""
    with watched(monkeypatch) as seen, _attacked(SETTINGS) as (runner, running):

        async def send(frames: list[bytes], cut: int) -> None:
            async with running.connect() as client:
                data = b"".join(len(frame).to_bytes(4) + frame for frame in frames)
                client.send_bytes(data[: len(data) - cut])
                client.send_eof()
                await _to_the_end(client)

        @settings(derandomize=True, max_examples=300)
        @given(st.lists(FRAMES, min_size=1, max_size=5), st.integers(0, 20))
        def attempt(frames: list[bytes], cut: int) -> None:
            runner.run(send(frames, cut))

        attempt()
        assert runner.run(_logs_in(running))
    assert {key for key, who in seen if who != "User:alice"} <= {ApiKey.API_VERSIONS}
    assert [record for record in caplog.records if record.levelname in ("ERROR", "CRITICAL")] == []


async def _logs_in(running: RunningBroker) -> bool:
    async with running.connect() as client:
        return bool((await log_in(client)).error_code == 0)


def _hello() -> bytes:
    """What a client of the standard library begins with."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    outgoing = ssl.MemoryBIO()
    session = context.wrap_bio(ssl.MemoryBIO(), outgoing)
    with pytest.raises(ssl.SSLWantReadError):
        session.do_handshake()
    return outgoing.read()


def _spoiled(hello: bytes, changes: list[tuple[int, int]], length: int, tail: bytes) -> bytes:
    made = bytearray(hello)
    for place, byte in changes:
        made[place % len(made)] = byte
    return bytes(made[: length % (len(made) + 1)]) + tail


SPOILED = st.builds(
    _spoiled,
    st.just(_hello()),
    st.lists(st.tuples(st.integers(0, 600), st.integers(0, 255)), max_size=4),
    st.one_of(st.just(-1), st.integers(0, 600)),
    st.binary(max_size=40),
)


def test_malformed_handshakes_end_without_harm(caplog: pytest.LogCaptureFixture) -> None:
    """Tried: hellos of TLS with changed, missing and additional bytes, ten at a time."""
    with _attacked(listener()) as (runner, running):

        async def send(data: bytes) -> None:
            async with running.connect() as client:
                client.send_bytes(data)
                client.send_eof()
                await _to_the_end(client)

        async def send_all(hellos: list[bytes]) -> None:
            async with asyncio.timeout(60):
                await asyncio.gather(*map(send, hellos))

        @settings(derandomize=True, max_examples=30)
        @given(st.lists(SPOILED, min_size=10, max_size=10))
        def attempt(hellos: list[bytes]) -> None:
            runner.run(send_all(hellos))

        attempt()
        handshakes = running.broker.network.handshakes
        assert handshakes.failed_count > 200
        runner.run(asyncio.sleep(0.2))
        assert handshakes.running_count == 0
    assert [record for record in caplog.records if record.levelname in ("ERROR", "CRITICAL")] == []
