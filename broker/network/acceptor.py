"""The acceptor: accepts connections on all listeners and hands them out, and does nothing else.

Limits refuse or postpone clients; exempt listeners (between brokers) are never held up by them, and
have wide limits of their own.
"""

from __future__ import annotations

import errno
import logging
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.quotas.connections import ConnectionLimits, ConnectionRates, plain_host
from ottla.protocol.data_classes import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.broker.network.connection_parts import ConnectionParts, ListenerParts
    from ottla.broker.network.processor import Processor
    from ottla.protocol.ports import Listener, Socket, Timer

logger = logging.getLogger("ottla.network")

# A storm of connections must leave the loop to those that are connected (N-07).
ACCEPTS_PER_EVENT_MAX = 32
# Out of descriptors or memory the listener stays readable, and accepting would spin (N-15).
EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
EXHAUSTED_PAUSE_MS = 1_000.0
# A connection above its address's rate is closed after its wait, but not kept for longer, as in
# Kafka: closed at once it would come again at once. Only so many are kept.
REFUSAL_MS_MAX = 1_000.0
REFUSALS_KEPT_MAX = 256


@dataclass(slots=True)
class _Door:
    listener: Listener
    entrance: ListenerParts
    is_open: bool = False
    # Set while the listener waits because connections came too fast.
    timer: Timer | None = None


class Acceptor:
    """Owns the listening sockets. Every connection is given to one processor, in turn."""

    name = "acceptor"

    def __init__(self, connection_parts: ConnectionParts, processors: Sequence[Processor]) -> None:
        self.accepted_count = 0
        self.refused_count = 0
        self.failed_count = 0
        self.limited_count = 0  # open connections that count against the limits
        self._connection_parts = connection_parts
        self._processors = processors
        self._next = 0
        self._doors: dict[str, _Door] = {}
        # By whether the listener is exempt, and address.
        self._count_by_host: Counter[tuple[bool, str]] = Counter()
        self._count_by_listener: Counter[str] = Counter()
        self._is_started = False
        self._pause_timer: Timer | None = None
        self._limits = connection_parts.settings.limits
        self._rates = ConnectionRates()
        self._rates.set_rates(self._limits, connection_parts.clock.now_ms())
        # New connections per second that an address may make, None for any number.
        self.ip_rate: Callable[[str], float | None] = _unlimited
        self._refusals: dict[Socket, Timer] = {}

    def set_limits(self, limits: ConnectionLimits) -> None:
        """Take other limits; connections above them stay."""
        self._limits = limits
        self._rates.set_rates(limits, self._connection_parts.clock.now_ms())
        for door in self._doors.values():
            self._end_wait(door)
        self._open_doors()

    @property
    def is_paused(self) -> bool:
        """Whether it waits for descriptors."""
        return self._pause_timer is not None

    def add(self, listener: Listener, entrance: ListenerParts) -> None:
        """Take a bound listener; the kernel already queues its connections."""
        self._doors[entrance.spec.name] = _Door(listener, entrance)
        if self._is_started:
            self._open_doors()

    def start(self) -> None:
        self._is_started = True
        self._open_doors()

    def close(self) -> None:
        """Stop listening. Connections that were accepted stay."""
        self._is_started = False
        if self._pause_timer is not None:
            self._pause_timer.cancel()
            self._pause_timer = None
        for door in self._doors.values():
            door.is_open = False
            self._end_wait(door)
            door.listener.close()
        for socket in list(self._refusals):
            self._refuse_now(socket)

    def on_closed(self, listener_name: str, host: str) -> None:
        """A connection that was handed out has gone."""
        self._count_by_listener[listener_name] -= 1
        is_exempt = self._doors[listener_name].entrance.spec.is_exempt
        key = is_exempt, plain_host(host)
        self.limited_count -= not is_exempt
        self._count_by_host[key] -= 1
        if not self._count_by_host[key]:
            del self._count_by_host[key]
        assert self.limited_count >= 0, "each connection is counted once and closed once"
        self._open_doors()

    def _open_doors(self) -> None:
        if not self._is_started or self.is_paused:
            return
        for door in self._doors.values():
            if not door.is_open and door.timer is None and not self._is_full(door):
                door.is_open = True
                door.listener.on_readable(partial(self._accept, door))

    def _shut(self, door: _Door) -> None:
        door.is_open = False
        door.listener.on_readable(None)

    def _is_full(self, door: _Door) -> bool:
        spec = door.entrance.spec
        if self._count_by_listener[spec.name] >= self._limits.of_listener(spec.name):
            return True
        return not spec.is_exempt and self.limited_count >= self._limits.total_max

    def _wait(self, door: _Door, wait_ms: float) -> None:
        """Connections come too fast: the others wait in the backlog meanwhile."""
        self._shut(door)
        clock = self._connection_parts.clock
        door.timer = clock.call_at(clock.now_ms() + wait_ms, partial(self._go_on, door))

    def _go_on(self, door: _Door) -> None:
        door.timer = None
        self._open_doors()

    def _end_wait(self, door: _Door) -> None:
        if door.timer is not None:
            door.timer.cancel()
            door.timer = None

    def _accept(self, door: _Door) -> None:
        spec, now_ms = door.entrance.spec, self._connection_parts.clock.now_ms()
        for _ in range(ACCEPTS_PER_EVENT_MAX):
            if self._is_full(door):
                # The others wait in the backlog until a connection is closed.
                self._shut(door)
                return
            wait_ms = self._rates.wait_ms(spec.name, is_exempt=spec.is_exempt, now_ms=now_ms)
            if wait_ms > 0:
                self._wait(door, wait_ms)
                return
            try:
                socket = door.listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                self.failed_count += 1
                if error.errno in EXHAUSTED:
                    self._pause(error)
                    return
                continue  # this peer has gone before it was accepted
            self._rates.count(spec.name, is_exempt=spec.is_exempt, now_ms=now_ms)
            self._assign(socket, door.entrance)

    def _assign(self, socket: Socket, entrance: ListenerParts) -> None:
        is_exempt = entrance.spec.is_exempt
        host = plain_host(socket.peer.host)
        limits = self._limits
        per_ip_max = limits.of_exempt_ip(host) if is_exempt else limits.of_ip(host)
        if self._count_by_host[is_exempt, host] >= per_ip_max:
            self.refused_count += 1
            socket.close()
            return
        if not is_exempt:
            now_ms = self._connection_parts.clock.now_ms()
            wait_ms = self._rates.ip_wait_ms(host, self.ip_rate(host), now_ms)
            if wait_ms > 0:
                self._refuse_later(socket, wait_ms)
                return
            self.limited_count += 1
        self._count_by_host[is_exempt, host] += 1
        self.accepted_count += 1
        self._count_by_listener[entrance.spec.name] += 1
        processor = self._processors[self._next]
        self._next = (self._next + 1) % len(self._processors)
        processor.assign(socket, entrance)

    def _refuse_later(self, socket: Socket, wait_ms: float) -> None:
        self.refused_count += 1
        if len(self._refusals) >= REFUSALS_KEPT_MAX:
            socket.close()
            return
        clock = self._connection_parts.clock
        at_ms = clock.now_ms() + min(wait_ms, REFUSAL_MS_MAX)
        self._refusals[socket] = clock.call_at(at_ms, partial(self._refuse_now, socket))

    def _refuse_now(self, socket: Socket) -> None:
        self._refusals.pop(socket).cancel()
        socket.close()

    def _pause(self, error: OSError) -> None:
        logger.warning("accepting pauses for %d ms: %s", EXHAUSTED_PAUSE_MS, error)
        for door in self._doors.values():
            if door.is_open:
                self._shut(door)
        clock = self._connection_parts.clock
        self._pause_timer = clock.call_at(clock.now_ms() + EXHAUSTED_PAUSE_MS, self._resume)

    def _resume(self) -> None:
        self._pause_timer = None
        self._open_doors()


def _unlimited(_host: str) -> None:
    """The default: no address has a rate."""
