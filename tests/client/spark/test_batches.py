"""A batch query as Spark drives it, without Spark."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pytest

from ottla.client.cluster.config_requests import ConfigChange, ResourceType
from ottla.client.spark.errors import ReadTimedOut, RecordsLost
from ottla.client.spark.reader import BatchReader, RangePartition
from ottla.client.spark.rows import arrow_schema, spark_schema
from ottla.client.sync.admin import Admin
from ottla.client.sync.producer import Producer
from ottla.protocol.configs import ConfigOperation
from ottla.protocol.ids import TopicPartition
from ottla.wire.errors import RequestRefused
from tests.client.spark.support.topics import fill, given, offsets_in

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    NewTopicName = Callable[..., str]


def read(broker: str, **options: object) -> dict[int, list[int]]:
    """The offsets by partition."""
    reader = BatchReader(given(broker, options))
    return offsets_in(pickle.loads(pickle.dumps(reader)), reader.partitions())


def rows(broker: str, **options: object) -> list[pa.RecordBatch]:
    """All that comes out."""
    reader = BatchReader(given(broker, options))
    return [batch for task in reader.partitions() for batch in reader.read(task)]


def test_everything_there_is_is_read(broker: str, new_topic: NewTopicName) -> None:
    """From the beginning to the end, in tasks that each have a part."""
    topic = new_topic(3)
    fill(broker, topic, 7, 3)

    assert read(broker, subscribe=topic) == {number: list(range(7)) for number in range(3)}
    assert read(broker, subscribe=topic, minPartitions=8) == read(broker, subscribe=topic)
    assert read(broker, subscribe=topic, maxRecordsPerPartition=2) == read(broker, subscribe=topic)


def test_what_is_written_meanwhile_is_not_read(broker: str, topic: str) -> None:
    """The end offsets are fixed at the start, or a query would never see the same records twice."""
    fill(broker, topic, 5)
    reader = BatchReader(given(broker, {"subscribe": topic}))
    tasks = reader.partitions()
    fill(broker, topic, 5)

    assert offsets_in(reader, tasks) == {0: [0, 1, 2, 3, 4]}


def test_offsets_say_where_to_begin_and_to_end(broker: str, new_topic: NewTopicName) -> None:
    """For each partition; -2 and -1 are the two ends."""
    topic = new_topic(2)
    fill(broker, topic, 9, 2)

    found = read(
        broker,
        subscribe=topic,
        startingOffsets=f'{{"{topic}": {{"0": 6, "1": -2}}}}',
        endingOffsets=f'{{"{topic}": {{"0": -1, "1": 2}}}}',
    )

    assert found == {0: [6, 7, 8], 1: [0, 1]}


@pytest.mark.requirement("CON-25")
def test_times_say_where_to_begin_and_to_end(broker: str, new_topic: NewTopicName) -> None:
    """A load that went wrong is done again from some time on."""
    topic = new_topic(2)
    with Producer(broker) as producer:
        for number in range(6):
            for partition in range(2):
                moment = 1_000 * (number + partition)
                producer.send(topic, b"x", partition=partition, timestamp=moment)
        producer.flush()

    assert read(broker, subscribe=topic, startingTimestamp=4_000) == {0: [4, 5], 1: [3, 4, 5]}
    assert read(broker, subscribe=topic, endingTimestamp=1_500) == {0: [0, 1], 1: [0]}
    by_partition = f'{{"{topic}": {{"0": 5000, "1": 6000}}}}'
    assert read(broker, subscribe=topic, startingOffsetsByTimestamp=by_partition) == {
        0: [5],
        1: [5],
    }
    # Partition 0 has nothing as late as that.
    late = {"subscribe": topic, "startingTimestamp": 6_000}
    with pytest.raises(ValueError, match="partition 0 has no record as late as the option startin"):
        read(broker, **late)
    assert read(broker, startingOffsetsByTimestampStrategy="latest", **late) == {1: [5]}


def test_topics_are_chosen_by_pattern_and_partitions_by_number(
    broker: str, new_topic: NewTopicName
) -> None:
    """The pattern must match the whole name; internal topics are excluded."""
    one, other = new_topic(2), new_topic(1)
    fill(broker, one, 2, 2)
    fill(broker, other, 1)

    assert read(broker, subscribePattern=f"{one}|{other}") == {0: [0, 1, 0], 1: [0, 1]}
    assert read(broker, subscribePattern=one[:-1]) == {}
    assert read(broker, assign=f'{{"{one}": [1]}}') == {1: [0, 1]}
    assert read(broker, subscribe=f"{other}, {one}") == {0: [0, 1, 0], 1: [0, 1]}


# Gaps that are no losses.


def test_gaps_of_transactions_are_no_losses(broker: str, topic: str) -> None:
    """Markers and aborted records have offsets that are never read, also at the very end."""
    with Producer(broker, transactional_id=topic) as producer:
        producer.init_transactions()
        for is_good in (True, False, True, False):
            producer.begin_transaction()
            producer.send_batch(topic, [b"a", b"b"]).result()
            if is_good:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
        producer.begin_transaction()
        producer.send_batch(topic, [b"open"]).result()

        committed = read(broker, subscribe=topic, kafka_isolation_level="read_committed")
        everything = read(broker, subscribe=topic)
        producer.abort_transaction()

    assert committed == {0: [0, 1, 6, 7]}
    assert everything == {0: [0, 1, 3, 4, 6, 7, 9, 10, 12]}
    split = read(
        broker, subscribe=topic, kafka_isolation_level="read_committed", maxRecordsPerPartition=1
    )
    assert split == committed


def test_a_range_that_begins_inside_of_a_batch_has_nothing_before_it(
    broker: str, topic: str
) -> None:
    """Brokers hand out whole batches of producers."""
    fill(broker, topic, 10)

    found = read(
        broker, subscribe=topic, startingOffsets=f'{{"{topic}": {{"0": 3}}}}', minPartitions=3
    )

    assert found == {0: [3, 4, 5, 6, 7, 8, 9]}


# Losses.


def test_what_retention_took_is_a_loss_that_can_be_passed(broker: str, topic: str) -> None:
    """It happens between planning and reading; with failOnDataLoss=false the rest is read."""
    fill(broker, topic, 10)
    strict = BatchReader(given(broker, {"subscribe": topic, "maxRecordsPerPartition": 5}))
    lax = BatchReader(given(broker, {"subscribe": topic, "failOnDataLoss": "false"}))
    short, whole = strict.partitions(), lax.partitions()
    with Admin(broker) as admin:
        admin.delete_records({TopicPartition(topic, 0): 7})

    with pytest.raises(RecordsLost, match="begins at offset 7, and 0 was to be read"):
        offsets_in(strict, short)
    assert offsets_in(lax, whole) == {0: [7, 8, 9]}
    assert offsets_in(lax, short) == {0: [7, 8, 9]}


def test_offsets_that_are_not_there_are_losses_that_name_the_option(
    broker: str, topic: str
) -> None:
    """Below the beginning or beyond the end."""
    fill(broker, topic, 10)
    with Admin(broker) as admin:
        admin.delete_records({TopicPartition(topic, 0): 4})
    start, end = f'{{"{topic}": {{"0": 2}}}}', f'{{"{topic}": {{"0": 12}}}}'

    with pytest.raises(RecordsLost, match=r"startingOffsets names offset 2 .* offsets 4 to 10 on"):
        read(broker, subscribe=topic, startingOffsets=start)
    with pytest.raises(RecordsLost, match=r"endingOffsets names offset 12 .* offsets 4 to 10 on"):
        read(broker, subscribe=topic, endingOffsets=end)
    assert read(
        broker, subscribe=topic, startingOffsets=start, endingOffsets=end, failOnDataLoss=False
    ) == {0: [4, 5, 6, 7, 8, 9]}


def test_an_end_that_does_not_come_is_not_waited_for_for_ever(broker: str, topic: str) -> None:
    """A task that hangs is worse than one that fails."""
    fill(broker, topic, 3)
    options = {"subscribe": topic, "kafkaConsumer.pollTimeoutMs": 300}
    reader = BatchReader(given(broker, options))
    (task,) = reader.partitions()
    assert isinstance(task, RangePartition)
    beyond = RangePartition(task.range._replace(stop=5))

    with pytest.raises(ReadTimedOut, match="nothing came from offset 3 on within 300 ms"):
        offsets_in(reader, [beyond])


# What users get wrong.


def test_a_topic_that_is_not_there_is_one_sentence(broker: str, topic: str) -> None:
    """The error names the option, also for a missing partition."""
    quick = {"fetchOffset.retryIntervalMs": 1}

    with pytest.raises(ValueError, match="option subscribe names topic 'nowhere', which does not"):
        read(broker, subscribe=f"{topic},nowhere", **quick)
    with pytest.raises(ValueError, match=r"assign names partition 3 of topic .*, which has 1 onl"):
        read(broker, assign=f'{{"{topic}": [3]}}', **quick)
    # Apache Kafka says that nothing can be called that, ours that it does not exist.
    refusals = (ValueError, RequestRefused)
    with pytest.raises(refusals, match=r"option subscribe (names topic 'a/b'|asks for it)"):
        read(broker, subscribe=f"{topic},a/b", **quick)
    with pytest.raises(ValueError, match="startingOffsets has to name exactly the partitions"):
        read(broker, subscribe=topic, startingOffsets='{"other": {"0": 1}}')


def test_a_start_beyond_the_end_is_one_sentence(broker: str, topic: str) -> None:
    """An empty frame would hide the mistake."""
    fill(broker, topic, 9)

    with pytest.raises(ValueError, match="read from offset 7 to 3: the start lies beyond the end"):
        read(
            broker,
            subscribe=topic,
            startingOffsets=f'{{"{topic}": {{"0": 7}}}}',
            endingOffsets=f'{{"{topic}": {{"0": 3}}}}',
        )


# Rows.


def test_a_topic_may_say_what_its_timestamps_are(broker: str, topic: str) -> None:
    """timestampType distinguishes the producer's time from the broker's."""
    fill(broker, topic, 1)
    with Admin(broker) as admin:
        change = [ConfigChange("message.timestamp.type", ConfigOperation.SET, "LogAppendTime")]
        admin.alter_configs(ResourceType.TOPIC, topic, change)
    fill(broker, topic, 1)

    (batch,) = rows(broker, subscribe=topic)

    assert batch.column("timestampType").to_pylist() == [0, 1]
    batch.validate(full=True)


def test_batches_have_exactly_sparks_schema(broker: str, topic: str) -> None:
    """Spark checks the first Arrow batch of a task exactly, and trusts the others."""
    with Producer(broker) as producer:
        producer.send(topic, b"v", headers=(("a", None), ("a", b"2"))).result()
        producer.send(topic, None, b"").result()

    for has_headers in (False, True):
        (batch,) = rows(broker, subscribe=topic, includeHeaders=has_headers)
        assert batch.schema.equals(arrow_schema(has_headers))
        batch.validate(full=True)
        names = [part.split()[0] for part in spark_schema(has_headers).split(", ")]
        assert batch.schema.names == names
    assert batch.column("headers").to_pylist() == [
        [{"key": "a", "value": None}, {"key": "a", "value": b"2"}],
        None,
    ]
    assert batch.column("value").to_pylist() == [b"v", None]
    assert batch.column("key").to_pylist() == [None, b""]
