"""Connections for one purpose, besides those that all parts of a client share.

Answers on a connection come in order: a request behind one that waits, for data, for a whole group
or for other brokers' disks, waits with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.wire.pool import Pool

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from ottla.client.cluster.cluster import ClusterClient
    from ottla.wire.connection import Connection


class OwnPool:
    """One connection per broker, at the cluster's address for it; ``close`` it in the end."""

    def __init__(self, cluster: ClusterClient, name: str) -> None:
        self.name = name
        net, clock, random = cluster.environment
        self._shared = cluster.pool
        self._pool = Pool(net, clock, random.child(name), cluster.config)
        self.receive_ahead = self._pool.receive_ahead
        self.close = self._pool.close

    def ready(self, node_id: int) -> Connection | None:
        """Return the broker's connection if it has one now."""
        return self._pool.ready(node_id) if self._is_listed(node_id) else None

    def connection(self, node_id: int) -> Coroutine[Any, Any, Connection]:
        """Return the broker's connection, after one attempt to connect if there is none.

        Raises BrokerUnreachable, and KeyError for a broker that has left the cluster."""
        self._is_listed(node_id)
        return self._pool.connection(node_id)

    def _is_listed(self, node_id: int) -> bool:
        address = self._shared.address_of(node_id)
        if address is None:
            self._pool.forget(node_id)
            return False
        self._pool.set_address(node_id, address)
        return True
