"""Accepting: fair shares, limits, storms and exhausted descriptors."""

from __future__ import annotations

import asyncio
import errno
import resource
from typing import TYPE_CHECKING

import pytest

from ottla.broker.network.settings import ListenerSpec, NetworkSettings
from ottla.broker.quotas.connections import ConnectionLimits
from ottla.wire.real import RealNet
from tests.support.loops import on_each_reader
from tests.support.network_site import LOOPBACK, Site

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.protocol.ports import Address, SocketOptions
    from ottla.wire.real import RealListener, RealSocket


class FailingListener:
    """A listener of the Net seam whose next accepts fail with the given errors."""

    def __init__(self, listener: RealListener, errors: list[int]) -> None:
        self.listener = listener
        self.address = listener.address
        self.errors = errors
        self.accept_count = 0
        self.event_count = 0

    def accept(self) -> RealSocket:
        self.accept_count += 1
        if self.errors:
            raise OSError(self.errors.pop(0), "accept failed")
        return self.listener.accept()

    def on_readable(self, callback: Callable[[], object] | None) -> None:
        def count_and_call() -> None:
            assert callback is not None
            self.event_count += 1
            callback()

        self.listener.on_readable(callback and count_and_call)

    def close(self) -> None:
        self.listener.close()


class FailingNet(RealNet):
    def __init__(self, errors: list[int]) -> None:
        super().__init__()
        self.errors = errors
        self.listeners: list[FailingListener] = []

    def listen(self, address: Address, options: SocketOptions) -> FailingListener:  # type: ignore[override]
        self.listeners.append(FailingListener(super().listen(address, options), self.errors))
        return self.listeners[-1]


@pytest.mark.requirement("NET-03")
@on_each_reader
async def test_processors_get_equal_shares_of_the_connections() -> None:
    """Each processor serves what it was given, and was given its share in turn."""
    async with Site(NetworkSettings(processors=3)) as site:
        clients = [await site.connect() for _ in range(10)]
        for client in clients:
            client.send(b"echo:x")
            await client.answer()
        processors = site.server.diagnostics().processors

        assert [processor.connection_count for processor in processors] == [4, 3, 3]
        assert [processor.request_count for processor in processors] == [4, 3, 3]
        assert [processor.new_connection_count for processor in processors] == [0, 0, 0]


@on_each_reader
async def test_blocked_handlers_do_not_delay_accepting() -> None:
    """Health checks and new clients must get through to a broker that is busy."""
    async with Site(NetworkSettings(handlers=1)) as site:
        busy = await site.connect()
        busy.send(b"suspend:a")
        await site.until(lambda: "a" in site.toy.gates)
        began_ms = site.clock.now_ms()
        await site.connect()
        await site.until(lambda: site.server.connection_count == 2)

        assert site.clock.now_ms() - began_ms < 30_000
        assert site.server.diagnostics().handlers[0].serving


@on_each_reader
async def test_thousand_connections_are_served_and_forgotten() -> None:
    """Descriptors, buffers and counters must return to where they were (N-06, N-15)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 4096:
        pytest.skip("not enough descriptors allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 4096), hard))
    async with Site() as site:
        clients = [await site.connect() for _ in range(1000)]
        for client in clients:
            client.send(b"echo:x")
        for client in clients:
            assert await client.answer() == b"echo x"
        status = site.server.diagnostics()
        assert sum(processor.connection_count for processor in status.processors) == 1000
        for client in clients:
            client.close()
        await site.until(lambda: site.server.connection_count == 0)

        assert site.server._acceptor.limited_count == 0
        assert not site.server._acceptor._count_by_host


@on_each_reader
async def test_connections_above_the_limit_of_one_address_are_refused() -> None:
    """max.connections.per.ip: one host must not take all of them."""
    async with Site(NetworkSettings(limits=ConnectionLimits(per_ip_max=2))) as site:
        first, second = await site.connect(), await site.connect()
        third = await site.connect()
        assert await third.is_closed()
        first.close()
        await site.until(lambda: site.server.connection_count == 1)
        fourth = await site.connect()
        fourth.send(b"echo:4")
        second.send(b"echo:2")

        assert await fourth.answer() == b"echo 4"
        assert await second.answer() == b"echo 2"
        assert site.server.diagnostics().acceptor.refused_count == 1


@on_each_reader
async def test_connections_above_the_total_wait_until_one_leaves_but_brokers_do_not() -> None:
    """max.connections postpones clients; a storm of them must not keep brokers apart (N-07)."""
    specs = [ListenerSpec("CLIENTS", LOOPBACK), ListenerSpec("BROKERS", LOOPBACK, is_exempt=True)]
    net = FailingNet([])
    async with Site(NetworkSettings(limits=ConnectionLimits(total_max=1)), specs, net) as site:
        first = await site.connect("CLIENTS")
        await site.until(lambda: site.server.connection_count == 1)
        waiting = await site.connect("CLIENTS")
        waiting.send(b"echo:waiting")
        broker = await site.connect("BROKERS")
        broker.send(b"echo:broker")
        assert await broker.answer() == b"echo broker"
        assert site.server.connection_count == 2
        await asyncio.sleep(0.02)
        assert net.listeners[0].event_count < 5, "a full door is shut, or the loop would spin"
        first.close()

        assert await waiting.answer() == b"echo waiting"


@on_each_reader
async def test_an_address_with_an_override_has_its_own_limit() -> None:
    """max.connections.per.ip.overrides: a proxy speaks for many clients."""
    limits = ConnectionLimits(per_ip_max=1, per_ip_overrides={"127.0.0.1": 2})
    async with Site(NetworkSettings(limits=limits)) as site:
        clients = [await site.connect() for _ in range(3)]

        assert await clients[2].is_closed()
        assert site.server.connection_count == 2


@on_each_reader
async def test_a_full_listener_leaves_the_others_alone() -> None:
    """listener.name.X.max.connections, here of the listener between brokers."""
    specs = [ListenerSpec("CLIENTS", LOOPBACK), ListenerSpec("BROKERS", LOOPBACK, is_exempt=True)]
    settings = NetworkSettings(limits=ConnectionLimits(listener_max={"BROKERS": 1}))
    async with Site(settings, specs) as site:
        first = await site.connect("BROKERS")
        await site.until(lambda: site.server.connection_count == 1)
        waiting = await site.connect("BROKERS")
        waiting.send(b"echo:waiting")
        other = await site.connect("CLIENTS")
        other.send(b"echo:other")
        assert await other.answer() == b"echo other"
        assert site.server.connection_count == 2
        first.close()

        assert await waiting.answer() == b"echo waiting"


@on_each_reader
async def test_an_address_is_limited_at_the_listener_of_brokers_too() -> None:
    """It is exempt from max.connections.per.ip, but a stranger there must not take all files."""
    specs = [ListenerSpec("CLIENTS", LOOPBACK), ListenerSpec("BROKERS", LOOPBACK, is_exempt=True)]
    settings = NetworkSettings(limits=ConnectionLimits(per_ip_max=1, exempt_per_ip_max=2))
    async with Site(settings, specs) as site:
        brokers = [await site.connect("BROKERS") for _ in range(3)]
        clients = [await site.connect("CLIENTS") for _ in range(2)]

        assert await brokers[2].is_closed()
        assert await clients[1].is_closed()
        for one in (*brokers[:2], clients[0]):
            one.send(b"echo:in")
            assert await one.answer() == b"echo in"
        brokers[0].close()
        await site.until(lambda: site.server.connection_count == 2)
        again = await site.connect("BROKERS")
        again.send(b"echo:in")
        assert await again.answer() == b"echo in"


@on_each_reader
@pytest.mark.parametrize(("override", "served"), [(1, 2), (3, 3)])
async def test_an_override_raises_the_limit_at_the_listener_of_brokers(
    override: int, served: int
) -> None:
    """Clients that use the listener of brokers may all come from one address; no override for
    clients may keep brokers apart."""
    specs = [ListenerSpec("CLIENTS", LOOPBACK), ListenerSpec("BROKERS", LOOPBACK, is_exempt=True)]
    limits = ConnectionLimits(exempt_per_ip_max=2, per_ip_overrides={"127.0.0.1": override})
    async with Site(NetworkSettings(limits=limits), specs) as site:
        found = [await site.connect("BROKERS") for _ in range(4)]
        for one in found[:served]:
            one.send(b"echo:in")
            assert await one.answer() == b"echo in"
        assert await found[served].is_closed()


@on_each_reader
async def test_connections_that_come_too_fast_wait_to_be_accepted() -> None:
    """max.connection.creation.rate (KIP-612): nothing is refused, and brokers are exempt."""
    specs = [ListenerSpec("CLIENTS", LOOPBACK), ListenerSpec("BROKERS", LOOPBACK, is_exempt=True)]
    net = FailingNet([])
    async with Site(NetworkSettings(limits=ConnectionLimits(rate=1)), specs, net) as site:
        clients = [await site.connect("CLIENTS") for _ in range(4)]
        brokers = [await site.connect("BROKERS") for _ in range(4)]
        for broker in brokers:
            broker.send(b"echo:b")
            assert await broker.answer() == b"echo b"
        assert site.server.connection_count <= 4 + 3
        assert net.listeners[0].event_count < 5, "a waiting door is shut, or the loop would spin"
        site.server.set_limits(ConnectionLimits())
        for client in clients:
            client.send(b"echo:c")

            assert await client.answer() == b"echo c"


@on_each_reader
async def test_a_listener_has_a_rate_of_its_own() -> None:
    """listener.name.X.max.connection.creation.rate; it holds for brokers, too."""
    specs = [ListenerSpec("CLIENTS", LOOPBACK), ListenerSpec("BROKERS", LOOPBACK, is_exempt=True)]
    settings = NetworkSettings(limits=ConnectionLimits(listener_rate={"BROKERS": 1}))
    async with Site(settings, specs) as site:
        for _ in range(4):
            await site.connect("BROKERS")
        clients = [await site.connect("CLIENTS") for _ in range(4)]
        for client in clients:
            client.send(b"echo:c")
            assert await client.answer() == b"echo c"

        assert site.server.connection_count <= 4 + 3


@on_each_reader
async def test_an_address_above_its_rate_is_refused_after_a_wait() -> None:
    """KIP-612: closed at once it would come again at once."""
    async with Site() as site:
        site.server.limit_ips(lambda _host: 0.1)
        clients = [await site.connect() for _ in range(3)]
        began_ms = site.clock.now_ms()
        assert await clients[2].is_closed()
        assert site.clock.now_ms() - began_ms > 500
        clients[0].send(b"echo:0")

        assert await clients[0].answer() == b"echo 0"
        assert site.server.diagnostics().acceptor.refused_count >= 1
        assert not site.server._acceptor._refusals


@on_each_reader
async def test_accepting_pauses_when_descriptors_run_out() -> None:
    """The listener stays readable then, and accepting at once again would spin (N-15)."""
    net = FailingNet([errno.EMFILE])
    async with Site(net=net) as site:
        client = await site.connect()
        client.send(b"echo:1")
        await site.until(lambda: site.server.diagnostics().acceptor.is_paused)
        await asyncio.sleep(0.05)
        assert net.listeners[0].accept_count < 5

        assert await client.answer() == b"echo 1"
        assert not site.server.diagnostics().acceptor.is_paused


@on_each_reader
async def test_peer_that_left_before_it_was_accepted_does_not_stop_the_acceptor() -> None:
    """ECONNABORTED is about one connection, not about the listener."""
    async with Site(net=FailingNet([errno.ECONNABORTED, errno.EPROTO])) as site:
        client = await site.connect()
        client.send(b"echo:1")

        assert await client.answer() == b"echo 1"
        assert site.server.diagnostics().acceptor.failed_count == 2


@on_each_reader
async def test_connection_that_cannot_be_set_up_leaks_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """KAFKA-13457: an error between accept and registration leaked the descriptor."""

    def broken(_socket: object) -> None:
        raise ValueError("no certificate")

    specs = [ListenerSpec("PLAINTEXT", LOOPBACK, transport=broken)]  # type: ignore[arg-type]
    async with Site(specs=specs) as site:
        client = await site.connect()

        assert await client.is_closed()
        assert site.server._acceptor.limited_count == 0
    assert "could not be set up" in caplog.text
