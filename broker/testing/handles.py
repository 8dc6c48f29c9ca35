"""A cluster's public handles of its brokers, and its record of faults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ottla.broker.testing.members import ClusterError
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from ottla.broker.testing.members import ProcessState


class Knows(Protocol):
    """The cluster, as its handles use it."""

    def address_of(self, broker_id: int) -> str: ...

    def state_of(self, broker_id: int) -> ProcessState: ...


class Injected(NamedTuple):
    """An injected fault, or its consequence.

    Attributes:
        at_ms: The time since the cluster's start, in milliseconds.
        what: The fault in words.
    """

    at_ms: float
    what: str

    def __str__(self) -> str:
        return f"{self.at_ms / 1000:8.3f} s  {self.what}"


class Brokers(dict[int, "BrokerHandle"]):
    """All of a cluster, by their numbers."""

    def __missing__(self, broker_id: object) -> BrokerHandle:
        known = ", ".join(map(str, self))
        raise ClusterError(f"there is no broker {broker_id!r}, only {known}")


class BrokerHandle:
    """One broker of a ``Cluster``."""

    def __init__(self, cluster: Knows, broker_id: int) -> None:
        self._cluster = cluster
        self.broker_id = broker_id

    @property
    def address(self) -> str:
        """``host:port`` for clients; the same after a restart."""
        return self._cluster.address_of(self.broker_id)

    @property
    def state(self) -> ProcessState:
        """Whether it runs, is paused, or is dead."""
        return self._cluster.state_of(self.broker_id)

    def __repr__(self) -> str:
        try:
            return f"<broker {self.broker_id} at {self.address}, {self.state.value}>"
        except ClusterError:
            return f"<broker {self.broker_id} of a cluster that is not running>"
