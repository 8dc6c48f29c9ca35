"""What a broker has reached so far, and the rules of health and readiness that follow from it.

Healthy: the process lives, its event loop turns and at least one data directory is online.
Ready: clients may connect, every partition assigned to this broker has its role.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.store.store import SessionState
from ottla.protocol.errors import KafkaError

if TYPE_CHECKING:
    from ottla.broker.log.directories.directories import LogDirectories
    from ottla.broker.membership.lifecycle import Lifecycle
    from ottla.broker.server.parts import BrokerParts
    from ottla.broker.server.requests import RequestParts
    from ottla.broker.wire07.listener import Listener07


class RunState:
    """Owned and written by the broker. What is None has not been reached yet; nothing goes back."""

    def __init__(self) -> None:
        self.lifecycle: Lifecycle | None = None
        self.logs: LogDirectories | None = None
        self.requests: RequestParts | None = None
        # With ottla.listener.07 only.
        self.listener_07: Listener07 | None = None
        self.is_serving = False
        self.is_stopping = False
        self.has_failed = False


def illness(state: RunState) -> str:
    """Return why a supervisor should replace the process; empty when it is healthy."""
    if state.has_failed:
        return "the broker has failed and stops"
    if state.logs is not None and not state.logs.online:
        return "no data directory is online"
    return ""


def remark(state: RunState) -> str:
    """Return which data directories are offline; empty when there are none."""
    offline = [] if state.logs is None else state.logs.offline_paths
    return f"offline: {', '.join(offline)}" if offline else ""


def separation(state: RunState) -> str:
    """Return what is wrong with the session with the metadata store; empty when it is connected,
    and before the first one."""
    if state.lifecycle is None:
        return ""
    try:
        session = state.lifecycle.session
    except KafkaError as error:
        return error.message
    if session.state is not SessionState.CONNECTED:
        return f"the session with the metadata store is {session.state.value}"
    return ""


def obstacle(state: RunState, parts: BrokerParts) -> str:
    """Return why clients should not connect now; empty when the broker is ready."""
    if state.is_stopping:
        return "the broker is stopping"
    if state.lifecycle is None or state.logs is None:
        return "the broker is starting"
    if apart := separation(state):
        return apart
    if state.lifecycle.broker_epoch < 0:
        return "the broker is not registered"
    metadata = parts.shared.metadata
    if not metadata.is_complete:
        return "the controller has not sent the metadata of the cluster yet"
    if metadata.image.controller_id not in metadata.image.brokers:
        return "no controller is known"
    if not state.is_serving:
        return "the broker is starting"
    return _unserved(parts)


def _unserved(parts: BrokerParts) -> str:
    """Report the partitions that are assigned here and have no role. Those on a failed directory
    do not count: waiting does not bring them back, and the others can be served."""
    node_id, partitions = parts.shared.node_id, parts.partitions
    missing = [
        f"{name}-{index}"
        for name, topic in parts.shared.metadata.image.topics.items()
        for index, state in topic.partitions.items()
        if node_id in state.replicas
        and partitions.find(name, index) is None
        and node_id not in state.offline_replicas
        and not partitions.is_offline(name, index)
    ]
    if not missing:
        return ""
    more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
    return f"partition {missing[0]}{more} is not served yet"
