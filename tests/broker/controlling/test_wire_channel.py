"""The connections of a controller to the other brokers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import pytest

from ottla.broker.controlling.wire_channel import WireChannel
from ottla.broker.metadata.metadata import MetadataCache
from ottla.coordinator.metadata.changes import BrokerChanged
from ottla.coordinator.metadata.image import BrokerRegistration
from ottla.protocol.errors import KafkaError
from tests.broker.support.node import HandClock, quiet

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.membership.peers import Peers
    from ottla.broker.partitions.control import ControlReceiver
    from ottla.wire.connection import Connection


class _Made:
    """A connection that can only be closed."""

    def __init__(self) -> None:
        self.closed = False

    def on_close(self, _callback: Callable[[], object]) -> None:
        """Drops the callback."""

    def close(self, _reason: str) -> None:
        self.closed = True


class _SlowPeers:
    """Peers that take a connection when the test lets them."""

    node_id = 1

    def __init__(self) -> None:
        self.taken = asyncio.Event()
        self.made = _Made()

    async def connect(self, _node_id: int, *, purpose: str) -> Connection:
        await self.taken.wait()
        return cast("Connection", self.made)


async def test_a_connection_that_comes_up_while_the_broker_stops_is_not_kept() -> None:
    """It would leak: when one of several brokers in a process stops, the process lives on."""
    metadata, peers = MetadataCache(HandClock()), _SlowPeers()
    metadata.take([BrokerChanged(BrokerRegistration(2, ()))])
    channel = WireChannel(cast("Peers", peers), metadata, cast("ControlReceiver", None))
    reaching = asyncio.ensure_future(channel.reach(2))
    await quiet()
    channel.close()
    peers.taken.set()

    with pytest.raises(KafkaError):
        await reaching
    assert peers.made.closed
