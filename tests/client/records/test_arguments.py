"""Wrong arguments come out of the call that has them, in a sentence that says what is right."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

import ottla
from ottla.client.fetching.offsets import check_times
from ottla.client.records.arguments import check_topic, check_wait, partitions_of, texts, whole
from tests.client.support.toy_log import ToyPartition

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.client.support.toy_broker import ToyCluster

P0 = ottla.TopicPartition("t", 0)
HERE = "127.0.0.1:9092"
new_topic: Any = ottla.NewTopic


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "ä", "a/b", "x" * 250, "a\n"])
def test_names_that_no_broker_would_take_are_refused_here(name: str) -> None:
    """Brokers would only say that there is no such topic, for as long as a call may take."""
    with pytest.raises(ottla.RequestRefused, match="no topic has that name") as failure:
        check_topic(name)
    assert failure.value.code is ottla.ErrorCode.INVALID_TOPIC_EXCEPTION


def test_names_that_a_broker_takes_are_taken() -> None:
    """The neighbours of the refused ones."""
    for name in ("...", "a.b_c-D9", "x" * 249):
        check_topic(name)


@pytest.mark.parametrize(
    ("partitions", "sentence"),
    [
        ("t", "partitions are given as a list, not 't'"),
        (P0, "partitions are given as a list, not"),
        (None, "partitions are given as a list, not None"),
        (["ab"], "a partition is a topic and a number, not 'ab'"),
        ([("t", "0")], "a partition is a topic and a number"),
        ([("t", True)], "a partition is a topic and a number"),
        ([("t", -1)], "a partition's number is 0 or more, not -1"),
        ([("t", 2**31)], "a partition's number is 2147483647 at most"),
    ],
)
def test_partitions_are_a_list_of_pairs(partitions: Any, sentence: str) -> None:
    """A single one is a pair of two things that are none."""
    with pytest.raises((TypeError, ValueError), match=re.escape(sentence)):
        partitions_of(partitions)


def test_plain_pairs_are_partitions_each_once() -> None:
    """JSON and other clients use plain pairs."""
    assert partitions_of([("t", 0), P0]) == [P0]


@pytest.mark.parametrize("value", ["5", 1.5, None, True, float("nan")])
def test_numbers_are_numbers(value: Any) -> None:
    """In a request they would end the client."""
    with pytest.raises(TypeError, match="it is a whole number"):
        whole("it", value)
    with pytest.raises((TypeError, ValueError), match=r"it is (a number|0 or more)"):
        check_wait("it", -value if isinstance(value, float) else value)


def test_a_single_name_is_no_list_of_names() -> None:
    """``delete_topics("t2")`` deleted the topics t and 2."""
    with pytest.raises(TypeError, match="topics are given as a list of texts, not 't2'"):
        texts("topics", "t2")
    with pytest.raises(TypeError, match="a topic is called by a text, not 5"):
        texts("topics", [5])


Wrong = tuple[dict[str, Any], str]
PRODUCERS: list[Wrong] = [
    ({"linger_ms": -1}, "linger_ms is 0 or more, not -1"),
    ({"linger_ms": float("nan")}, "linger_ms is 0 or more, not nan"),
    ({"request_timeout_ms": 0}, "request_timeout_ms is 1 or more"),
    ({"call_timeout_ms": 0}, "call_timeout_ms is 1 or more"),
    ({"retry_backoff": 100}, "retry_backoff is a Backoff, not 100"),
    ({"value_serializer": "json"}, "value_serializer is a function, such as TEXT.encode"),
    ({"on_delivery": 3}, "on_delivery is a function, not 3"),
    ({"interceptors": (3,)}, "objects with the methods on_send and on_delivery, not 3"),
    ({"partitioner": 3}, "partitioner is one of 'murmur2'"),
    ({"compression": None}, "compression is one of 'none'"),
    ({"acks": True}, "acks is 0, 1 or 'all', not True"),
    ({"config": 5}, "a configuration is a ProducerConfig or so, not one of type int"),
]
CONSUMERS: list[Wrong] = [
    ({"fetch_wait_ms": -1}, "fetch_wait_ms is 0 or more"),
    ({"fetch_bytes_max": 0}, "fetch_bytes_max is 1 or more"),
    ({"response_bytes_max": 0}, "response_bytes_max is 1024 or more"),
    ({"key_deserializer": ottla.serializers.TEXT}, "a function, such as TEXT.decode"),
    ({"assignors": (3,), "group_id": "g"}, "an assignor is a name or an object that has one"),
]


@pytest.mark.parametrize(
    ("kind", "settings", "sentence"),
    [(ottla.Producer, *one) for one in PRODUCERS] + [(ottla.Consumer, *one) for one in CONSUMERS],
)
async def test_settings_are_checked_when_a_client_is_made(
    kind: Any, settings: dict[str, Any], sentence: str
) -> None:
    """A wrong setting must fail before the first record."""
    with pytest.raises((TypeError, ValueError), match=re.escape(sentence)):
        kind(HERE, **settings)


@pytest.mark.parametrize("bootstrap", ["http://h:9092", "PLAINTEXT://h:9092", "a b:9092", "h/x"])
async def test_an_address_has_neither_protocol_nor_path(bootstrap: str) -> None:
    """They would be resolved as host names, and fail as unreachable."""
    with pytest.raises(ValueError, match="is no broker address"):
        ottla.Producer(bootstrap)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"timestamp": "now"}, "a timestamp in milliseconds is a whole number, not 'now'"),
        ({"timestamp": 2**63}, "a timestamp in milliseconds is 9223372036854775806 at most"),
        ({"partition": "0"}, "a partition's number is a whole number, not '0'"),
        ({"partition": 1.0}, "a partition's number is a whole number, not 1.0"),
        ({"headers": {"a": b"x"}}, "headers are a list of pairs of str and bytes"),
        ({"headers": [("\ud800", b"x")]}, "headers are pairs of str and bytes"),
    ],
)
async def test_a_wrong_record_ends_no_producer(
    toy: ToyCluster, arguments: dict[str, Any], sentence: str
) -> None:
    """A record that could not be encoded used to stop the producer with all other records."""
    log = toy.add_topic("t").partitions[0]
    async with ottla.Producer(toy.bootstrap) as producer:
        with pytest.raises((TypeError, ValueError), match=re.escape(sentence)):
            await producer.send("t", b"x", **arguments)
        if "headers" not in arguments:
            with pytest.raises((TypeError, ValueError), match=re.escape(sentence)):
                await producer.send_batch("t", [b"x"], **arguments)
        await (await producer.send("t", b"good"))
    assert log.values() == [b"good"]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda it: it.assign([P0, P0]), "is named twice"),
        (lambda it: it.seek(P0, "5"), "an offset is a whole number, not '5'"),
        (lambda it: it.seek(P0, -1), "an offset is 0 or more, not -1"),
        (lambda it: it.seek_to_time("x"), "a time in milliseconds is a whole number, not 'x'"),
        (lambda it: it.pause([P0]), "a partition is a topic and a number"),
        (lambda it: it.position("t"), "a partition is a topic and a number, not 't'"),
        (lambda it: it.parallel(5), "a handler is a function, not 5"),
        (lambda it: it.parallel(print, concurrency=0), "concurrency has to be at least 1"),
        (lambda it: it.parallel(print, on_error="x"), "on_error is 'stop', 'skip', 'retry'"),
    ],
)
async def test_a_consumer_is_placed_by_partitions_and_numbers(
    call: Callable[[Any], object], sentence: str
) -> None:
    """A wrong argument would be sent to brokers again and again."""
    consumer = ottla.Consumer(HERE)
    consumer.assign([P0])
    with pytest.raises((TypeError, ValueError), match=re.escape(sentence)):
        call(consumer)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda it: it.poll(-1), "max_wait_ms is 0 or more, not -1"),
        (lambda it: it.poll("x"), "max_wait_ms is a number of milliseconds, not 'x'"),
        (lambda it: it.poll(1, -1), "max_records is 0 or more, not -1"),
        (lambda it: it.poll_batches(None), "max_wait_ms is a number of milliseconds"),
        (lambda it: it.subscribe(None), "topics are given as a list of texts, not None"),
        (lambda it: it.subscribe(re.compile(b"t")), "a pattern of topics is one of texts"),
        (lambda it: it.subscribe(["t"], 5), "a listener is a RebalanceListener, not 5"),
        (lambda it: it.end_offsets(P0), "partitions are given as a list"),
        (lambda it: it.offsets_at([P0]), "times are given as a dict by partition"),
        (lambda it: it.offsets_at({P0: 1.5}), "a time in milliseconds is a whole number"),
        (lambda it: it.commit({P0: 1.5}), "an offset to commit is a whole number, not 1.5"),
        (lambda it: it.commit({P0: -1}), "an offset to commit is 0 or more, not -1"),
        (lambda it: it.commit([P0]), "offsets to commit are given as a dict by partition"),
        (lambda it: it.committed(b"g"), "a group is called by a text, not b'g'"),
        (lambda it: it.committed(None, "t"), "partitions are given as a list, not 't'"),
    ],
)
async def test_a_consumer_asks_only_what_can_be_asked(
    toy: ToyCluster, call: Callable[[Any], Any], sentence: str
) -> None:
    """A commit that could not be written ended all that came after it, too."""
    async with ottla.Consumer(toy.bootstrap, group_id="g") as consumer:
        with pytest.raises((TypeError, ValueError), match=re.escape(sentence)):
            await call(consumer)
        await consumer.commit({P0: 3})
        assert (await consumer.committed(partitions=[P0]))[P0].offset == 3


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda it: it.delete_topics("t2"), "topics are given as a list of texts, not 't2'"),
        (lambda it: it.describe_topic(b"t"), "a topic is called by a text, not b't'"),
        (lambda it: it.describe_partitions("t"), "topics are given as a list of texts"),
        (lambda it: it.create_topics(5), "topics to create are a list of NewTopic, not 5"),
        (lambda it: it.create_topic(new_topic("q", "3")), "the number of partitions is a"),
        (
            lambda it: it.create_topic(new_topic("q", configs={"retention.ms": 5})),
            "the value of setting 'retention.ms' is a text, not 5",
        ),
        (lambda it: it.create_partitions("t", 0), "the number of partitions is 1 or more"),
        (lambda it: it.delete_records({P0: "x"}), "an offset to delete before is a whole number"),
        (lambda it: it.list_offsets({P0: -1}, "read_committed"), "isolation is an Isolation"),
        (lambda it: it.describe_configs("topic", "t"), "a resource is a ResourceType and a name"),
        (
            lambda it: it.describe_configs(ottla.ResourceType.BROKER, "x"),
            "a broker is called by its number, as '1', not 'x'",
        ),
        (
            lambda it: it.alter_configs(ottla.ResourceType.TOPIC, "t", {"a": "b"}),
            "a change is a ConfigChange, not 'a'",
        ),
        (lambda it: it.groups.describe(b"g"), "a group is called by a text, not b'g'"),
        (lambda it: it.groups.commit("g", {P0: 5}), "a position to commit is a Committed, not 5"),
        (lambda it: it.groups.delete_offsets("g", "t"), "partitions are given as a list"),
        (lambda it: it.groups.list_all("stable"), "states are given as a list of texts"),
        (lambda it: it.placements.move({P0: 5}), "replicas are a list of brokers, not 5"),
        (lambda it: it.placements.elect(0, "t"), "partitions are given as a list, not 't'"),
    ],
)
async def test_an_admin_takes_lists_and_numbers(
    toy: ToyCluster, call: Callable[[Any], Any], sentence: str
) -> None:
    """A text is a list of letters, and they may be names."""
    async with ottla.Admin(toy.bootstrap) as admin:
        with pytest.raises((TypeError, ValueError), match=re.escape(sentence)):
            await call(admin)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "bootstrap_servers is missing"),
        ({"bootstrap_servers": HERE, "begin": 3}, "there is no option 'begin'"),
        ({"bootstrap_servers": HERE, "columns": "value"}, "columns are given as a list of texts"),
    ],
)
async def test_options_of_a_table_are_known(options: dict[str, Any], sentence: str) -> None:
    """An unknown option used to be ignored, and the whole topic was read."""
    with pytest.raises(TypeError, match=re.escape(sentence)):
        await ottla.aread_arrow("t", **options)


async def test_a_table_is_made_of_one_topic(toy: ToyCluster) -> None:
    """A list of them was an unhashable type."""
    wrong: Any = ["t"]
    with pytest.raises(TypeError, match="a topic is called by a text, not \\['t'\\]"):
        await ottla.aread_arrow(wrong, bootstrap_servers=toy.bootstrap)


async def test_partitions_of_a_table_are_numbers(toy: ToyCluster) -> None:
    """A single number is refused with the expected form."""
    toy.add_topic("t")
    wrong: Any = 0
    with pytest.raises(TypeError, match="partitions are given as a list of numbers, not 0"):
        await ottla.aread_arrow("t", bootstrap_servers=toy.bootstrap, partitions=wrong)


def test_the_blocking_clients_say_the_same() -> None:
    """The blocking clients share the code, except for wrapped arguments."""
    wrong: Any = 5
    with pytest.raises(ValueError, match="linger_ms is 0 or more"):
        ottla.sync.Producer(HERE, linger_ms=-1)
    consumer = ottla.sync.Consumer(HERE, group_id="g")
    with pytest.raises(TypeError, match="a listener is a RebalanceListener, not 5"):
        consumer.subscribe(["t"], wrong)
    consumer.close()


async def test_a_partition_that_was_added_is_there(toy: ToyCluster) -> None:
    """A producer with nothing else to send refused it for as long as it lived."""
    topic = toy.add_topic("t")
    async with ottla.Producer(toy.bootstrap) as producer:
        await (await producer.send("t", b"x", partition=0))
        with pytest.raises(ottla.RequestRefused, match="it has the partitions 0 to 0 only"):
            await producer.send("t", b"x", partition=1)
        topic.partitions.append(ToyPartition(1))
        await (await producer.send("t", b"y", partition=1))
    assert topic.partitions[1].values() == [b"y"]


async def test_a_batch_goes_to_a_partition_that_was_added(toy: ToyCluster) -> None:
    """``send_batch`` follows added partitions as ``send`` does."""
    topic = toy.add_topic("t")
    async with ottla.Producer(toy.bootstrap) as producer:
        await (await producer.send_batch("t", [b"x"], partition=0))
        with pytest.raises(ottla.RequestRefused, match="it has the partitions 0 to 0 only"):
            await producer.send_batch("t", [b"x"], partition=1)
        topic.partitions.append(ToyPartition(1))
        await (await producer.send_batch("t", [b"y"], partition=1))
    assert topic.partitions[1].values() == [b"y"]


async def test_an_idle_producer_hears_of_partitions_when_what_it_knows_is_old(
    toy: ToyCluster,
) -> None:
    """The producer refreshed only topics that it sent to, so it kept the first number for ever."""
    topic = toy.add_topic("t")
    async with ottla.Producer(toy.bootstrap, metadata_max_age_ms=0) as producer:
        assert await producer.partition_count("t") == 1
        topic.partitions.append(ToyPartition(1))
        assert await producer.partition_count("t") == 2


async def test_the_old_name_of_the_partition_count_warns(toy: ToyCluster) -> None:
    """A consumer's ``partitions_of`` returns the partitions, and one name has one meaning."""
    toy.add_topic("t")
    async with ottla.Producer(toy.bootstrap) as producer:
        with pytest.warns(DeprecationWarning, match="partition_count"):
            assert await producer.partitions_of("t") == 1


def test_times_that_stand_for_a_place_are_asked_for() -> None:
    """-3 is the record of the highest timestamp (KIP-734), -4 and -5 are of tiered logs: the broker
    decides whether it supports them."""
    for time in (-5, -4, -3, -2, -1):
        check_times({P0: time})
    with pytest.raises(ValueError, match="-5 or more"):
        check_times({P0: -6})
