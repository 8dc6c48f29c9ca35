"""A proxy in front of a broker that limits the bytes per second towards it.

It runs in a thread, for tests of blocking code. The broker has to give clients the proxy's address:
``advertised.listeners`` of a broker that is started with the link's port.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import TYPE_CHECKING, Self

from tests.support.ports import HOST

if TYPE_CHECKING:
    from types import TracebackType

CHUNK_BYTES = 4_096
# Little is kept on the way, or what is sent would seem to have arrived.
BUFFER_BYTES = 16_384


class SlowLink:
    """``with SlowLink(bytes_per_s) as link``: connect to ``link.port``; ``target`` is the broker's
    port, which may be set later."""

    def __init__(self, bytes_per_s: int, target: int = 0) -> None:
        self.target = target
        self._pause_s = CHUNK_BYTES / bytes_per_s
        self._listening = socket.create_server((HOST, 0))
        self._listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        self.port: int = self._listening.getsockname()[1]
        self._carried_bytes = 0
        self._stalls_at: int | None = None
        self._sockets: list[socket.socket] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for one in (self._listening, *self._sockets):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def stall_after(self, count: int) -> None:
        """Carry so many bytes more, and then none."""
        self._stalls_at = self._carried_bytes + count

    def go_on(self) -> None:
        """Carry again."""
        self._stalls_at = None

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                self._sockets.append(client)
                broker = socket.create_connection((HOST, self.target))
                self._sockets.append(broker)
                for work in ((client, broker, self._pause_s), (broker, client, 0.0)):
                    threading.Thread(target=self._carry, args=work, daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket, pause_s: float) -> None:
        with contextlib.suppress(OSError):
            while chunk := source.recv(CHUNK_BYTES):
                while pause_s and self._stalls_at is not None:
                    if self._carried_bytes < self._stalls_at:
                        break
                    time.sleep(pause_s)
                target.sendall(chunk)
                if pause_s:
                    self._carried_bytes += len(chunk)
                    time.sleep(pause_s)
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
