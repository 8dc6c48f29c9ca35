"""What a connection finds around it: its listener's ways, and what all connections share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.data_classes import dataclass

if TYPE_CHECKING:
    from ottla.broker.network.buffers import BufferPool, ByteBudget
    from ottla.broker.network.channel import RequestChannel
    from ottla.broker.network.settings import ListenerSpec, NetworkSettings
    from ottla.protocol.ports import Clock


@dataclass(frozen=True, slots=True)
class ListenerParts:
    """What connections of one listener have in common."""

    spec: ListenerSpec
    channel: RequestChannel


@dataclass(frozen=True, slots=True)
class ConnectionParts:
    """What all connections of a broker have in common."""

    settings: NetworkSettings
    clock: Clock
    pool: BufferPool
    budget: ByteBudget
