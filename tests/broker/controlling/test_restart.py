"""A single broker that stops, dies and starts again over its store's journal."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from ottla.broker.administration.cluster_admin import TopicSpec
from ottla.coordinator.store.frames import frame_at
from ottla.protocol.errors import ErrorCode
from tests.broker.support.node import DIRECTORY, TIMEOUT_MS, BrokerNode, open_node
from tests.coordinator.store.disk import PowerCutDisk

if TYPE_CHECKING:
    from ottla.protocol.ids import Uuid

JOURNAL = f"{DIRECTORY}/store.journal"


async def create(node: BrokerNode, *specs: TopicSpec) -> None:
    results = await node.admin.create_topics(specs, validate_only=False, timeout_ms=TIMEOUT_MS)
    assert [result.error_code for result in results] == [ErrorCode.NONE] * len(specs)


async def delete(node: BrokerNode, name: str) -> None:
    (result,) = await node.admin.delete_topics([name], timeout_ms=TIMEOUT_MS)
    assert result.error_code == ErrorCode.NONE


@pytest.mark.parametrize("is_clean", [True, False])
async def test_the_leader_epoch_grows_at_every_start(is_clean: bool) -> None:
    """R-23: clients and followers of the earlier life must be told apart from the next one's."""
    disk = PowerCutDisk()
    node = await open_node(disk)
    await create(node, TopicSpec("t", 2))
    for life in range(1, 4):
        if is_clean:
            epoch = await node.stop()
            disk = disk.after_power_cut()
            node = await open_node(disk, clean_stop_epoch=epoch)
        else:
            await node.kill()
            disk = disk.after_power_cut(0)
            node = await open_node(disk)

        assert node.lifecycle.broker_epoch == life + 1
        assert node.metadata.leader_of("t", 1) == (1, life)
        assert node.replicas.epochs == {("t", 0): life, ("t", 1): life}
        assert node.metadata.image.controller_epoch == life + 1
    await node.stop()


async def test_topics_ids_and_settings_come_back() -> None:
    """What was acknowledged is there after a power cut that keeps nothing unsynced."""
    disk = PowerCutDisk()
    node = await open_node(disk)
    await create(node, TopicSpec("t", 2, configs={"retention.ms": "5"}), TopicSpec("u"))
    await node.admin.set_configs("topics", "u", {"retention.ms": "6"})
    topic = node.metadata.topic("t")
    await node.kill()
    again = await open_node(disk.after_power_cut(0))

    assert topic is not None
    assert again.metadata.topic_names() == ["t", "u"]
    assert again.metadata.topic_name(topic.topic_id) == "t"
    assert again.metadata.config("topics", "t") == {"retention.ms": "5"}
    assert again.replicas.configs["u"] == {"retention.ms": "6"}
    assert again.lifecycle.cluster_id == node.lifecycle.cluster_id
    await again.stop()


async def test_a_deleted_topic_stays_deleted_and_is_made_again_as_another() -> None:
    """C-22: after a restart as well."""
    disk = PowerCutDisk()
    node = await open_node(disk)
    await create(node, TopicSpec("t"))
    first = node.metadata.topic("t")
    await delete(node, "t")
    await node.kill()
    again = await open_node(disk.after_power_cut(0))
    assert again.metadata.topic_names() == []
    await create(again, TopicSpec("t"))
    second = again.metadata.topic("t")

    assert first is not None
    assert second is not None
    assert first.topic_id != second.topic_id
    assert again.metadata.leader_of("t", 0) == (1, 0)
    await again.stop()


class Promise(NamedTuple):
    """What was known to be true when the journal had that size."""

    size_bytes: int
    topics: dict[str, Uuid]
    epochs: dict[str, int]


async def live_twice(disk: PowerCutDisk) -> tuple[PowerCutDisk, list[Promise]]:
    """Two lives of a broker with all that it can do; what was promised on the way."""
    promises: list[Promise] = []

    def promise(node: BrokerNode, disk: PowerCutDisk) -> None:
        topics = node.metadata.image.topics
        ids = {name: topic.topic_id for name, topic in topics.items()}
        epochs = {name: topics[name].partitions[0].leader_epoch for name in topics}
        promises.append(Promise(len(disk.names[JOURNAL].data), ids, epochs))

    for life in range(2):
        disk = disk.after_power_cut(0)
        node = await open_node(disk)
        promise(node, disk)
        await create(node, TopicSpec("t", 2, configs={"retention.ms": "5"}))
        promise(node, disk)
        await create(node, TopicSpec(f"kept{life}"))
        await node.admin.set_configs("topics", "t", {"retention.ms": "6"})
        await node.admin.allocate_producer_id()
        promise(node, disk)
        await delete(node, "t")
        promise(node, disk)
        await node.kill()
    return disk, promises


async def test_a_broker_starts_from_a_journal_that_was_cut_anywhere() -> None:
    """Whatever was promised before the cut holds, and the cluster works."""
    disk, promises = await live_twice(PowerCutDisk())
    data = bytes(disk.names[JOURNAL].data)
    ends = [0]
    while (found := frame_at(data, ends[-1])) is not None:
        ends.append(found[1])
    assert ends[-1] == len(data)
    # A cut inside a frame opens like one at its start: the store's own tests cut at every byte.
    cuts = [end for end in ends if end >= ends[3]]
    assert len(cuts) > 20
    for size_bytes in [*cuts, *(end - 1 for end in cuts[1:])]:
        torn = disk.after_power_cut()
        torn.names[JOURNAL].data = bytearray(data[:size_bytes])
        node = await open_node(torn)
        before = [one for one in promises if one.size_bytes <= size_bytes]
        later = [one for one in promises if one.size_bytes > size_bytes]
        topics = node.metadata.image.topics
        if before:
            certain = set(before[-1].topics.items())
            if later:
                certain &= set(later[0].topics.items())
            for name, topic_id in certain:
                assert topics[name].topic_id == topic_id, f"cut at byte {size_bytes}"
                epoch = topics[name].partitions[0].leader_epoch
                assert epoch > before[-1].epochs[name], f"cut at byte {size_bytes}"
        for topic in topics.values():
            assert all(state.leader == 1 for state in topic.partitions.values())
        await create(node, TopicSpec("new"))
        if "t" in topics:
            await delete(node, "t")
        await create(node, TopicSpec("t"))
        await node.kill()
