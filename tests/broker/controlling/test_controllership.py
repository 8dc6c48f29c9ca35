"""One controllership and the store's refusals: what was read before is not believed after."""

from __future__ import annotations

from ottla.broker.administration.cluster_admin import TopicSpec
from ottla.coordinator.controller.events import BrokersRead, Event
from ottla.coordinator.store import paths
from ottla.protocol.errors import ErrorCode
from tests.broker.support.cluster import open_cluster
from tests.broker.support.node import TIMEOUT_MS, quiet


async def test_what_was_read_before_a_refusal_does_not_come_back_after_it() -> None:
    """A broker was away when the registrations were read and is back when the world is.

    Acting on the older list would forget a broker that lives, and never tell it anything again:
    its next registration is one that has been dealt with (C-07, C-24)."""
    cluster = await open_cluster(1, 2, 3)
    node = cluster.nodes[1]
    results = await node.admin.create_topics(
        [TopicSpec("t", 1, 3)], validate_only=False, timeout_ms=TIMEOUT_MS
    )
    assert [result.error_code for result in results] == [ErrorCode.NONE]
    current = node.candidate.controllership
    assert current is not None
    # A leader has changed its in-sync set: what the controller writes next is refused.
    other = await cluster.store.connect()
    state = await other.get(paths.state("t", 0))
    await other.set(paths.state("t", 0), state.data)
    brokers = current.machine.image.brokers
    older = [BrokersRead(tuple(brokers[node_id] for node_id in (1, 2)))]

    async def read() -> Event:
        return older.pop() if older else BrokersRead(await current._reader.brokers())

    await current._perform(read)
    await quiet()

    assert sorted(current.machine.image.brokers) == [1, 2, 3]
    for one in cluster.nodes.values():
        assert sorted(one.metadata.image.brokers) == [1, 2, 3]
        assert one.metadata.image.partition("t", 0) == current.machine.image.partition("t", 0)
