"""Features of the cluster: made by the controller, read by all, changed by administrators."""

from __future__ import annotations

import pytest

from ottla.coordinator.metadata.features import (
    TRANSACTION_VERSION,
    FeatureUpdate,
    Finalized,
    UpgradeType,
)
from ottla.coordinator.store import paths
from ottla.protocol.errors import ErrorCode, KafkaError
from tests.broker.support.cluster import Cluster, open_cluster
from tests.broker.support.node import BrokerNode, quiet

FIRST = Finalized({TRANSACTION_VERSION: 2}, 0)
DOWN = FeatureUpdate(TRANSACTION_VERSION, 1, UpgradeType.SAFE_DOWNGRADE)


async def levels(node: BrokerNode) -> Finalized:
    """What that broker tells clients, once everything has settled."""
    await quiet()
    return node.features.finalized


async def stop(cluster: Cluster) -> None:
    """Every broker leaves."""
    for node in cluster.nodes.values():
        await node.stop()


async def test_the_controller_of_a_new_cluster_finalizes_what_all_support() -> None:
    """Clients of a new cluster speak version 2 of transactions from the first one on (KIP-890)."""
    cluster = await open_cluster()
    nodes = [await cluster.start(node_id) for node_id in (1, 2)]

    assert [await levels(node) for node in nodes] == [FIRST, FIRST]
    assert await nodes[1].features.wait_until_known(1)
    await stop(cluster)


async def test_a_broker_that_supports_less_keeps_the_level_unset_until_it_has_gone() -> None:
    """It would be led by a level that it does not know."""
    cluster = await open_cluster()
    session = await cluster.store.connect(60_000)
    for path in ("/brokers", "/brokers/ids"):
        await session.create(path, b"")
    await session.create("/brokers/ids/9", paths.build_broker(paths.BrokerPayload(())))
    node = await cluster.start(1)
    before = await levels(node)
    await session.delete("/brokers/ids/9")

    assert before == Finalized()
    assert await levels(node) == FIRST
    await stop(cluster)


async def test_a_change_reaches_every_broker_and_counts_up_the_epoch() -> None:
    """Clients compare epochs of brokers that may have heard of it at different times."""
    cluster = await open_cluster()
    nodes = [await cluster.start(node_id) for node_id in (1, 2)]
    await quiet()

    refused = await nodes[0].features.update(
        [FeatureUpdate(TRANSACTION_VERSION, 1)], validate_only=False
    )
    tried = await nodes[0].features.update([DOWN], validate_only=True)
    assert [one.error_code for one in refused if one] == [ErrorCode.INVALID_UPDATE_VERSION]
    assert tried == [None]
    assert await levels(nodes[0]) == FIRST
    assert await nodes[0].features.update([DOWN], validate_only=False) == [None]

    expected = Finalized({TRANSACTION_VERSION: 1}, 1)
    assert [await levels(node) for node in nodes] == [expected, expected]
    assert await nodes[0].features.update([DOWN], validate_only=False) == [None]
    assert await levels(nodes[0]) == expected
    await stop(cluster)


async def test_one_refused_change_keeps_all_others_from_being_made() -> None:
    """Half a request would leave the administrator to find out which half."""
    cluster = await open_cluster()
    node = await cluster.start(1)
    await quiet()

    result = await node.features.update([DOWN, FeatureUpdate("no.such", 1)], validate_only=False)

    assert [one is None for one in result] == [True, False]
    assert await levels(node) == FIRST
    await stop(cluster)


async def test_what_a_lagging_server_of_the_store_says_is_not_believed() -> None:
    """A level that goes back for a moment would make clients change their protocol twice."""
    cluster = await open_cluster()
    node = await cluster.start(1)
    await quiet()
    await node.features.update([DOWN], validate_only=False)
    session = await cluster.store.connect(60_000)
    # The controller makes it anew, with an epoch that was over.
    await session.delete(paths.FEATURE)
    await quiet()

    assert (await session.get(paths.FEATURE)).stat.version == 0
    assert await levels(node) == Finalized({TRANSACTION_VERSION: 1}, 1)
    await stop(cluster)


async def test_without_a_session_an_update_fails_and_says_so() -> None:
    """The administrator must not believe that it was done."""
    cluster = await open_cluster()
    node = await cluster.start(1)
    await quiet()
    await node.features.end()

    with pytest.raises(KafkaError) as raised:
        await node.features.update([DOWN], validate_only=False)

    assert raised.value.code is ErrorCode.FEATURE_UPDATE_FAILED
    await stop(cluster)
