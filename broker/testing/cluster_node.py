"""The interface between a cluster and each of its brokers.

The cluster controls a broker only through the calls of ``ClusterNode``: directly
(``local_node.py``), or, when the broker has its own process, over a connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ottla.coordinator.configs.broker_configs import for_embedded_store, parse_broker_config
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ottla.broker.testing.faulty_requests import RequestFault
    from ottla.coordinator.configs.broker_configs import BrokerConfig
    from ottla.protocol.acls import AclRule
    from ottla.protocol.ports import Address

CLIENTS = "PLAINTEXT"
BROKERS = "BROKERS"
# The super user of clusters with logins; each broker also has a user of its own.
ADMIN = "admin"
OF_BROKERS = "broker-"


def broker_user(node_id: int) -> str:
    """The user of a broker."""
    return f"{OF_BROKERS}{node_id}"


def is_for_clients(user: str) -> bool:
    """Whether it is not a broker's user."""
    return not user.removeprefix(OF_BROKERS).isdecimal() or not user.startswith(OF_BROKERS)


def is_own(user: str) -> bool:
    """Whether the cluster creates the user by itself."""
    return user == ADMIN or not is_for_clients(user)


class NodePlan(NamedTuple):
    """The start parameters of a broker. Ports by listener; 0 is a free one."""

    node_id: int
    brokers: int
    settings: Mapping[str, str]
    ports: Mapping[str, int]
    directory: str
    ahead_ms: float = 0.0
    step_ms: int = 0
    security_protocol: str = "PLAINTEXT"

    def __repr__(self) -> str:
        # The settings have passwords.
        return f"NodePlan({self.node_id}, ...)"

    def config(self) -> BrokerConfig:
        """The broker's configuration. Raises ConfigError."""
        listeners = [f"{name}://127.0.0.1:{self.ports[name]}" for name in (CLIENTS, BROKERS)]
        protocol = self.security_protocol
        settings = {
            **self.settings,
            "broker.id": str(self.node_id),
            "log.dirs": self.directory,
            "listeners": ",".join(listeners),
            "listener.security.protocol.map": f"{CLIENTS}:{protocol},{BROKERS}:{protocol}",
            "inter.broker.listener.name": BROKERS,
        }
        return for_embedded_store(parse_broker_config(settings).config, self.brokers)


class AccessState(NamedTuple):
    """A user's credentials, as texts, and the access rules as one broker knows them."""

    credentials: tuple[str, ...]
    rules: frozenset[AclRule]


class DiskCondition(NamedTuple):
    """The state of a broker's disk.

    ``is_tearing``: the broker dies when half of its next append to a log is written."""

    delay_ms: float = 0.0
    is_full: bool = False
    is_tearing: bool = False


class Notices(Protocol):
    """What a node reports to its cluster, at any time."""

    async def may_hit(self, node_id: int, number: int, what: str) -> bool:
        """A request matches a fault: return whether the fault applies once more."""

    def on_gone(self, node_id: int, reason: str) -> None:
        """The broker has ended by itself, or because of a fault of its disk."""


class ClusterNode(Protocol):
    """The operations on one broker, wherever it runs."""

    async def start(self) -> dict[str, Address]:
        """Start it; return its addresses by listener. Raises CannotStart."""

    async def stop(self) -> None:
        """Stop it cleanly."""

    async def kill(self) -> None:
        """End it at once, as kill -9 does: no clean-up, no message."""

    async def pause(self) -> None: ...

    async def resume(self) -> None: ...

    async def cut(self, targets: Iterable[Address], clients: bool) -> None:
        """Cut the connections to those brokers, or between this broker and clients."""

    async def set_disk(self, condition: DiskCondition) -> None: ...

    async def add_request_fault(self, fault: RequestFault) -> None: ...

    async def drop_request_fault(self, number: int) -> None: ...

    async def move_clock(self, ms: float, step_ms: int) -> None:
        """Advance the time, and move the date by that step in addition."""

    async def wait_for_brokers(self, node_ids: frozenset[int]) -> None:
        """Wait until this broker lists them all. Raises CannotStart."""

    async def leaders(self, topic: str) -> dict[int, int]:
        """Return the leader of each partition that this broker knows; -1 without a leader."""

    async def reload_certificates(self) -> None:
        """Use the files' present content for new connections."""

    async def access_state(self, user: str | None) -> AccessState:
        """Return what this broker knows of that user and of the access rules."""

    async def wait_for_topic(self, topic: str, partitions: int, timeout_ms: float) -> bool:
        """Whether this broker knows a leader of each partition before the time is up."""
