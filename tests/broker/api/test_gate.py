"""What clients see of a broker that is starting: silence, and then an answer."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from ottla.broker.api import gate as gates
from ottla.broker.api.gate import WAIT_MS_MAX, Gate
from ottla.broker.engine.context import Paused
from ottla.broker.network.request import END_CONNECTION, Request
from ottla.broker.server.broker import Broker
from ottla.broker.system.memory_disk import MemoryDisk
from ottla.broker.system.real_disk import RealOffload, RealProcess
from ottla.coordinator.configs.broker_configs import parse_broker_config
from ottla.protocol.apis import ApiKey
from ottla.protocol.headers import RequestHeader, encode_request_header
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.ports import Ports
from ottla.wire.clock import RealClock
from ottla.wire.real import RealNet, RealRandom
from tests.broker.support.node import HandClock, quiet
from tests.support.raw_client import RawClient
from tests.support.unconnected import UnconnectedPeer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

# Long enough for an answer that is not held back to arrive.
A_MOMENT_S = 0.2


class Starting(Broker):
    """A broker whose controller takes as long as the test wants."""

    def __init__(self) -> None:
        ports = Ports(
            RealClock(), RealRandom(), RealNet(), MemoryDisk(), RealOffload(), RealProcess()
        )
        settings = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": "/data"}
        super().__init__(ports, parse_broker_config(settings).config)
        self.is_registered = asyncio.Event()
        self.may_go_on = asyncio.Event()

    async def _wait_until_ready(self) -> None:
        await super()._wait_until_ready()
        self.is_registered.set()
        await self.may_go_on.wait()

    def connect(self) -> RawClient:
        return RawClient(self.address.host, self.address.port)


@asynccontextmanager
async def starting() -> AsyncIterator[Starting]:
    broker = Starting()
    start = asyncio.create_task(broker.start())
    await broker.is_registered.wait()
    try:
        yield broker
    finally:
        broker.may_go_on.set()
        await start
        await broker.stop()


async def until_waiting(broker: Starting, count: int) -> None:
    async with asyncio.timeout(60):
        while broker.gate.waiting_count != count:
            await asyncio.sleep(0.01)


async def test_what_clients_ask_of_a_broker_that_starts_is_answered_when_it_serves() -> None:
    """A connection that is closed at its first request is a fatal error to some clients."""
    async with starting() as broker, broker.connect() as first, broker.connect() as second:
        first.send(3, ApiVersionsRequest(client_software_name="x", client_software_version="1"))
        first.send(12, MetadataRequest())
        second.send(12, MetadataRequest())
        await until_waiting(broker, 2)
        await asyncio.sleep(A_MOMENT_S)
        waited = broker.gate.waiting_count
        broker.may_go_on.set()
        versions = await first.answer(3, ApiVersionsRequest())
        known = [await one.answer(12, MetadataRequest()) for one in (first, second)]

        assert waited == 2
        assert versions.error_code == 0
        assert versions.api_keys
        assert [len(answer.brokers) for answer in known] == [1, 1]
        assert broker.gate.waiting_count == 0


@pytest.mark.parametrize("sends_more", [False, True])
async def test_a_client_that_gives_up_leaves_its_place(
    sends_more: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients that give up and connect again would take all places while a broker starts."""
    monkeypatch.setattr(gates, "WAITING_MAX", 3)
    async with starting() as broker, broker.connect() as patient:
        patient.send(12, MetadataRequest())
        async with broker.connect() as one, broker.connect() as other:
            for client in (one, other):
                client.send(12, MetadataRequest())
                if sends_more:
                    client.send(12, MetadataRequest())
            await until_waiting(broker, 3)
        await until_waiting(broker, 1)
        async with broker.connect() as late:
            late.send(12, MetadataRequest())
            await until_waiting(broker, 2)
            broker.may_go_on.set()
            known = [await each.answer(12, MetadataRequest()) for each in (patient, late)]

    assert [len(answer.brokers) for answer in known] == [1, 1]


async def test_a_broker_that_stops_while_it_starts_closes_what_waits_at_once() -> None:
    """Nothing is drained that would never be answered."""
    broker = Starting()
    start = asyncio.create_task(broker.start())
    await broker.is_registered.wait()
    async with broker.connect() as client:
        client.send(12, MetadataRequest())
        await until_waiting(broker, 1)
        start.cancel()
        before = broker.ports.clock.now_ms()
        stop = asyncio.create_task(broker.stop())
        with pytest.raises(EOFError):
            await client.frame()
        closed_ms = broker.ports.clock.now_ms() - before
        await stop

    # Draining takes five seconds when there is something to wait for.
    assert closed_ms < 4_000


class Site:
    """A gate alone, in hand-made time."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.gate = Gate(7, self.clock)
        self.seen: list[bytes] = []
        self.dispatch = self.gate.guard(self.behind)
        self.tasks: list[asyncio.Task[None]] = []

    def behind(self, _peer: Any, frame: memoryview, _reply: Any) -> Coroutine[Any, Any, None]:
        async def handle() -> None:
            self.seen.append(bytes(frame))

        return handle()

    async def ask(
        self, key: int, client_id: str | None = "app", peer: UnconnectedPeer | None = None
    ) -> Any:
        """What is left of the request when nothing more happens by itself."""
        frame = bytearray()
        encode_request_header(frame, RequestHeader(key, 0, 1, client_id))
        request = Request(peer or UnconnectedPeer())
        outcome = self.dispatch(request.owner, memoryview(frame), request)
        if isinstance(outcome, Paused):
            self.tasks.append(asyncio.ensure_future(outcome.coroutine))
        elif outcome is not None:
            await outcome
        await quiet()
        return request


@pytest.mark.parametrize(
    "key",
    [
        ApiKey.LEADER_AND_ISR,
        ApiKey.UPDATE_METADATA,
        ApiKey.STOP_REPLICA,
        ApiKey.CONTROLLED_SHUTDOWN,
    ],
)
async def test_the_controllers_requests_are_carried_out_at_once(key: ApiKey) -> None:
    """Without the controller's requests the broker would never leave its start."""
    site = Site()
    await site.ask(key)

    assert len(site.seen) == 1


@pytest.mark.parametrize(
    ("client_id", "is_answered"),
    [
        ("controller-3-to-7", True),
        ("watch-0-to-7", True),
        ("controller-3-to-77", False),
        ("app", False),
        ("", False),
        (None, False),
    ],
)
async def test_brokers_alone_learn_the_versions_early(
    client_id: str | None, is_answered: bool
) -> None:
    """The controller asks for them before it says anything; a client that knew them would choose
    this broker over one that serves."""
    site = Site()
    await site.ask(ApiKey.API_VERSIONS, client_id)

    assert bool(site.seen) is is_answered
    site.gate.open()
    await asyncio.gather(*site.tasks)
    assert len(site.seen) == 1


async def test_no_client_waits_for_longer_than_its_limit() -> None:
    """The store may be away for hours."""
    site = Site()
    request = await site.ask(ApiKey.METADATA)
    await site.clock.advance(WAIT_MS_MAX - 1)
    await quiet()
    before = request.parts
    await site.clock.advance(1)
    await quiet()

    assert before is None
    assert request.parts is END_CONNECTION
    assert site.gate.waiting_count == 0
    assert site.seen == []


async def test_so_many_wait_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them holds memory."""
    monkeypatch.setattr(gates, "WAITING_MAX", 2)
    site = Site()
    requests = [await site.ask(ApiKey.METADATA) for _ in range(3)]
    ends = [request.parts for request in requests]
    site.gate.open()
    await asyncio.gather(*site.tasks)

    assert ends == [None, None, END_CONNECTION]
    assert len(site.seen) == 2


async def test_a_client_that_has_gone_when_the_broker_serves_is_passed_over() -> None:
    """The client has closed its connection and asks another broker by then."""
    site, peer = Site(), UnconnectedPeer()
    await site.ask(ApiKey.METADATA, peer=peer)
    peer.closed = True
    site.gate.open()
    await asyncio.gather(*site.tasks)

    assert site.seen == []
