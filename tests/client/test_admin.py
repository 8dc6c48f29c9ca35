"""The admin against a real broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla import (
    Admin,
    ConfigChange,
    ConfigOperation,
    Consumer,
    ConsumerConfig,
    ErrorCode,
    NewTopic,
    Producer,
    RequestRefused,
    ResourceType,
    TopicPartition,
)
from tests.client.support.sites import soon

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def admin(broker: str) -> AsyncIterator[Admin]:
    """An admin of the running broker."""
    async with Admin(broker) as connected:
        yield connected


async def test_the_cluster_is_described(admin: Admin, broker: str) -> None:
    """Brokers and the controller are reported."""
    cluster = await admin.describe_cluster()

    assert cluster.cluster_id
    assert [str(view.address) for view in cluster.brokers] == [broker]
    assert cluster.controller_id == cluster.brokers[0].node_id


async def test_each_topic_has_its_own_result(admin: Admin) -> None:
    """One refusal must not hide what succeeded."""
    results = await admin.create_topics(
        [
            NewTopic("mixed-good", 2),
            NewTopic("mixed/bad", 1),
            NewTopic("mixed-placed", assignment=[[1]]),
        ]
    )

    good, bad = results["mixed-good"], results["mixed/bad"]
    assert not isinstance(good, RequestRefused)
    assert good.partition_count == 2
    assert isinstance(bad, RequestRefused)
    assert bad.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert (await admin.describe_topic("mixed-placed")).partitions[0].replicas == (1,)
    deleted = await admin.delete_topics(["mixed-good", "mixed-placed", "mixed-none"])
    assert deleted["mixed-good"] is deleted["mixed-placed"] is None
    assert isinstance(deleted["mixed-none"], RequestRefused)


async def test_a_trial_creates_nothing(admin: Admin) -> None:
    """validate_only says what would happen."""
    await admin.create_topic(NewTopic("trial", 1), validate_only=True)

    with pytest.raises(RequestRefused):
        await admin.describe_topic("trial")


async def test_partitions_can_be_added(admin: Admin) -> None:
    """An existing producer finds the new partitions."""
    await admin.create_topic(NewTopic("grows", 1))
    await admin.create_partitions("grows", 4)

    await soon(lambda: admin.describe_topic("grows"), lambda topic: topic.partition_count == 4)
    with pytest.raises(RequestRefused, match="INVALID_PARTITIONS"):
        await admin.create_partitions("grows", 2)


async def test_records_can_be_deleted_up_to_an_offset(admin: Admin, broker: str) -> None:
    """The first offset moves; what is behind it stays."""
    await admin.create_topic(NewTopic("trimmed", 1))
    where = TopicPartition("trimmed", 0)
    async with Producer(broker) as producer:
        await producer.send_values("trimmed", [b"%d" % number for number in range(10)])

    assert await admin.delete_records({where: 4}) == {where: 4}
    assert (await admin.list_offsets({where: -2}))[where] == (4, -1)
    async with Consumer(broker, ConsumerConfig(offset_reset="earliest")) as consumer:
        consumer.assign([where])
        assert (await consumer.poll())[0].offset == 4


async def test_the_record_of_the_highest_timestamp_is_found(admin: Admin, broker: str) -> None:
    """KIP-734; it is not the last one where clocks differ."""
    await admin.create_topic(NewTopic("clocks", 1))
    where = TopicPartition("clocks", 0)
    async with Producer(broker) as producer:
        for timestamp in (1_000, 3_000, 2_000):
            await (await producer.send("clocks", b"x", timestamp=timestamp))
    async with Consumer(broker) as consumer:
        found = await consumer.offsets_at({where: -3})

    assert found[where] == (1, 3_000)
    assert (await admin.list_offsets({where: -3}))[where] == (1, 3_000)


async def test_settings_are_changed_one_by_one(admin: Admin) -> None:
    """KIP-339: the others stay as they are."""
    await admin.create_topic(NewTopic("set", 1, configs={"retention.ms": "1000"}))
    await soon(lambda: admin.describe_topic("set"), bool)
    await admin.alter_configs(
        ResourceType.TOPIC,
        "set",
        [
            ConfigChange("cleanup.policy", ConfigOperation.APPEND, "compact"),
            ConfigChange("max.message.bytes", ConfigOperation.SET, "7777"),
        ],
    )
    (size,) = await soon(
        lambda: admin.describe_configs(ResourceType.TOPIC, "set", ["max.message.bytes"]),
        lambda found: found[0].value == "7777",
    )
    entries = {
        entry.name: entry for entry in await admin.describe_configs(ResourceType.TOPIC, "set")
    }

    assert size == entries["max.message.bytes"]
    assert entries["retention.ms"].value == "1000"
    assert set((entries["cleanup.policy"].value or "").split(",")) == {"delete", "compact"}
    (one,) = await admin.describe_configs(ResourceType.TOPIC, "set", ["retention.ms"])
    assert one.name == "retention.ms"


async def test_a_brokers_own_settings_are_asked_of_itself(admin: Admin) -> None:
    """Another broker does not know them."""
    entries = await admin.describe_configs(ResourceType.BROKER, "1", ["log.retention.hours"])

    assert [entry.name for entry in entries] == ["log.retention.hours"]


async def test_what_is_not_there_is_refused_by_name(admin: Admin) -> None:
    """The error says which topic."""
    with pytest.raises(RequestRefused, match="'nothere'") as caught:
        await admin.describe_configs(ResourceType.TOPIC, "nothere")

    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
