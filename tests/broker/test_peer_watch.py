"""A controller whose process dies is succeeded at once, and what it led is led by others."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.broker.test_controlled_shutdown import leaders, with_topic
from tests.support.cluster import running_cluster

if TYPE_CHECKING:
    from ottla.broker.server.broker import Broker


async def vanish(broker: Broker) -> None:
    """Looks like a kill to the other brokers: port and connections are closed, the session
    lives."""
    network = broker.network
    assert network is not None
    network.stop_accepting()
    await network.stop(0)
    await broker.parts.fetchers.stop()
    await broker.parts.shared.tasks.stop()


@pytest.mark.requirement("CTL-02")
async def test_its_session_need_not_run_out() -> None:
    """Eighteen seconds without a controller would be eighteen seconds without a failover."""
    async with running_cluster(3, {"zookeeper.session.timeout.ms": "600000"}) as cluster:
        await with_topic(cluster)
        dead = cluster.controller
        # Time for the others to have begun their peer_watch.
        await asyncio.sleep(0.5)
        epoch = dead.metadata.image.controller_epoch
        await vanish(dead)
        others = [one for one in cluster.running.brokers if one is not dead]
        async with asyncio.timeout(60):
            while any(dead.node_id in leaders(cluster, one.node_id) for one in others):
                await asyncio.sleep(0.02)

        image = others[0].metadata.image
        assert image.controller_epoch == epoch + 1
        assert image.controller_id in {one.node_id for one in others}
        assert leaders(cluster, others[0].node_id) <= {one.node_id for one in others}


async def test_a_broker_that_only_closes_its_connections_is_not_taken_for_dead() -> None:
    """A listener that still answers belongs to a process that lives."""
    async with running_cluster(3) as cluster:
        await with_topic(cluster)
        controller = cluster.controller
        epoch = controller.metadata.image.controller_epoch
        assert controller.network is not None
        for processor in controller.network._processors:
            for connection in list(processor.connections):
                connection.close("to see what happens")
        await asyncio.sleep(0.6)

        assert controller.metadata.image.controller_epoch == epoch
        assert leaders(cluster, controller.node_id) == {1, 2, 3}
