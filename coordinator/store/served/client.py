"""A broker's access to the store that another process of the machine serves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.store.served.link import ServedLink
from ottla.coordinator.store.served.messages import Open
from ottla.coordinator.store.store import SESSION_TIMEOUT_MS, ConnectionLoss, StoreError
from ottla.coordinator.store.zookeeper_channel import Channel
from ottla.coordinator.store.zookeeper_session import ZooKeeperSession

if TYPE_CHECKING:
    from ottla.coordinator.store.embedded import Spawn
    from ottla.protocol.ports import Address, Clock, Net

NAME = "the store of this machine"


class ServedStore:
    """The store of one broker; each ``connect`` opens a session of its own.

    A session judges the freshness of its data as sessions of ZooKeeper do."""

    def __init__(self, net: Net, clock: Clock, spawn: Spawn, address: Address, owner: int) -> None:
        self._net = net
        self._clock = clock
        self._spawn = spawn
        self._address = address
        self._owner = owner

    def __str__(self) -> str:
        return NAME

    async def connect(self, timeout_ms: int = SESSION_TIMEOUT_MS) -> ZooKeeperSession:
        """Open a session. Raises ConnectionLoss."""
        wanted = Open(0, timeout_ms, self._owner)
        link = ServedLink(self._net, self._clock, self._spawn, self._address, wanted)
        channel = Channel(link, self._clock, timeout_ms, NAME)
        try:
            await channel.open(timeout_ms)
        except BaseException as error:
            channel.abandon("it was not completed")
            if not isinstance(error, StoreError):
                raise
            raise ConnectionLoss(f"{NAME} does not answer: {error}") from error
        return ZooKeeperSession(channel, "")
