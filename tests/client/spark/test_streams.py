"""A stream as Spark drives it, without Spark: what is asked for when, and what comes out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.client.administration.topic_requests import NewTopic
from ottla.client.spark.errors import RecordsLost
from ottla.client.spark.pyspark_api import ReadAllAvailable
from ottla.client.sync.admin import Admin
from ottla.client.sync.producer import Producer
from ottla.protocol.ids import TopicPartition
from tests.client.spark.support.driven import Query
from tests.client.spark.support.topics import fill, remade

if TYPE_CHECKING:
    from collections.abc import Callable

    NewTopicName = Callable[..., str]


def test_a_stream_begins_at_the_end_and_goes_on(broker: str, topic: str) -> None:
    """Spark's connector does the same by default."""
    fill(broker, topic, 10)
    query = Query(broker, subscribe=topic)

    assert query.batch() == {}
    assert query.batch() is None
    fill(broker, topic, 5)
    assert query.batch() == {0: [10, 11, 12, 13, 14]}
    assert query.batch() is None


def test_the_first_batch_is_the_same_after_a_crash(broker: str, topic: str) -> None:
    """Spark asks for the start again, and a topic that grows would say another one: what came
    before it would never be read."""
    fill(broker, topic, 10)
    query = Query(broker, subscribe=topic)
    query.start()
    fill(broker, topic, 5)
    first = query.batch()
    fill(broker, topic, 5)

    again = query.restarted(is_done=False)

    assert first == {0: [10, 11, 12, 13, 14]}
    assert again.batch() == first
    assert again.batch() == {0: [15, 16, 17, 18, 19]}


def test_a_partition_without_records_at_first_keeps_its_beginning(
    broker: str, new_topic: NewTopicName
) -> None:
    """The batch that is repeated may be the first of that partition alone."""
    topic = new_topic(2)
    fill(broker, topic, 3)
    query = Query(broker, subscribe=topic, startingOffsets="earliest")

    assert query.batch() == {0: [0, 1, 2]}
    with Producer(broker) as producer:
        producer.send(topic, b"x", partition=1).result()
    assert query.batch() == {1: [0]}
    assert query.restarted(is_done=False).batch() == {1: [0]}


def test_a_restarted_query_goes_on_where_it_was(broker: str, topic: str) -> None:
    """A checkpoint takes precedence over startingOffsets."""
    fill(broker, topic, 3)
    query = Query(broker, subscribe=topic, startingOffsets="earliest")
    assert query.batch() == {0: [0, 1, 2]}
    fill(broker, topic, 3)

    assert query.restarted(startingOffsets="latest").batch() == {0: [3, 4, 5]}


def test_partitions_and_topics_that_come_later_are_read_from_their_beginning(
    broker: str, new_topic: NewTopicName
) -> None:
    """A stream that begins at the end would lose what was written before it looked."""
    topic = new_topic()
    query = Query(broker, subscribePattern=f"{topic}(-more)?")
    assert query.batch() == {}
    with Admin(broker) as admin:
        admin.create_partitions(topic, 2)
        admin.create_topics([NewTopic(f"{topic}-more", 3), NewTopic(f"{topic}-other", 1)])
    fill(broker, topic, 2, 2)
    fill(broker, f"{topic}-more", 1, 3)
    query = query.restarted()

    assert query.batch() == {0: [0, 1, 0], 1: [0, 1, 0], 2: [0]}
    assert query.restarted(is_done=False).batch() == {0: [0, 1, 0], 1: [0, 1, 0], 2: [0]}


# Limits.


def test_a_trigger_takes_no_more_than_it_may(broker: str, new_topic: NewTopicName) -> None:
    """A query that was away for long must not choke on its first batch."""
    topic = new_topic(2)
    fill(broker, topic, 20, 2)
    query = Query(broker, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=30)

    assert query.batch() == {0: list(range(15)), 1: list(range(15))}
    assert query.batch() == {0: list(range(15, 20)), 1: list(range(15, 20))}
    everything = query.reader.latestOffset(query.reader.initialOffset(), ReadAllAvailable())
    assert everything[topic] == {"0": 20, "1": 20}


def test_a_trigger_waits_for_enough_but_not_for_ever(broker: str, topic: str) -> None:
    """Many small batches cost more than a few large ones."""
    fill(broker, topic, 2)
    options = {"startingOffsets": "earliest", "minOffsetsPerTrigger": 3}
    query = Query(broker, subscribe=topic, maxTriggerDelay="1h", **options)

    # The first batch does not wait: it is unknown how long its records have been waiting.
    assert query.batch() == {0: [0, 1]}
    fill(broker, topic, 2)
    assert query.batch() is None
    fill(broker, topic, 1)
    assert query.batch() == {0: [2, 3, 4]}
    hasty = query.restarted(maxTriggerDelay="0ms")
    fill(broker, topic, 1)
    assert hasty.batch() == {0: [5]}
    fill(broker, topic, 1)
    assert hasty.batch() == {0: [6]}


def test_what_comes_after_the_beginning_is_left_for_another_run(broker: str, topic: str) -> None:
    """AvailableNow ends, however fast the topic grows, and obeys the limit."""
    fill(broker, topic, 5)
    query = Query(broker, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=3)
    query.reader.prepareForTriggerAvailableNow()
    fill(broker, topic, 50)

    assert query.batch() == {0: [0, 1, 2]}
    assert query.batch() == {0: [3, 4]}
    assert query.batch() is None
    assert query.restarted().batch() == {0: [5, 6, 7]}


def test_a_query_that_begins_at_the_end_may_end_at_once(broker: str, topic: str) -> None:
    """Spark asks where AvailableNow ends before it asks where the query begins: what is written
    in between is no loss."""
    fill(broker, topic, 5)
    query = Query(broker, subscribe=topic)
    query.reader.prepareForTriggerAvailableNow()
    fill(broker, topic, 3)

    assert query.batch() == {}
    assert query.batch() is None
    assert query.ends[0].startswith(f'{{"{topic}": {{"0": 8}}')


# Losses.


def test_retention_that_was_faster_is_a_loss_that_names_the_option(broker: str, topic: str) -> None:
    """A silent loss would be worse; the message also says how to continue."""
    fill(broker, topic, 10)
    query = Query(broker, subscribe=topic, startingOffsets="earliest")
    query.start()
    with Admin(broker) as admin:
        admin.delete_records({TopicPartition(topic, 0): 4})

    with pytest.raises(RecordsLost, match=r"begins at offset 4, and 0 was to be read.*failOnData"):
        query.batch()
    assert query.restarted(is_done=False, failOnDataLoss=False).batch() == {0: [4, 5, 6, 7, 8, 9]}


def test_a_topic_made_anew_is_a_loss(broker: str, topic: str) -> None:
    """A new topic that has grown past the query's position has other records."""
    fill(broker, topic, 3)
    query = Query(broker, subscribe=topic, startingOffsets="earliest")
    assert query.batch() == {0: [0, 1, 2]}
    remade(broker, topic)
    fill(broker, topic, 5)

    again = query.restarted()
    with pytest.raises(RecordsLost, match="was deleted and created again"):
        again.batch()
    assert again.restarted(failOnDataLoss=False).batch() == {0: [0, 1, 2, 3, 4]}


def test_a_batch_is_not_repeated_with_the_records_of_another_topic(broker: str, topic: str) -> None:
    """Spark has its offsets in the checkpoint, and does not ask whether they still mean that."""
    fill(broker, topic, 3)
    query = Query(broker, subscribe=topic, startingOffsets="earliest")
    assert query.batch() == {0: [0, 1, 2]}
    remade(broker, topic)
    fill(broker, topic, 5)

    again = query.restarted(is_done=False)
    with pytest.raises(RecordsLost, match="was deleted and created again"):
        again.batch()
    # With failOnDataLoss=false the query reads the new topic once, and no part of it twice.
    lax = again.restarted(is_done=False, failOnDataLoss=False)
    assert lax.batch() == {}
    assert lax.batch() == {0: [0, 1, 2, 3, 4]}


def test_a_topic_that_is_gone_is_a_loss(broker: str, new_topic: NewTopicName) -> None:
    """With failOnDataLoss=false the query reads the other topics."""
    gone, there = new_topic(), new_topic()
    fill(broker, gone, 3)
    quick: dict[str, object] = {"fetchOffset.retryIntervalMs": 1}
    query = Query(broker, subscribe=f"{gone},{there}", startingOffsets="earliest", **quick)
    assert query.batch() == {0: [0, 1, 2]}
    with Admin(broker) as admin:
        admin.delete_topics([gone])
    fill(broker, there, 2)
    again = query.restarted()

    with pytest.raises(RecordsLost, match=f"'{gone}' partition 0 does not exist any more"):
        again.batch()
    assert again.restarted(failOnDataLoss=False).batch() == {0: [0, 1]}


# Lag.


def test_how_far_a_query_is_can_be_seen_like_a_groups_lag(broker: str, topic: str) -> None:
    """Monitoring looks at groups, and a query has none, so it commits its position for them."""
    fill(broker, topic, 4)
    query = Query(broker, subscribe=topic, startingOffsets="earliest", groupIdPrefix=f"of-{topic}")
    query.batch()
    fill(broker, topic, 3)
    # Where the next batch begins is known before there is one.
    query.reader.latestOffset(query.start(), ReadAllAvailable())
    with Admin(broker) as admin:
        (group,) = [
            group.group_id
            for group in admin.groups.list_all()
            if group.group_id.startswith(f"of-{topic}-")
        ]
        place = admin.groups.offsets(group)[TopicPartition(topic, 0)]

    assert place.offset == 4
    # The same group after a restart, or operators could not follow it.
    again = query.restarted()
    again.batch()
    again.reader.commit(again.start())
    with Admin(broker) as admin:
        assert admin.groups.offsets(group)[TopicPartition(topic, 0)].offset == 7


def test_the_group_may_be_named_and_left_out(broker: str, topic: str) -> None:
    """Spark's connector has the same option; some users want no group at all."""
    fill(broker, topic, 4)
    name = f"named-{topic}"
    for commits in (False, True):
        query = Query(
            broker,
            subscribe=topic,
            startingOffsets="earliest",
            commitOffsets=commits,
            **{"kafka.group.id": name},
        )
        query.batch()
        query.reader.commit(query.start())
        with Admin(broker) as admin:
            found = [group.group_id for group in admin.groups.list_all()]
        assert (name in found) is commits


def test_progress_shows_the_ends_of_the_topics(broker: str, topic: str) -> None:
    """Beside where the query is, so that the difference is its lag."""
    fill(broker, topic, 4)
    query = Query(broker, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=1)

    assert query.reader.reportLatestOffset() is None
    query.batch()
    assert query.reader.reportLatestOffset() == {topic: {"0": 4}}
