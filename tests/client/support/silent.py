"""Hosts that say nothing: those that answer no SYN, and those that accept and no more."""

from __future__ import annotations

import socket
import sys

from ottla.protocol.ports import Address


class SilentNode:
    """Takes the place of a toy broker. ``is_deaf``: not even the kernel answers, as behind a
    firewall that drops packets; on Linux that is a full queue of connections."""

    def __init__(self, *, is_deaf: bool) -> None:
        self._listening = socket.socket()
        self._listening.bind(("127.0.0.1", 0))
        self._listening.listen(0 if is_deaf else 16)
        where = self._listening.getsockname()
        self.address = Address(*where)
        self._queued: list[socket.socket] = []
        for _ in range(4 if is_deaf and sys.platform == "linux" else 0):
            queued = socket.socket()
            queued.setblocking(False)
            queued.connect_ex(where)
            self._queued.append(queued)

    def close(self) -> None:
        """The same call as a toy broker's."""
        self._listening.close()
        for queued in self._queued:
            queued.close()
