"""Images, the changes between them, and UpdateMetadata as a source of changes."""

from __future__ import annotations

import random

import pytest

from ottla.coordinator.metadata.changes import (
    FULL_UPDATE,
    LEADER_DURING_DELETE,
    BrokerChanged,
    BrokerGone,
    Change,
    ConfigChanged,
    ConfigGone,
    PartitionChanged,
    TopicChanged,
    TopicGone,
    changes_of_update,
)
from ottla.coordinator.metadata.delta import MetadataDelta, PartitionDelta, apply_changes
from ottla.coordinator.metadata.image import (
    BrokerRegistration,
    Endpoint,
    Entity,
    MetadataImage,
    PartitionState,
    TopicImage,
)
from ottla.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

ONE, TWO = b"1" * 16, b"2" * 16
EMPTY = MetadataImage("c")
PLAIN = (Endpoint("PLAINTEXT", "h", 9092, "PLAINTEXT"),)


def led(leader: int, leader_epoch: int = 0, partition_epoch: int = 0) -> PartitionState:
    return PartitionState((1, 2), leader, leader_epoch, (leader,), partition_epoch)


def with_topic(topic_id: bytes = ONE, *states: PartitionState) -> MetadataImage:
    topic = TopicImage("t", topic_id, dict(enumerate(states or (led(1),))))
    return apply_changes(EMPTY, [TopicChanged(topic)]).after


def update(
    topic_id: bytes, leader: int, leader_epoch: int = 0, kind: int = 0
) -> UpdateMetadataRequest:
    state = UpdateMetadataPartitionState(
        partition_index=0,
        leader=leader,
        leader_epoch=leader_epoch,
        isr=[leader],
        replicas=[1, 2],
    )
    return UpdateMetadataRequest(
        controller_id=7,
        controller_epoch=3,
        type=kind,
        topic_states=[UpdateMetadataTopicState("t", topic_id, [state])],
        live_brokers=[
            UpdateMetadataBroker(
                1, endpoints=[UpdateMetadataEndpoint(9092, "h", "PLAINTEXT", 0)], rack=None
            )
        ],
    )


def receive(image: MetadataImage, request: UpdateMetadataRequest) -> MetadataDelta:
    return apply_changes(image, changes_of_update(image, request))


def test_an_image_is_not_touched_by_what_comes_after_it() -> None:
    """A reader that holds an image across an await must not see it change."""
    first = with_topic()
    second = apply_changes(first, [PartitionChanged("t", 0, led(2, 1))]).after

    assert first.topics["t"].partitions[0].leader == 1
    assert second.topics["t"].partitions[0].leader == 2
    assert second.names == {ONE: "t"}


def test_what_did_not_change_is_shared() -> None:
    """An image per change of one partition must not cost a copy of all of them."""
    image = with_topic()
    other = TopicImage("u", TWO, {0: led(1)})
    before = apply_changes(image, [TopicChanged(other)]).after
    after = apply_changes(before, [PartitionChanged("t", 0, led(2, 1))]).after

    assert after.topics["u"] is before.topics["u"]
    assert after.configs is before.configs
    assert after.names is before.names
    assert after.brokers is before.brokers


def test_a_delta_names_exactly_what_differs() -> None:
    """Listeners start and stop things by it."""
    before = with_topic(ONE, led(1), led(2))
    delta = apply_changes(
        before, [PartitionChanged("t", 1, led(1, 1)), PartitionChanged("t", 0, led(1))]
    )

    assert delta.partitions == [PartitionDelta("t", 1, led(2), led(1, 1))]
    assert (delta.made_topics, delta.gone_topics, delta.brokers) == ([], [], [])
    assert apply_changes(before, [PartitionChanged("t", 0, led(1))]).is_empty


def test_a_topic_made_again_is_another_topic() -> None:
    """C-22: the old one's partitions must be seen to go before the new one's come."""
    before = with_topic(ONE)
    delta = apply_changes(before, [TopicChanged(TopicImage("t", TWO, {0: led(1)}))])

    assert [topic.topic_id for topic in delta.gone_topics] == [ONE]
    assert [topic.topic_id for topic in delta.made_topics] == [TWO]
    assert delta.partitions == [
        PartitionDelta("t", 0, led(1), None),
        PartitionDelta("t", 0, None, led(1)),
    ]
    assert delta.after.names == {TWO: "t"}


def test_brokers_and_configs_come_and_go() -> None:
    """The other two things that listeners care for."""
    entity = Entity("topics", "t")
    broker = BrokerRegistration(1, PLAIN)
    first = apply_changes(EMPTY, [BrokerChanged(broker), ConfigChanged(entity, {"a": "1"})])
    second = apply_changes(first.after, [BrokerGone(1), ConfigGone(entity)])

    assert (first.brokers, first.configs) == ([broker], [entity])
    assert first.after.config("topics", "t") == {"a": "1"}
    assert (second.gone_brokers, second.configs) == ([1], [entity])
    assert second.after == EMPTY


def test_an_update_brings_brokers_topics_and_the_controller() -> None:
    """All that a broker knows of the cluster comes this way."""
    delta = receive(EMPTY, update(ONE, 1))

    image = delta.after
    assert (image.controller_id, image.controller_epoch) == (7, 3)
    assert image.brokers == {1: BrokerRegistration(1, PLAIN)}
    assert image.topics["t"].topic_id == ONE
    assert image.topics["t"].partitions[0].leader == 1
    assert delta.has_new_controller


def test_leadership_never_goes_back_in_time() -> None:
    """C-21: a late update of an earlier epoch would send clients to the old leader."""
    image = receive(EMPTY, update(ONE, 2, leader_epoch=5)).after
    late = receive(image, update(ONE, 1, leader_epoch=4)).after
    again = receive(image, update(ONE, 1, leader_epoch=6)).after

    assert late.topics["t"].partitions[0].leader == 2
    assert again.topics["t"].partitions[0].leader == 1


def test_a_topic_made_again_starts_over_with_low_epochs() -> None:
    """C-22: the id is looked at before the epoch, or the new topic would never be accepted."""
    image = receive(EMPTY, update(ONE, 2, leader_epoch=5)).after
    made_again = receive(image, update(TWO, 1, leader_epoch=0)).after

    assert made_again.topics["t"].topic_id == TWO
    assert made_again.topics["t"].partitions[0].leader == 1


def test_a_deletion_spares_a_topic_made_again() -> None:
    """C-10: the late farewell of the old topic must not remove the new one."""
    image = receive(EMPTY, update(TWO, 1)).after
    spared = receive(image, update(ONE, LEADER_DURING_DELETE)).after
    gone = receive(image, update(TWO, LEADER_DURING_DELETE)).after

    assert "t" in spared.topics
    assert gone.topics == {}
    assert gone.names == {}


def test_a_full_update_removes_what_it_does_not_name() -> None:
    """A broker that was away while a topic was deleted hears of it from the next controller."""
    known = apply_changes(EMPTY, [TopicChanged(TopicImage("old", TWO, {0: led(1)}))]).after
    partial = receive(known, update(ONE, 1)).after
    full = receive(known, update(ONE, 1, kind=FULL_UPDATE))

    assert sorted(partial.topics) == ["old", "t"]
    assert sorted(full.after.topics) == ["t"]
    assert [topic.name for topic in full.gone_topics] == ["old"]


def test_a_broker_that_is_not_listed_is_gone() -> None:
    """Every update lists all live brokers."""
    known = apply_changes(EMPTY, [BrokerChanged(BrokerRegistration(9, PLAIN))]).after
    delta = receive(known, update(ONE, 1))

    assert delta.gone_brokers == [9]
    assert sorted(delta.after.brokers) == [1]


def test_gone_is_gone_only_once() -> None:
    """Two deletions of one topic are one change."""
    delta = apply_changes(with_topic(), [TopicGone("t")])

    assert [topic.name for topic in delta.gone_topics] == ["t"]
    assert apply_changes(delta.after, [TopicGone("t")]).is_empty


def _named(draw: random.Random) -> Change:
    name, kind = draw.choice("tuv"), draw.randrange(4)
    entity = Entity("topics", name)
    if kind == 0:
        states = {index: led(draw.randint(1, 2)) for index in range(draw.randint(0, 2))}
        return TopicChanged(TopicImage(name, draw.choice([ONE, TWO]) + name.encode(), states))
    if kind == 1:
        return TopicGone(name)
    return ConfigChanged(entity, {"a": draw.choice("12")}) if kind == 2 else ConfigGone(entity)


@pytest.mark.parametrize("seed", range(20))
def test_what_no_change_names_is_the_same(seed: int) -> None:
    """Only what is named is compared; the result is that of a comparison of everything."""
    draw = random.Random(seed)
    image = EMPTY
    for _ in range(60):
        delta = apply_changes(image, [_named(draw) for _ in range(draw.randint(1, 4))])
        before, image = image, delta.after

        topics = before.topics.keys() | image.topics.keys()
        other = {one for one in topics if _id(before, one) != _id(image, one)}
        assert {one.name for one in delta.gone_topics} == other & before.topics.keys()
        assert {one.name for one in delta.made_topics} == other & image.topics.keys()
        assert {(one.topic, one.partition) for one in delta.partitions} == {
            (topic, index)
            for topic in topics
            for index in range(3)
            if (topic in other and before.partition(topic, index) is not None)
            or before.partition(topic, index) != image.partition(topic, index)
        }
        assert delta.configs == sorted(
            one
            for one in before.configs.keys() | image.configs.keys()
            if before.configs.get(one) != image.configs.get(one)
        )
        assert image.names == {topic.topic_id: name for name, topic in image.topics.items()}


def _id(image: MetadataImage, name: str) -> bytes | None:
    return image.topics[name].topic_id if name in image.topics else None
