"""Connections that have not authenticated yet, limited in total and per address. Pure."""

from __future__ import annotations

from collections import Counter
from typing import Protocol


class PendingConnection(Protocol):
    """What is counted."""

    client_host: str


class PendingLogins:
    """Unfinished logins, oldest first. Above a limit the oldest one is closed: an attacker that
    holds connections open must not keep clients out."""

    def __init__(self, total_max: int, per_host_max: int) -> None:
        self._total_max = total_max
        self._per_host_max = per_host_max
        self._pending: dict[PendingConnection, None] = {}
        self._by_host: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._pending)

    def add(self, connection: PendingConnection) -> PendingConnection | None:
        """Count a connection; return the one that must be closed to make room, if any. The caller
        closes that one and then removes it."""
        host = connection.client_host
        oldest = None
        if self._by_host[host] >= self._per_host_max:
            oldest = next(one for one in self._pending if one.client_host == host)
        elif len(self._pending) >= self._total_max:
            oldest = next(iter(self._pending))
        self._pending[connection] = None
        self._by_host[host] += 1
        return oldest

    def remove(self, connection: PendingConnection) -> None:
        """Remove a connection that is authenticated or gone. May be called again."""
        if connection in self._pending:
            del self._pending[connection]
            self._by_host[connection.client_host] -= 1
            if not self._by_host[connection.client_host]:
                del self._by_host[connection.client_host]
