"""Serializers, interceptors, partitioners and delivery callbacks of a producer."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from ottla.client.process.errors import DeliveryTimedOut
from ottla.client.producer import Producer
from ottla.client.records import serializers
from ottla.client.records.interceptors import DeliveryReport, ProducerInterceptor, ProducerRecord
from ottla.client.records.partitioners import Unplaced, fnv1a
from ottla.client.settings.config import ProducerConfig
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.wire.backoff import Backoff
from ottla.wire.errors import RequestRefused
from tests.client.support.toy_broker import Fate

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.client.support.toy_broker import ToyCluster

QUICK = Backoff(1, 5)
FAST = ProducerConfig(retry_backoff=QUICK, reconnect_backoff=QUICK, linger_ms=0)


@pytest.mark.requirement("PRD-31")
async def test_keys_and_values_go_through_the_serializers(toy: ToyCluster) -> None:
    """A null value stays null: it is a tombstone and not the text "null"."""
    topic = toy.add_topic("t")
    async with Producer(
        toy.bootstrap,
        FAST,
        key_serializer=str.encode,
        value_serializer=serializers.JSON.encode,
    ) as producer:
        await producer.send("t", {"ä": [1, None]}, "k")
        await producer.send("t", None, "k")

    records = topic.partitions[0].records()
    assert [(record.key, record.value) for record in records] == [
        (b"k", '{"ä":[1,null]}'.encode()),
        (b"k", None),
    ]


@pytest.mark.parametrize(
    ("serde", "value", "data"),
    [
        (serializers.TEXT, "ä", b"\xc3\xa4"),
        (serializers.INT, -2, b"\xff" * 7 + b"\xfe"),
        (serializers.JSON, [1, "a"], b'[1,"a"]'),
        (serializers.BYTES, b"x", b"x"),
    ],
)
def test_a_form_writes_what_it_reads(
    serde: serializers.Serde[Any], value: object, data: bytes
) -> None:
    """Text and numbers have the form of Kafka's own serializers."""
    assert serde.encode(value) == data
    assert serde.decode(data) == value


def test_numbers_of_other_widths_are_read_and_others_refused() -> None:
    """Java writes an Integer in four bytes; a value of three bytes is not a number."""
    assert serializers.INT.decode(b"\xff\xff\xff\xfe") == -2
    with pytest.raises(ValueError, match="not 3"):
        serializers.INT.decode(b"abc")


class BySchema:
    """A serializer that has one function for each topic."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def for_topic(self, topic: str) -> Callable[[int], bytes]:
        self.asked.append(topic)
        return lambda value: b"%s=%d" % (topic.encode(), value)


async def test_a_serializer_may_know_the_topic_and_is_asked_once(toy: ToyCluster) -> None:
    """A schema registry has a subject for each topic; asking for it costs a request."""
    topic = toy.add_topic("t")
    schemas = BySchema()
    async with Producer(toy.bootstrap, FAST, value_serializer=schemas) as producer:
        await producer.send("t", 1)
        await producer.send("t", 2)

    assert topic.partitions[0].values() == [b"t=1", b"t=2"]
    assert schemas.asked == ["t"]


async def test_what_cannot_be_serialized_is_the_senders_own_error(toy: ToyCluster) -> None:
    """The record is not accepted, and the error names its topic."""
    topic = toy.add_topic("t")
    async with Producer(toy.bootstrap, FAST, value_serializer=serializers.JSON.encode) as producer:
        with pytest.raises(TypeError) as raised:
            await producer.send("t", object())
        await producer.send("t", 1)

    assert raised.value.__notes__ == ["while the value of a record for topic 't' was serialized"]
    assert topic.partitions[0].values() == [b"1"]


async def test_without_a_serializer_only_bytes_are_taken(toy: ToyCluster) -> None:
    """A str has no encoding of its own, so the caller has to choose one."""
    toy.add_topic("t")
    async with Producer(toy.bootstrap, FAST) as producer:
        with pytest.raises(TypeError, match="give the producer a serializer"):
            await producer.send("t", "text")  # type: ignore[arg-type]


class Stamp(ProducerInterceptor):
    """Adds a header, and remembers the fates."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.reports: list[DeliveryReport] = []

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return record._replace(headers=(*record.headers, (self.name, b"")))

    def on_delivery(self, report: DeliveryReport) -> None:
        self.reports.append(report)
        raise RuntimeError("its own trouble")


async def test_interceptors_see_every_record_in_turn_and_every_fate(
    toy: ToyCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """An interceptor that fails after the send is logged, and the records are not affected."""
    topic = toy.add_topic("t")
    first, second = Stamp("first"), Stamp("second")
    with caplog.at_level(logging.ERROR):
        async with Producer(toy.bootstrap, FAST, interceptors=(first, second)) as producer:
            await (await producer.send("t", b"1"))
            await (await producer.send("t", b"2"))

    headers = [record.headers for record in topic.partitions[0].records()]
    assert headers == [(("first", b""), ("second", b""))] * 2
    assert [report.base_offset for report in first.reports] == [0, 1]
    assert first.reports == second.reports
    assert "a delivery callback has failed" in caplog.text


async def test_a_delivery_is_reported_once_for_a_batch(toy: ToyCluster) -> None:
    """A call for every record would cost more than the record."""
    toy.add_topic("t")
    reports: list[DeliveryReport] = []
    async with Producer(
        toy.bootstrap, linger_ms=1_000, batch_bytes=100_000, on_delivery=reports.append
    ) as producer:
        for _ in range(1_000):
            await producer.send("t", b"x")

    assert sum(report.record_count for report in reports) == 1_000
    assert len(reports) <= 3
    assert all(report.error is None for report in reports)


async def test_a_failed_batch_is_reported_with_its_error(toy: ToyCluster) -> None:
    """An application that does not await deliveries learns of failures from an interceptor."""
    toy.add_topic("t")
    toy.judge = lambda seen: Fate.SILENCE if seen.api_key is ApiKey.PRODUCE else None
    reports: list[DeliveryReport] = []
    async with Producer(
        toy.bootstrap,
        FAST,
        request_timeout_ms=50,
        delivery_timeout_ms=150,
        on_delivery=reports.append,
    ) as producer:
        await producer.send("t", b"x")
        await producer.flush()

    (report,) = reports
    assert (report.topic, report.partition, report.record_count) == ("t", 0, 1)
    assert report.base_offset == -1
    assert isinstance(report.error, DeliveryTimedOut)


async def spread(toy: ToyCluster, partitioner: Any, count: int, key: bytes | None) -> Counter[int]:
    """How many of so many records each of four partitions got."""
    topic = toy.add_topic("t", 4)
    async with Producer(toy.bootstrap, FAST, partitioner=partitioner, batch_bytes=500) as producer:
        for number in range(count):
            await producer.send("t", b"%d" % number, key)
    return Counter({number: len(topic.partitions[number].values()) for number in range(4)})


async def test_round_robin_gives_each_partition_the_same(toy: ToyCluster) -> None:
    """The keys do not matter."""
    assert await spread(toy, "round_robin", 40, b"k") == Counter(dict.fromkeys(range(4), 10))


async def test_random_uses_all_partitions_for_one_key(toy: ToyCluster) -> None:
    """With 200 records, one of four is left out once in 10^24 times."""
    assert all((await spread(toy, "random", 200, b"k")).values())


async def test_sticky_does_not_look_at_the_key(toy: ToyCluster) -> None:
    """Keys that are only a part of the record must not gather it all in one partition."""
    counts = await spread(toy, "sticky", 200, b"k")

    assert sum(1 for count in counts.values() if count) > 1


@pytest.mark.parametrize("name", ["murmur2", "consistent", "consistent_random", "fnv1a"])
async def test_a_key_has_one_partition(toy: ToyCluster, name: str) -> None:
    """The order of the records of a key depends on it."""
    counts = await spread(toy, name, 50, b"k")

    assert sorted(counts.values()) == [0, 0, 0, 50]


async def test_a_function_of_the_application_chooses_or_leaves_it(toy: ToyCluster) -> None:
    """The function gets the bytes and the partitions; None leaves the choice to the producer."""
    topic = toy.add_topic("t", 4)
    seen: list[Unplaced] = []

    def by_length(record: Unplaced) -> int | None:
        seen.append(record)
        return None if record.key is None else len(record.key) % record.partition_count

    async with Producer(toy.bootstrap, FAST, partitioner=by_length) as producer:
        await producer.send("t", b"three", b"abc")
        await producer.send("t", b"any")
        await producer.send("t", b"told", b"abc", partition=1)

    assert topic.partitions[3].values()[0] == b"three"
    assert b"told" in topic.partitions[1].values()
    assert seen[0] == Unplaced("t", b"abc", b"three", 4, seen[0].available)
    assert len(seen) == 2


async def test_a_partition_that_a_function_makes_up_is_refused(toy: ToyCluster) -> None:
    """In the call that would have sent it."""
    toy.add_topic("t", 4)
    async with Producer(toy.bootstrap, FAST, partitioner=lambda _: 9) as producer:
        with pytest.raises(RequestRefused) as raised:
            await producer.send("t", b"x")

    assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("key", "digest"), [(b"", 0x7EE3623B), (b"a", 0x1BF3D6D4), (b"foobar", 0x40630698)]
)
def test_fnv1a_drops_its_sign(key: bytes, digest: int) -> None:
    """The published digests are 811c9dc5, e40c292c and bf9cf968, negative in 32 bits."""
    assert fnv1a(key) == digest
