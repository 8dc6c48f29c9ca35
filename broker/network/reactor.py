"""The compiled reactor: epoll, reading, framing and sending of plaintext connections in one call.

It serves requests that came whole and whose answers are small and at once there. All else, TLS and
simulation included, is served by ``connection.py`` and ``processor.py``: its reference and, where
it was not built or ``OTTLA_PURE=1`` is set, its substitute.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ottla.protocol.records.preference import compiled_twin

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.network.connection import AcceptedConnection, ConnectionHost

COMPILED_NAME = "ottla.broker.network.compiled_reactor"


class CompiledPoller(Protocol):
    """``wire.real.Poller`` that also makes what serves a connection."""

    def readiness(
        self, connection: AcceptedConnection, processor: ConnectionHost
    ) -> Callable[[], object] | None:
        """What is to be called for that connection; None if it must be served in Python."""

    def add(self, descriptor: int, callback: Callable[[], object]) -> None: ...

    def remove(self, descriptor: int) -> None: ...

    def close(self) -> None: ...


def make_poller() -> CompiledPoller | None:
    """For one listener in the running event loop; None where the loop must do. Raises OSError."""
    twin: Any = compiled_twin(COMPILED_NAME, "Poller")
    if twin is None:
        return None
    poller: CompiledPoller = twin.Poller()
    return poller
