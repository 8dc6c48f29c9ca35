"""The network of one broker: one acceptor, N processors, M handlers, and their listeners.

Binding and accepting are two steps, so that a port of 0 is known before the broker registers
itself, and no client is served before the broker is ready.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.broker.engine.context import EventTurn
from ottla.broker.network.acceptor import Acceptor
from ottla.broker.network.buffers import BufferPool, ByteBudget
from ottla.broker.network.channel import Handler, RequestChannel
from ottla.broker.network.connection_parts import ConnectionParts, ListenerParts
from ottla.broker.network.handshakes import Handshakes, Inline
from ottla.broker.network.processor import Processor
from ottla.broker.network.settings import NetworkSettings
from ottla.broker.network.status import (
    NetworkStatus,
    acceptor_status,
    handler_statuses,
    processor_status,
    queue_status,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.broker.engine.context import Dispatch
    from ottla.broker.network.channel import Supervisor
    from ottla.broker.network.settings import ListenerSpec
    from ottla.broker.quotas.connections import ConnectionLimits
    from ottla.protocol.ports import Address, Clock, Listener, Net, Offload


class NetworkServer:
    """Made, used and stopped inside one running event loop."""

    def __init__(
        self,
        net: Net,
        clock: Clock,
        tasks: Supervisor,
        dispatch: Dispatch,
        settings: NetworkSettings | None = None,
        offload: Offload | None = None,
        turn: EventTurn | None = None,
    ) -> None:
        settings = settings or NetworkSettings()
        assert settings.processors > 0
        self._net = net
        self._clock = clock
        self._tasks = tasks
        self._dispatch = dispatch
        self._settings = settings
        self._budget = ByteBudget(settings.queued_request_bytes_max)
        connection_parts = ConnectionParts(
            settings, clock, BufferPool(), self._budget, turn or EventTurn()
        )
        self.handshakes = Handshakes(clock, tasks, offload or Inline())
        self._processors = [
            Processor(f"processor-{number}", connection_parts, self._on_closed, self.handshakes)
            for number in range(settings.processors)
        ]
        self._acceptor = Acceptor(connection_parts, self._processors)
        self._channel = self._make_channel("handler", settings.handlers)
        self._own_channels: dict[str, RequestChannel] = {}
        self._drained: asyncio.Future[None] | None = None

    def bind(self, specs: Sequence[ListenerSpec]) -> dict[str, Address]:
        """Listen on all addresses; the ports really taken, by listener. Raises OSError, with
        nothing left bound."""
        bound: dict[str, Listener] = {}
        try:
            for spec in specs:
                assert spec.name not in bound, "listener names are distinct"
                bound[spec.name] = self._net.listen(spec.address, spec.options)
        except OSError:
            for listener in bound.values():
                listener.close()
            raise
        for spec in specs:
            channel = self._channel
            if spec.own_handlers:
                channel = self._make_channel(f"{spec.name}-handler", spec.own_handlers)
                self._own_channels[spec.name] = channel
            self._acceptor.add(bound[spec.name], ListenerParts(spec, channel))
        return {name: listener.address for name, listener in bound.items()}

    def start(self) -> None:
        """Begin to accept and serve."""
        for processor in self._processors:
            processor.start()
        self._acceptor.start()

    @property
    def dispatch(self) -> Dispatch:
        """What requests are handed to now."""
        return self._channel.dispatch

    @property
    def on_queued(self) -> Callable[[memoryview], object] | None:
        """The function that the server calls with each request that waits for a handler."""
        return self._channel.on_queued

    def serve_with(
        self, dispatch: Dispatch, on_queued: Callable[[memoryview], object] | None = None
    ) -> None:
        """Hand requests to another function from now on; ``on_queued`` is called with each request
        that waits for a handler."""
        for channel in (self._channel, *self._own_channels.values()):
            channel.dispatch = dispatch
            channel.on_queued = on_queued

    def set_limits(self, limits: ConnectionLimits) -> None:
        """Take other limits of connections from now on."""
        self._acceptor.set_limits(limits)

    def limit_ips(self, ip_rate: Callable[[str], float | None]) -> None:
        """Ask the function how many connections per second an address may make."""
        self._acceptor.ip_rate = ip_rate

    def stop_accepting(self) -> None:
        """Close the listeners; connections stay. May be called again."""
        self._acceptor.close()

    async def stop(self, drain_ms: float = 10_000) -> None:
        """Accept and start nothing more, let the answers of started requests leave for that long,
        then close everything. Parked requests should be answered before this call (N-16)."""
        self.stop_accepting()
        for processor in self._processors:
            processor.stop("the broker is stopping")
        self.handshakes.close()
        if drain_ms > 0 and self.connection_count:
            drained = self._drained = asyncio.get_running_loop().create_future()
            timer = self._clock.call_at(self._clock.now_ms() + drain_ms, self._give_up_draining)
            try:
                await drained
            finally:
                timer.cancel()
        for processor in self._processors:
            processor.abort("the broker has stopped")
        assert self.connection_count == 0

    @property
    def connection_count(self) -> int:
        return sum(len(processor.connections) for processor in self._processors)

    def diagnostics(self) -> NetworkStatus:
        """Every role by name, and what it has done (NET-01)."""
        return NetworkStatus(
            acceptor=acceptor_status(self._acceptor),
            processors=[processor_status(processor) for processor in self._processors],
            handlers=handler_statuses(self._channel),
            request_queue=queue_status(self._channel),
            own_handlers={
                name: handler_statuses(channel) for name, channel in self._own_channels.items()
            },
            unfinished_request_bytes=self._budget.used_bytes,
        )

    def _make_channel(self, role: str, count: int) -> RequestChannel:
        handlers = [Handler(f"{role}-{number}") for number in range(count)]
        return RequestChannel(
            handlers, self._settings.queued_requests_max, self._dispatch, self._tasks
        )

    def _on_closed(self, listener_name: str, host: str) -> None:
        self._acceptor.on_closed(listener_name, host)
        if self._drained is not None and self.connection_count == 0:
            self._give_up_draining()

    def _give_up_draining(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
