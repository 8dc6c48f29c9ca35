"""The network of a broker as a whole: its roles, its listeners, its end."""

from __future__ import annotations

import asyncio

import pytest

from ottla.broker.network.settings import ListenerSpec, NetworkSettings
from ottla.protocol.ports import Address, SocketOptions
from ottla.wire.real import RealNet
from tests.support.loops import on_each_reader
from tests.support.network_site import LOOPBACK, Site


@pytest.mark.requirement("NET-01")
@on_each_reader
async def test_roles_are_seen_by_name_in_diagnostics() -> None:
    """num.network.threads and num.io.threads must mean something an operator can look at."""
    async with Site(NetworkSettings(processors=3, handlers=8)) as site:
        status = site.server.diagnostics()

        assert status.acceptor.name == "acceptor"
        assert [one.name for one in status.processors] == [f"processor-{n}" for n in range(3)]
        assert [one.name for one in status.handlers] == [f"handler-{n}" for n in range(8)]


@pytest.mark.requirement("NET-04")
@on_each_reader
async def test_requests_run_in_handlers_and_answers_leave_through_the_owning_processor() -> None:
    """Each connection's bytes are counted by one processor, its requests by the handlers."""
    async with Site(NetworkSettings(processors=2, handlers=2)) as site:
        first, second = await site.connect(), await site.connect()
        for _ in range(3):
            first.send(b"echo:x")
            await first.answer()
        second.send(b"park:1")
        await site.until(lambda: site.toy.parked)
        site.toy.parked["1"].send([b"late"])
        site_status = site.server.diagnostics()
        assert [one.answered_count for one in site_status.processors] == [0, 1]
        await second.answer()
        status = site.server.diagnostics()

        assert [one.request_count for one in status.processors] == [3, 1]
        assert [one.response_count for one in status.processors] == [3, 1]
        assert [one.received_bytes for one in status.processors] == [30, 10]
        assert [one.sent_bytes for one in status.processors] == [30, 8]
        assert sum(one.request_count for one in status.handlers) == 4


@on_each_reader
async def test_listener_with_handlers_of_its_own_never_waits_for_clients() -> None:
    """A LeaderAndIsr behind five hundred produces leaves a zombie leader (N-18, KIP-291)."""
    specs = [ListenerSpec("CLIENTS", LOOPBACK), ListenerSpec("CONTROL", LOOPBACK, own_handlers=1)]
    async with Site(NetworkSettings(handlers=1, queued_requests_max=1), specs) as site:
        clients = [await site.connect("CLIENTS") for _ in range(4)]
        for number, client in enumerate(clients):
            client.send(f"suspend:{number}".encode())
        await site.until(lambda: site.server.diagnostics().request_queue.parked_count == 2)
        control = await site.connect("CONTROL")
        control.send(b"echo:stop leading")

        assert await control.answer() == b"echo stop leading"
        own = site.server.diagnostics().own_handlers["CONTROL"]
        assert [(one.name, one.request_count) for one in own] == [("CONTROL-handler-0", 1)]
        assert {peer.listener for peer in site.toy.peers} == {"CLIENTS", "CONTROL"}


@on_each_reader
async def test_no_client_is_served_before_start() -> None:
    """Bound, so that the port is known; silent, because logs are still being recovered."""
    site = Site()
    client = await site.connect()
    client.send(b"echo:early")
    await asyncio.sleep(0.02)
    assert site.toy.requests == []
    async with site:
        assert await client.answer() == b"echo early"


@on_each_reader
async def test_failed_bind_leaves_nothing_bound() -> None:
    """A start that fails halfway must be repeatable in the same process."""
    taken = RealNet().listen(LOOPBACK, SocketOptions())
    async with Site() as site:
        free = RealNet().listen(LOOPBACK, SocketOptions())
        port = free.address.port
        free.close()
        specs = [
            ListenerSpec("A", Address("127.0.0.1", port)),
            ListenerSpec("B", taken.address),
        ]
        with pytest.raises(OSError, match="in use"):
            site.server.bind(specs)
        RealNet().listen(Address("127.0.0.1", port), SocketOptions()).close()
    taken.close()


@on_each_reader
async def test_stop_lets_started_requests_be_answered() -> None:
    """A clean stop loses no answer that is already on its way (N-16)."""
    async with Site() as site:
        client, idle = await site.connect(), await site.connect()
        client.send(b"park:1", b"suspend:a", b"echo:never started")
        await site.until(lambda: "a" in site.toy.gates)
        stopping = asyncio.ensure_future(site.server.stop(drain_ms=5_000))
        assert await idle.is_closed()
        site.toy.parked["1"].send([bytes(500_000)])
        site.toy.open_gate("a")

        assert len(await client.answer()) == 500_000
        assert await client.answer() == b"suspended a"
        assert await client.is_closed()
        await stopping
        assert site.toy.requests == [b"park:1", b"suspend:a"]


@on_each_reader
async def test_stop_does_not_wait_longer_than_it_may() -> None:
    """A thousand long polls must not keep the process (N-16)."""
    async with Site() as site:
        client = await site.connect()
        client.send(b"park:1")
        await site.until(lambda: site.toy.parked)
        began_ms = site.clock.now_ms()
        await site.server.stop(drain_ms=50)

        assert 50 <= site.clock.now_ms() - began_ms < 30_000
        assert await client.is_closed()
        assert site.toy.peers[0].closed


@on_each_reader
async def test_stop_refuses_connections_at_once() -> None:
    """Clients go to another broker when the port is shut, not when a timeout has passed."""
    async with Site() as site:
        site.server.stop_accepting()

        with pytest.raises(ConnectionRefusedError):
            await site.connect()
