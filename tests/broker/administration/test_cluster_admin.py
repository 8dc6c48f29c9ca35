"""A cluster of one: topics and settings through store, controller and this broker's metadata."""

from __future__ import annotations

import asyncio

import pytest

from ottla.broker.administration.cluster_admin import PartitionsSpec, TopicSpec
from ottla.broker.system.memory_disk import MemoryDisk
from ottla.coordinator.controller.specs import ControllerSettings
from ottla.coordinator.store import paths
from ottla.protocol.errors import ErrorCode, KafkaError
from tests.broker.support.node import TIMEOUT_MS, BrokerNode, open_node, quiet
from tests.coordinator.store.disk import PowerCutDisk


async def create(node: BrokerNode, *specs: TopicSpec) -> list[ErrorCode]:
    results = await node.admin.create_topics(specs, validate_only=False, timeout_ms=TIMEOUT_MS)
    return [result.error_code for result in results]


async def test_a_created_topic_is_served_and_shown_when_the_answer_comes() -> None:
    """A client that was told yes produces at once."""
    node = await open_node(MemoryDisk())
    spec = TopicSpec("t", 3, configs={"retention.ms": "5"})
    (result,) = await node.admin.create_topics([spec], validate_only=False, timeout_ms=TIMEOUT_MS)

    assert (result.error_code, result.partition_count, result.replication_factor) == (0, 3, 1)
    topic = node.metadata.topic("t")
    assert topic is not None
    assert topic.topic_id == result.topic_id
    assert node.metadata.topic_name(result.topic_id) == "t"
    assert node.metadata.leader_of("t", 2) == (1, 0)
    assert node.replicas.leaders == {("t", index): 1 for index in range(3)}
    assert node.metadata.error_for_missing("t", 0) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert node.metadata.error_for_missing("t", 9) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await node.stop()


async def test_the_settings_are_there_before_the_log_is_opened() -> None:
    """A log that is opened with defaults would be rolled and deleted by them."""
    node = await open_node(MemoryDisk())
    await create(node, TopicSpec("t", configs={"segment.bytes": "1000000"}))

    assert node.replicas.configs["t"] == {"segment.bytes": "1000000"}
    assert node.metadata.config("topics", "t") == {"segment.bytes": "1000000"}
    await node.stop()


async def test_each_topic_gets_its_own_answer() -> None:
    """One bad name in a request does not spoil the others."""
    node = await open_node(MemoryDisk())
    assert await create(node, TopicSpec("a"), TopicSpec("b/c")) == [
        ErrorCode.NONE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ]
    assert await create(node, TopicSpec("a"), TopicSpec("c", configs={"nonsense": "1"})) == [
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.INVALID_CONFIG,
    ]
    results = await node.admin.create_topics(
        [TopicSpec("d")], validate_only=True, timeout_ms=TIMEOUT_MS
    )
    assert results[0].error_code == ErrorCode.NONE
    assert node.metadata.topic_names() == ["a"]
    await node.stop()


async def test_many_creations_at_once_are_all_answered() -> None:
    """The controller handles creations one after the other and must answer every one of them."""
    node = await open_node(MemoryDisk())
    answers = await asyncio.gather(*(create(node, TopicSpec(f"t{n}", 2)) for n in range(30)))

    assert answers == [[ErrorCode.NONE]] * 30
    assert len(node.metadata.topic_names()) == 30
    same = await asyncio.gather(*(create(node, TopicSpec("same")) for _ in range(5)))
    assert sorted(same) == [[ErrorCode.NONE], *[[ErrorCode.TOPIC_ALREADY_EXISTS]] * 4]
    await node.stop()


async def test_a_deleted_topic_is_gone_when_the_answer_comes() -> None:
    """Its replicas first, then the metadata; by name, and by id."""
    node = await open_node(MemoryDisk())
    await create(node, TopicSpec("t", 2), TopicSpec("u"))
    topic = node.metadata.topic("u")
    assert topic is not None
    results = await node.admin.delete_topics(
        ["t", topic.topic_id, "none", b"?" * 16], timeout_ms=TIMEOUT_MS
    )

    assert [result.error_code for result in results] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ]
    assert [result.name for result in results] == ["t", "u", "none", ""]
    assert node.metadata.topic_names() == []
    assert sorted(node.replicas.deleted) == [("t", 0), ("t", 1), ("u", 0)]
    await node.stop()


async def test_a_topic_made_again_gets_another_id_and_other_settings() -> None:
    """C-22: nothing of the old topic may be taken for the new one's."""
    node = await open_node(MemoryDisk())
    await create(node, TopicSpec("t", configs={"retention.ms": "5"}))
    before = node.metadata.topic("t")
    await node.admin.delete_topics(["t"], timeout_ms=TIMEOUT_MS)
    assert await create(node, TopicSpec("t")) == [ErrorCode.NONE]
    after = node.metadata.topic("t")

    assert before is not None
    assert after is not None
    assert before.topic_id != after.topic_id
    assert node.metadata.config("topics", "t") == {}
    assert node.replicas.configs["t"] == {}
    await node.stop()


async def test_partitions_are_added() -> None:
    """The new partitions have leaders when the answer arrives."""
    node = await open_node(MemoryDisk())
    await create(node, TopicSpec("t", 2))
    results = await node.admin.create_partitions(
        [PartitionsSpec("t", 4), PartitionsSpec("none", 4)],
        validate_only=False,
        timeout_ms=TIMEOUT_MS,
    )

    assert [result.error_code for result in results] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert node.metadata.leader_of("t", 3) == (1, 0)
    assert node.replicas.leaders[("t", 3)] == 1
    await node.stop()


async def test_settings_count_when_the_answer_comes() -> None:
    """And they are announced, for brokers that did not hear the question."""
    node = await open_node(MemoryDisk())
    await create(node, TopicSpec("t"))
    await node.admin.set_configs("topics", "t", {"retention.ms": "7"})
    assert node.metadata.config("topics", "t") == {"retention.ms": "7"}
    await node.admin.set_configs("brokers", "<default>", {"message.max.bytes": "9"})
    assert node.metadata.config("brokers", "<default>") == {"message.max.bytes": "9"}
    with pytest.raises(KafkaError) as missing:
        await node.admin.set_configs("topics", "none", {})

    assert missing.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert len(await node.lifecycle.session.children(paths.CONFIG_CHANGES)) == 2
    await node.stop()


async def test_two_changes_of_one_setting_do_not_lose_each_other() -> None:
    """Each is computed from what the other left, not from what both had seen."""
    node = await open_node(MemoryDisk())
    await create(node, TopicSpec("t"))

    async def add(name: str) -> None:
        await node.admin.change_configs("topics", "t", lambda current: {**current, name: "1"})

    await asyncio.gather(*(add(name) for name in ("a", "b", "c")))

    assert node.metadata.config("topics", "t") == {"a": "1", "b": "1", "c": "1"}
    await node.stop()


async def test_settings_that_another_program_wrote_are_followed() -> None:
    """Kafka's own tools write the znode and the announcement."""
    node = await open_node(MemoryDisk())
    await create(node, TopicSpec("t"))
    session = node.lifecycle.session
    await session.set(paths.config("topics", "t"), paths.build_config({"retention.ms": "9"}))
    announcement = paths.build_config_change("topics", "t")
    await session.create(paths.CONFIG_CHANGE_PREFIX, announcement, sequential=True)
    await quiet()

    assert node.metadata.config("topics", "t") == {"retention.ms": "9"}
    await node.clock.advance(20 * 60 * 1000)
    await session.create(paths.CONFIG_CHANGE_PREFIX, announcement, sequential=True)
    await quiet()
    assert len(await session.children(paths.CONFIG_CHANGES)) == 1
    await node.stop()


async def test_the_wish_of_a_tool_to_delete_a_topic_is_granted() -> None:
    """A znode under /admin/delete_topics is how tools ask."""
    node = await open_node(MemoryDisk())
    await create(node, TopicSpec("t"))
    session = node.lifecycle.session
    await session.create(paths.delete_topic("t"))
    await session.create(paths.delete_topic("none"))
    await quiet()

    assert node.metadata.topic_names() == []
    assert await session.children(paths.DELETE_TOPICS) == []
    await node.stop()


@pytest.mark.requirement("CTL-07", "CTL-26")
async def test_forbidden_deletions_are_recorded_only() -> None:
    """Nothing watches for them, and nothing is lost."""
    node = await open_node(MemoryDisk(), settings=ControllerSettings(delete_topic_enable=False))
    await create(node, TopicSpec("t"))
    session = node.lifecycle.session
    await session.create(paths.delete_topic("t"))
    await quiet()

    assert node.metadata.topic_names() == ["t"]
    assert await session.children(paths.DELETE_TOPICS) == ["t"]
    await node.stop()


@pytest.mark.requirement("CTL-06")
async def test_a_topic_that_a_tool_wrote_is_led_and_can_grow() -> None:
    """The assignment is all that a tool writes; directories, id and leaders follow."""
    node = await open_node(MemoryDisk())
    session = node.lifecycle.session
    await session.create(paths.topic("t"), paths.build_topic(paths.TopicPayload(None, {0: (1,)})))
    await quiet()
    assert node.metadata.leader_of("t", 0) == (1, 0)
    payload = paths.parse_topic((await session.get(paths.topic("t"))).data)
    assert payload is not None
    topic = node.metadata.topic("t")
    assert topic is not None
    assert payload.topic_id == topic.topic_id
    larger = payload._replace(partitions={0: (1,), 1: (1,)})
    await session.set(paths.topic("t"), paths.build_topic(larger))
    await quiet()

    assert node.metadata.leader_of("t", 1) == (1, 0)
    assert node.replicas.leaders == {("t", 0): 1, ("t", 1): 1}
    await node.stop()


async def test_a_partition_whose_disk_failed_has_no_leader() -> None:
    """KIP-112: the broker says so in its answer; clients must not be sent there."""
    node = await open_node(MemoryDisk())
    node.replicas.errors[("t", 1)] = ErrorCode.KAFKA_STORAGE_ERROR
    await create(node, TopicSpec("t", 2))
    await quiet()

    assert node.metadata.leader_of("t", 0) == (1, 0)
    assert node.metadata.leader_of("t", 1)[0] == -1
    await node.stop()


async def test_ids_of_producers_are_never_given_twice() -> None:
    """Neither across blocks nor across restarts."""
    disk = PowerCutDisk()
    node = await open_node(disk)
    first = [await node.admin.allocate_producer_id() for _ in range(3)]
    many = await asyncio.gather(*(node.admin.allocate_producer_id() for _ in range(1500)))
    await node.kill()
    again = await open_node(disk.after_power_cut(0))
    after = await again.admin.allocate_producer_id()

    assert first == [0, 1, 2]
    assert sorted(many) == list(range(3, 1503))
    assert after == 2000
    await again.stop()


async def test_who_is_not_the_controller_says_so() -> None:
    """Clients then ask for the controller and go there."""
    node = await open_node(MemoryDisk())
    await node.candidate.end()

    assert await create(node, TopicSpec("t")) == [ErrorCode.NOT_CONTROLLER]
    results = await node.admin.delete_topics(["t"], timeout_ms=TIMEOUT_MS)
    assert [result.error_code for result in results] == [ErrorCode.NOT_CONTROLLER]
    await node.stop()


async def test_an_answer_that_takes_too_long_is_unknown() -> None:
    """A timeout is not a failure: the topic may come to be all the same."""
    node = await open_node(MemoryDisk())
    node.replicas.door.clear()
    creating = asyncio.ensure_future(create(node, TopicSpec("t")))
    await quiet()
    await node.clock.advance(TIMEOUT_MS + 1)
    assert await creating == [ErrorCode.REQUEST_TIMED_OUT]
    node.replicas.door.set()
    await quiet()

    assert node.metadata.topic_names() == ["t"]
    await node.stop()
