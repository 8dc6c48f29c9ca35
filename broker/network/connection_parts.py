"""What a connection finds around it: its listener's ways, and what all connections share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ottla.protocol.data_classes import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.broker.engine.context import EventTurn
    from ottla.broker.network.buffers import BufferPool, ByteBudget
    from ottla.broker.network.settings import ListenerSpec, NetworkSettings
    from ottla.protocol.ports import Clock


class FrameChannel(Protocol):
    """What takes the frames of a connection: the request channel, or a login before it."""

    @property
    def free(self) -> Sequence[object]: ...

    @property
    def is_full(self) -> bool: ...

    def park(self, connection: Any) -> None: ...

    def submit(self, request: Any, frame: memoryview) -> bool: ...


@dataclass(frozen=True, slots=True)
class ListenerParts:
    """What connections of one listener have in common."""

    spec: ListenerSpec
    channel: FrameChannel


@dataclass(frozen=True, slots=True)
class ConnectionParts:
    """What all connections of a broker have in common."""

    settings: NetworkSettings
    clock: Clock
    pool: BufferPool
    budget: ByteBudget
    turn: EventTurn
