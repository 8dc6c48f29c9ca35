"""Routing of a producer with ``broker.list``: a random broker of the list for each request.

With one address, of a broker or of a load balancer, there is one connection, and all messages go to
the broker behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.classic.broker_partitions import BrokerPartition
from ottla.client.classic.produce_calls import led_partitions
from ottla.protocol.errors import ErrorCode
from ottla.wire.errors import RequestRefused
from ottla.wire.pool import Pool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.client.process.environment import Environment
    from ottla.protocol.ports import Address
    from ottla.wire.connection import Connection
    from ottla.wire.connection_config import ConnectionConfig


class ListedBrokers:
    """A ``Routing`` without ZooKeeper. Brokers are numbered by their position in the list."""

    def __init__(
        self, addresses: Sequence[Address], environment: Environment, config: ConnectionConfig
    ) -> None:
        net, clock, random = environment
        self._random = random.child("broker list")
        self.pool = Pool(net, clock, random.child("pool"), config)
        self._places = range(len(addresses))
        for place in self._places:
            self.pool.set_address(place, addresses[place])
        # The partitions that each connection's broker leads: a load balancer may use another broker
        # next time.
        self._led: dict[tuple[Connection, str], list[int]] = {}

    async def start(self) -> None:
        """Does nothing: connections open with the first request."""

    async def close(self) -> None:
        """Close the connections."""
        self.pool.close()

    async def partitions(self, topic: str) -> list[BrokerPartition]:
        """Return the partitions that a random broker of the list leads; of another one if it leads
        none.

        Raises BrokerUnreachable if a chosen broker is dead, and RequestRefused."""
        left = list(self._places)
        while left:
            place = left.pop(self._random.below(len(left)))
            led = await self._led_by(place, topic)
            if led:
                return [BrokerPartition(place, number) for number in led]
        raise RequestRefused(
            ErrorCode.LEADER_NOT_AVAILABLE,
            "no broker of the list leads a partition of the topic",
            topic=topic,
        )

    async def _led_by(self, place: int, topic: str) -> list[int]:
        connection = await self.pool.connection(place)
        known = self._led.get((connection, topic))
        if not known:
            self._led = {key: led for key, led in self._led.items() if not key[0].closed}
            known = self._led[connection, topic] = await led_partitions(connection, topic)
        return known

    def leader_moved(self, topic: str) -> None:
        """Ask the brokers again which partitions they lead."""
        self._led = {key: led for key, led in self._led.items() if key[1] != topic}
