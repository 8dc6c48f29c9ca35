"""A connection between brokers reaches the broker that is meant, or none (KIP-1242)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.wire.clock import RealClock
from ottla.wire.connection_config import PeerConfig
from ottla.wire.errors import BrokerUnreachable
from ottla.wire.negotiation import connect
from ottla.wire.real import RealNet
from tests.support.in_process import running_broker

if TYPE_CHECKING:
    from tests.support.in_process import RunningBroker


async def _reached(running: RunningBroker, cluster_id: str | None, node_id: int) -> bool:
    config = PeerConfig(cluster_id=cluster_id, node_id=node_id)
    try:
        connection = await connect(RealNet(), RealClock(), running.broker.address, config)
    except BrokerUnreachable as error:
        # The address may be that of the right broker again.
        return not error.retriable or "it is not broker" not in str(error)
    connection.close()
    return True


async def test_a_broker_of_another_cluster_or_with_another_id_is_refused() -> None:
    """An address may be taken by another broker, whose answers would be believed."""
    async with running_broker() as running, running_broker() as stranger:
        own, other = (one.broker.metadata.cluster_id for one in (running, stranger))
        node_id = running.broker.metadata.image.controller_id
        assert own != other

        assert await _reached(running, own, node_id)
        assert await _reached(running, None, -1)
        assert not await _reached(running, other, node_id)
        assert not await _reached(running, own, node_id + 1)
