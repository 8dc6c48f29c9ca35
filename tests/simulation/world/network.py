"""Simulated TCP: listeners, connections and hosts, with the faults that sockets show in life.

A host is a machine's network stack: it outlives processes, refuses on their behalf, closes what
they leave open, and answers with a reset when packets come for a connection it does not know.
"""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING

from tests.simulation.world.socket import SimListener, SimSocket
from tests.simulation.world.stream import Stream

if TYPE_CHECKING:
    from ottla.protocol.ports import Address, SocketOptions
    from tests.simulation.world.links import Links
    from tests.simulation.world.process import SimProcess
    from tests.simulation.world.random import SimRandom

WILDCARDS = ("", "0.0.0.0", "::", "127.0.0.1", "localhost")
CONNECT_TIMEOUT_S = 127.0
EPHEMERAL_PORT_FIRST = 32_768


class Host:
    """One machine on the network, known by its name, which is also its address."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.up = True
        self.listeners: dict[int, SimListener] = {}
        self.sockets: dict[SimSocket, None] = {}
        self._port = EPHEMERAL_PORT_FIRST

    def next_port(self) -> int:
        self._port += 1
        return self._port


class SimNet:
    """All hosts and the links between them."""

    def __init__(self, links: Links, random: SimRandom) -> None:
        self.links = links
        self.loop = links.loop
        self.random = random
        self.hosts: dict[str, Host] = {}
        self._streams = 0

    def host(self, name: str) -> Host:
        """The host of that name, made at first mention."""
        if name not in self.hosts:
            self.hosts[name] = Host(name)
        return self.hosts[name]

    def of_process(self, host: str, process: SimProcess) -> ProcessNet:
        """The network as one process sees it."""
        return ProcessNet(self, self.host(host), process)

    def pair(
        self, client: Address, server: Address, options: SocketOptions
    ) -> tuple[SimSocket, SimSocket]:
        """Two connected sockets, not yet known to their hosts."""
        there = self._stream(client.host, server.host, options)
        back = self._stream(server.host, client.host, options)
        near = SimSocket(self, (client, server), there, back)
        far = SimSocket(self, (server, client), back, there)
        there.connect(far.deliver, near.wake_writable)
        back.connect(near.deliver, far.wake_writable)
        return near, far

    def process_died(self, host_name: str) -> None:
        """The kernel closes what a dead process had open: peers get an end or a reset."""
        host = self.host(host_name)
        for listener in list(host.listeners.values()):
            listener.close()
        for socket in list(host.sockets):
            socket.close()

    def power_cut(self, host_name: str) -> None:
        """Everything on the host vanishes and peers hear nothing (half-open connections)."""
        host = self.host(host_name)
        host.up = False
        self.links.host_down(host_name)
        for listener in host.listeners.values():
            listener.vanish()
        for socket in host.sockets:
            socket.vanish()
        host.listeners.clear()
        host.sockets.clear()

    def power_on(self, host_name: str) -> None:
        """The machine boots; packets for connections from before are answered with a reset."""
        self.host(host_name).up = True
        self.links.host_up(host_name)

    def reset_connections(self, host_name: str, probability: float = 1.0) -> int:
        """Break that part of a host's connections on both sides; returns how many."""
        broken = [s for s in self.host(host_name).sockets if self.random.chance(probability)]
        for socket in broken:
            socket.break_both()
        return len(broken)

    def hold_connections(self, host_name: str, probability: float, delay_s: float) -> None:
        """Delay what some connections of a host carry from now on, in one direction each."""
        for socket in self.host(host_name).sockets:
            if self.random.chance(probability):
                socket.stream_to_hold(self.random.chance(0.5)).hold(delay_s)

    def _stream(self, source: str, target: str, options: SocketOptions) -> Stream:
        self._streams += 1
        capacity = self.links.profile.buffer_bytes
        if options.send_buffer_bytes > 0:
            capacity = min(capacity, 2 * options.send_buffer_bytes)
        return Stream(self.links, self._streams, (source, target), capacity)


class ProcessNet:
    """``ports.Net`` for one process on one host."""

    def __init__(self, net: SimNet, host: Host, process: SimProcess) -> None:
        self._net = net
        self._host = host
        self._process = process

    def listen(self, address: Address, options: SocketOptions) -> SimListener:
        self._process.check()
        if address.host not in (*WILDCARDS, self._host.name):
            raise OSError(errno.EADDRNOTAVAIL, "not an address of this host", str(address))
        port = address.port or self._host.next_port()
        if port in self._host.listeners:
            raise OSError(errno.EADDRINUSE, "the port is taken", str(address))
        local = address._replace(host=address.host or self._host.name, port=port)
        listener = SimListener(self._net, self._host, local, max(1, options.backlog))
        self._host.listeners[port] = listener
        return listener

    async def connect(self, address: Address, options: SocketOptions) -> SimSocket:
        self._process.check()
        target = self._host.name if address.host in WILDCARDS else address.host
        if target not in self._net.hosts:
            raise OSError(errno.EHOSTUNREACH, "no such host", str(address))
        local = address._replace(host=self._host.name, port=self._host.next_port())
        remote = address._replace(host=target)
        return await self._handshake(local, remote, options)

    async def _handshake(
        self, local: Address, remote: Address, options: SocketOptions
    ) -> SimSocket:
        """A lost or dropped SYN is sent again after 1, 2, 4... seconds, as Linux does."""
        net, links, retry_s = self._net, self._net.links, 1.0
        deadline_s = net.loop.time() + CONNECT_TIMEOUT_S
        while net.loop.time() < deadline_s:
            await self._sleep(links.delay_s(local.host, remote.host))
            blocked = links.is_blocked(local.host, remote.host)
            if not blocked and not links.is_blocked(remote.host, local.host):
                listener = net.host(remote.host).listeners.get(remote.port)
                if listener is None:
                    await self._sleep(links.delay_s(remote.host, local.host))
                    raise ConnectionRefusedError(errno.ECONNREFUSED, "refused", str(remote))
                if not listener.is_full:
                    near, far = net.pair(local, remote, options)
                    listener.add(far)
                    self._host.sockets[near] = None
                    await self._wait_for_answer(near, links.delay_s(remote.host, local.host))
                    return near
            await self._sleep(retry_s)
            retry_s *= 2
        raise TimeoutError(errno.ETIMEDOUT, "no answer", str(remote))

    async def _wait_for_answer(self, near: SimSocket, delay_s: float) -> None:
        try:
            await self._sleep(delay_s)
        except BaseException:
            near.close()
            raise

    async def _sleep(self, delay_s: float) -> None:
        self._process.check()
        await asyncio.sleep(delay_s)
