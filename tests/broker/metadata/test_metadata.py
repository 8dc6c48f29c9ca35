"""This broker's metadata: what it answers, whom it tells, whom it does not believe."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.broker.metadata.metadata import ListenerNode, MetadataCache
from ottla.coordinator.metadata.changes import FULL_UPDATE, LEADER_DURING_DELETE, ConfigChanged
from ottla.coordinator.metadata.image import Entity
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from tests.broker.support.node import HandClock, quiet

if TYPE_CHECKING:
    from ottla.coordinator.metadata.delta import MetadataDelta

TOPIC_ID = b"@" * 16


def update(*, epoch: int = 5, leader: int = 2, kind: int = 1) -> UpdateMetadataRequest:
    state = UpdateMetadataPartitionState(
        partition_index=0, leader=leader, leader_epoch=4, isr=[leader], replicas=[2]
    )
    endpoints = [
        UpdateMetadataEndpoint(9092, "in", "INSIDE", 0),
        UpdateMetadataEndpoint(9093, "out", "OUTSIDE", 1),
    ]
    return UpdateMetadataRequest(
        controller_id=2,
        controller_epoch=epoch,
        type=kind,
        topic_states=[UpdateMetadataTopicState("t", TOPIC_ID, [state])],
        live_brokers=[
            UpdateMetadataBroker(2, endpoints=endpoints, rack="r"),
            UpdateMetadataBroker(1, endpoints=endpoints[:1], rack=None),
        ],
    )


def told() -> MetadataCache:
    metadata = MetadataCache(HandClock())
    metadata.begin("cluster", 3)
    assert metadata.apply(update()).error_code == ErrorCode.NONE
    return metadata


def test_each_listener_has_its_own_end_points() -> None:
    """A client that came from outside must not be sent to an inside address."""
    metadata = told()

    assert metadata.endpoints("INSIDE") == (
        ListenerNode(1, "in", 9092, None),
        ListenerNode(2, "in", 9092, "r"),
    )
    assert metadata.endpoints("OUTSIDE") == (ListenerNode(2, "out", 9093, "r"),)
    metadata.apply(UpdateMetadataRequest(controller_id=2, controller_epoch=5))
    assert metadata.endpoints("INSIDE") == ()


def test_topics_and_leaders_are_found_by_name_and_by_id() -> None:
    """Fetch from version 13 on knows ids only."""
    metadata = told()

    assert metadata.topic_name(TOPIC_ID) == "t"
    assert metadata.topic_name(bytes(16)) is None
    assert metadata.leader_of("t", 0) == (2, 4)
    assert metadata.leader_of("t", 1) == (-1, -1)
    assert metadata.topic_names() == ["t"]
    assert (metadata.cluster_id, metadata.controller_id) == ("cluster", 2)
    assert metadata.error_for_missing_topic("u") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_deposed_controller_is_not_believed() -> None:
    """CTL-48: nor one that was deposed before this broker started (C-01)."""
    metadata = told()
    late = metadata.apply(update(epoch=4, leader=1))
    assert late.error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    assert metadata.leader_of("t", 0) == (2, 4)
    fresh = MetadataCache(HandClock())
    fresh.begin("cluster", 6)

    assert fresh.apply(update()).error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    assert fresh.topic_names() == []


def test_listeners_hear_of_differences_only_and_see_the_new_image() -> None:
    """Each of them starts or stops something."""
    metadata = told()
    heard: list[MetadataDelta] = []

    def listen(delta: MetadataDelta) -> None:
        assert delta.after is metadata.image
        heard.append(delta)

    metadata.subscribe(listen)
    metadata.apply(update())
    assert heard == []
    metadata.apply(update(epoch=6))
    assert [delta.has_new_controller for delta in heard] == [True]


def test_the_settings_of_a_topic_go_with_it() -> None:
    """The next topic of that name must begin with its own."""
    metadata = told()
    metadata.take([ConfigChanged(Entity("topics", "t"), {"retention.ms": "5"})])
    assert metadata.config("topics", "t") == {"retention.ms": "5"}
    metadata.apply(update(leader=LEADER_DURING_DELETE))

    assert metadata.topic("t") is None
    assert metadata.config("topics", "t") == {}


async def test_waiting_ends_with_the_change_or_with_the_time() -> None:
    """A request that waits for a topic must not wait for ever."""
    clock = HandClock()
    metadata = MetadataCache(clock)
    seen = asyncio.ensure_future(metadata.wait_for(lambda image: "t" in image.topics, 100))
    never = asyncio.ensure_future(metadata.wait_for(lambda image: "u" in image.topics, 100))
    await quiet()
    metadata.apply(update())
    await clock.advance(100)

    assert await seen
    assert not await never
    assert await metadata.wait_for(lambda image: "t" in image.topics, 0)
    assert not await metadata.wait_for(lambda image: "u" in image.topics, 0)


async def test_it_is_complete_only_after_a_full_update() -> None:
    """The first words of a controller name the brokers and nothing else; clients must wait."""
    metadata = MetadataCache(HandClock())
    waiting = asyncio.ensure_future(metadata.wait_until_complete(100))
    metadata.apply(update())
    await quiet()
    assert not waiting.done()
    metadata.apply(update(kind=FULL_UPDATE))

    assert await waiting
