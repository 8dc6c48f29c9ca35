"""The acceptor: accepts connections on all listeners and hands them out, and does nothing else.

Limits refuse or postpone clients; exempt listeners (between brokers) are never held up by them.
"""

from __future__ import annotations

import errno
import logging
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from ottla.protocol.data_classes import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.broker.network.processor import Processor
    from ottla.broker.network.surroundings import ConnectionParts, ListenerParts
    from ottla.protocol.ports import Listener, Socket, Timer

logger = logging.getLogger("ottla.network")

# A storm of connections must leave the loop to those that are connected (N-07).
ACCEPTS_PER_EVENT_MAX = 32
# Out of descriptors or memory the listener stays readable, and accepting would spin (N-15).
EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
EXHAUSTED_PAUSE_MS = 1_000.0


@dataclass(slots=True)
class _Door:
    listener: Listener
    entrance: ListenerParts
    is_open: bool = False


class Acceptor:
    """Owns the listening sockets. Every connection is given to one processor, in turn."""

    name = "acceptor"

    def __init__(self, surroundings: ConnectionParts, processors: Sequence[Processor]) -> None:
        self.accepted_count = 0
        self.refused_count = 0
        self.failed_count = 0
        self.limited_count = 0  # open connections that count against the limits
        self._surroundings = surroundings
        self._processors = processors
        self._next = 0
        self._doors: dict[str, _Door] = {}
        self._count_by_host: Counter[str] = Counter()
        self._is_started = False
        self._pause_timer: Timer | None = None

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
            door.listener.close()

    def on_closed(self, listener_name: str, host: str) -> None:
        """A connection that was handed out has gone."""
        if self._doors[listener_name].entrance.spec.is_exempt:
            return
        self.limited_count -= 1
        self._count_by_host[host] -= 1
        if not self._count_by_host[host]:
            del self._count_by_host[host]
        self._open_doors()

    def _open_doors(self) -> None:
        if not self._is_started or self.is_paused:
            return
        for door in self._doors.values():
            if not door.is_open and not self._is_full(door):
                door.is_open = True
                door.listener.on_readable(partial(self._accept, door))

    def _shut(self, door: _Door) -> None:
        door.is_open = False
        door.listener.on_readable(None)

    def _is_full(self, door: _Door) -> bool:
        return (
            not door.entrance.spec.is_exempt
            and self.limited_count >= self._surroundings.settings.connections_max
        )

    def _accept(self, door: _Door) -> None:
        for _ in range(ACCEPTS_PER_EVENT_MAX):
            if self._is_full(door):
                # The others wait in the backlog until a connection is closed.
                self._shut(door)
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
            self._assign(socket, door.entrance)

    def _assign(self, socket: Socket, entrance: ListenerParts) -> None:
        if not entrance.spec.is_exempt:
            host = socket.peer.host
            if self._count_by_host[host] >= self._surroundings.settings.connections_per_ip_max:
                self.refused_count += 1
                socket.close()
                return
            self.limited_count += 1
            self._count_by_host[host] += 1
        self.accepted_count += 1
        processor = self._processors[self._next]
        self._next = (self._next + 1) % len(self._processors)
        processor.assign(socket, entrance)

    def _pause(self, error: OSError) -> None:
        logger.warning("accepting pauses for %d ms: %s", EXHAUSTED_PAUSE_MS, error)
        for door in self._doors.values():
            if door.is_open:
                self._shut(door)
        clock = self._surroundings.clock
        self._pause_timer = clock.call_at(clock.now_ms() + EXHAUSTED_PAUSE_MS, self._resume)

    def _resume(self) -> None:
        self._pause_timer = None
        self._open_doors()
