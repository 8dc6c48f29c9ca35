"""The classic producer against real brokers: both types, both ways to find brokers, plug-ins."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

import ottla
import ottla.sync
from ottla.classic import (
    CallbackHandler,
    DefaultEncoder,
    EventHandler,
    Message,
    Producer,
    ProducerData,
    QueueItem,
    StringEncoder,
)
from ottla.protocol.ids import TopicPartition
from ottla.wire.errors import BrokerUnreachable, ClientClosed, RequestRefused
from tests.client.classic.site import classic_site
from tests.support.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from ottla.client.records.consumer_record import ConsumerRecord


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.Cluster]:
    """Two brokers on the embedded store; each test has topics of its own."""
    with ottla.Cluster(brokers=2) as made:
        yield made


def records_of(
    cluster: ottla.Cluster, topic: str, count: int
) -> list[ConsumerRecord[bytes, bytes]]:
    """The topic's records, at least so many."""
    found: list[ConsumerRecord[bytes, bytes]] = []
    with ottla.sync.Consumer(cluster.bootstrap_servers, offset_reset="earliest") as consumer:
        consumer.assign(consumer.partitions_of(topic))
        deadline = time.monotonic() + 60
        while len(found) < count and time.monotonic() < deadline:
            found += consumer.poll(200)
    return found


def values_of(cluster: ottla.Cluster, topic: str, count: int) -> list[bytes]:
    """Their values, sorted."""
    return sorted(one.value for one in records_of(cluster, topic, count) if one.value is not None)


def end_of(cluster: ottla.Cluster, topic: str) -> int:
    """How many records the topic has now."""
    with ottla.sync.Consumer(cluster.bootstrap_servers) as consumer:
        return sum(consumer.end_offsets(consumer.partitions_of(topic)).values())


@pytest.mark.requirement("PRD-01")
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_one_producer_sends_one_or_several_in_both_ways(cluster: ottla.Cluster, kind: str) -> None:
    """The application does not change when the type does; after ``close`` nothing is left."""
    topic = f"facade-{kind}"
    cluster.create_topic(topic, partitions=2)
    cluster.create_topic(f"{topic}-more", partitions=1)
    producer = Producer({"broker.list": cluster.bootstrap_servers, "producer.type": kind})
    producer.send(ProducerData(topic, None, [b"1", b"2"]))
    producer.send([ProducerData(topic, "k", b"3"), ProducerData(topic, "k", [b"4"])])
    producer.close()
    producer.close()

    records = records_of(cluster, topic, 4)
    assert sorted(one.value or b"" for one in records) == [b"1", b"2", b"3", b"4"]
    assert sorted(str(one.key) for one in records) == ["None", "None", "b'k'", "b'k'"]
    with pytest.raises(ClientClosed):
        producer.send(ProducerData(topic, None, [b"5"]))


@pytest.mark.requirement("PRD-02")
def test_a_synchronous_send_is_stored_when_it_returns(cluster: ottla.Cluster) -> None:
    """And raises what the broker refused."""
    cluster.create_topic("sync", partitions=2, replication_factor=1)
    properties = {"broker.list": cluster.bootstrap_servers, "producer.type": "sync"}
    with Producer({**properties, "message.send.max.retries": 0}) as producer:
        for count in range(1, 6):
            producer.send(ProducerData("sync", None, [b"x"]))
            assert end_of(cluster, "sync") == count
        with pytest.raises(RequestRefused, match="UNKNOWN_TOPIC_OR_PARTITION"):
            producer.send(ProducerData("no-such-topic", None, [b"x"]))
        with pytest.raises(RequestRefused, match="TOO_LARGE"):
            producer.send(ProducerData("sync", None, [bytes(3_000_000)]))


class Upper(EventHandler):
    """Stores events in capitals, whatever the encoder says."""

    def handle(
        self,
        items: Sequence[QueueItem],
        send: Callable[[Sequence[QueueItem]], None],
        encoder: Any,
    ) -> None:
        send([one._replace(data=str(one.data).upper().encode()) for one in items])


@pytest.mark.requirement("PRD-07")
def test_an_event_handler_replaces_encoding_and_sending(cluster: ottla.Cluster) -> None:
    """Named by its path, as in a file of settings."""
    cluster.create_topic("upper", partitions=1)
    properties = {"broker.list": cluster.bootstrap_servers, "producer.type": "async"}
    handler = {"event.handler": f"{__name__}.Upper"}
    with Producer({**properties, **handler}) as producer:
        producer.send(ProducerData("upper", None, ["a", "b"]))

    assert values_of(cluster, "upper", 2) == [b"A", b"B"]


@pytest.mark.requirement("PRD-08")
def test_a_callback_handler_sees_and_alters_the_events(cluster: ottla.Cluster) -> None:
    """At each of the five places, in this order."""
    cluster.create_topic("callbacks", partitions=1)
    calls: list[tuple[str, object]] = []

    class Callbacks(CallbackHandler):
        def before_enqueue(self, item: QueueItem) -> QueueItem:
            calls.append(("before_enqueue", item.data))
            return item._replace(data=bytes(item.data) + b"-enqueued")  # type: ignore[call-overload]

        def after_enqueue(self, item: QueueItem, added: bool) -> None:
            calls.append(("after_enqueue", item.data))

        def after_dequeuing_existing_data(self, item: QueueItem | None) -> list[QueueItem]:
            if item is None:
                return []
            calls.append(("after_dequeuing", item.data))
            return [item, item._replace(data=b"copy")]

        def before_sending_data(self, items: list[QueueItem]) -> list[QueueItem]:
            calls.append(("before_sending", [one.data for one in items]))
            return [one for one in items if one.data != b"b-enqueued"]

        def last_batch_before_close(self) -> list[QueueItem]:
            calls.append(("last_batch", None))
            return [QueueItem(b"last", "callbacks")]

        def close(self) -> None:
            calls.append(("close", None))

    properties = {"broker.list": cluster.bootstrap_servers, "producer.type": "async"}
    settings: dict[str, object] = {"callback.handler": Callbacks, "queue.time": 600_000}
    with Producer({**properties, **settings}) as producer:
        producer.send(ProducerData("callbacks", None, [b"a", b"b"]))

    # The thread that sends may close with the second event or before it.
    assert calls[:4] == [
        ("before_enqueue", b"a"),
        ("after_enqueue", b"a-enqueued"),
        ("before_enqueue", b"b"),
        ("after_enqueue", b"b-enqueued"),
    ]
    assert calls[4:6] == [("after_dequeuing", b"a-enqueued"), ("after_dequeuing", b"b-enqueued")]
    assert [name for name, _ in calls[6:]] == ["last_batch", "before_sending", "close"]
    assert values_of(cluster, "callbacks", 4) == [b"a-enqueued", b"copy", b"copy", b"last"]


class Point:
    """An object of an application."""

    def __init__(self, x: int, y: int) -> None:
        self.x, self.y = x, y


class PointEncoder(DefaultEncoder):
    """Writes points."""

    def to_message(self, data: Point) -> Message:
        return Message(f"{data.x},{data.y}".encode())


@pytest.mark.requirement("PRD-09")
def test_an_encoder_makes_messages_of_objects(cluster: ottla.Cluster) -> None:
    """Custom ones, the one for texts, and one with the documents' name of the call."""

    class Documented:
        def toMessage(self, data: int) -> Message:  # noqa: N802
            return Message(b"%d" % data)

    cluster.create_topic("encoded", partitions=1)
    for encoder, event in (
        (PointEncoder, Point(1, 2)),
        (f"{__name__}.PointEncoder", Point(3, 4)),
        ("kafka.serializer.StringEncoder", "text"),
        (StringEncoder, "more"),
        (Documented, 5),
    ):
        properties = {"broker.list": cluster.bootstrap_servers, "serializer.class": encoder}
        with Producer(properties) as producer:
            producer.send(ProducerData("encoded", None, [event]))

    assert values_of(cluster, "encoded", 5) == [b"1,2", b"3,4", b"5", b"more", b"text"]


@pytest.mark.requirement("PRD-10")
def test_the_default_encoder_returns_its_input(cluster: ottla.Cluster) -> None:
    """Named or not; what it gets has to be a message then."""
    cluster.create_topic("default-encoder", partitions=1)
    message = Message(b"m")
    assert DefaultEncoder().to_message(message) is message
    assert DefaultEncoder().toMessage(b"x") == b"x"
    for named in ({}, {"serializer.class": "kafka.serializer.DefaultEncoder"}):
        with Producer({"broker.list": cluster.bootstrap_servers, **named}) as producer:
            assert type(producer._encoder) is DefaultEncoder
            producer.send(ProducerData("default-encoder", None, [message, b"bytes"]))
            with pytest.raises(TypeError, match=r"serializer\.class"):
                producer.send(ProducerData("default-encoder", None, ["text"]))

    assert values_of(cluster, "default-encoder", 4) == [b"bytes", b"bytes", b"m", b"m"]


class Chosen:
    """Remembers what it was asked, and takes the key as the answer."""

    asked: ClassVar[list[tuple[object, int]]] = []

    def partition(self, key: Any, num_partitions: int) -> int:
        self.asked.append((key, num_partitions))
        return int(key)


@pytest.mark.requirement("PRD-13", "PRD-15", "PRD-17")
async def test_a_partitioner_chooses_from_the_sorted_list(tmp_path: Path) -> None:
    """Its answer is an index in the list of (broker id, partition), for every send."""
    Chosen.asked.clear()
    async with classic_site(tmp_path, 1, 2) as site:
        await site.topic("t", {0: [2], 1: [1], 2: [2], 3: [1]})
        properties = {"zk.connect": site.brokers.place, "partitioner.class": Chosen}
        producer = await asyncio.to_thread(Producer, properties)
        try:
            known = await asyncio.to_thread(producer.partitions_of, "t")
            for index in range(4):
                event = ProducerData("t", index, [b"%d" % index])
                await asyncio.to_thread(producer.send, event)
            errors = []
            for wrong in (4, -1):
                with pytest.raises(ValueError, match="index from 0 to 3") as error:
                    await asyncio.to_thread(producer.send, ProducerData("t", wrong, [b"x"]))
                errors.append(error)
        finally:
            await asyncio.to_thread(producer.close)
        async with ottla.Consumer(site.bootstrap, offset_reset="earliest") as consumer:
            consumer.assign(await consumer.partitions_of("t"))
            found: dict[bytes | None, int] = {}
            async with asyncio.timeout(30):
                while len(found) < 4:
                    found |= {one.value: one.partition for one in await consumer.poll(200)}

    assert known == [(1, 1), (1, 3), (2, 0), (2, 2)]
    assert found == {b"0": 1, b"1": 3, b"2": 0, b"3": 2}
    assert Chosen.asked[:4] == [(index, 4) for index in range(4)]


@pytest.mark.requirement("PRD-11", "PRD-18", "PRD-19")
async def test_a_producer_follows_the_brokers_and_topics_in_zookeeper(tmp_path: Path) -> None:
    """All four events, without a restart; each live broker has one place in the pool."""
    async with classic_site(tmp_path, 1, 2) as site:
        await site.topic("t", {number: [number % 2 + 1] for number in range(4)})
        properties = {"zk.connect": site.brokers.place, "zk.sessiontimeout.ms": 6_000}
        producer = await asyncio.to_thread(Producer, properties)
        watch: Any = producer._routing
        try:
            pools = [producer.pool]
            for number in range(60):
                await asyncio.to_thread(producer.send, ProducerData("t", None, [b"%d" % number]))
            async with ottla.Consumer(site.bootstrap) as consumer:
                parts = [TopicPartition("t", number) for number in range(4)]
                ends = await consumer.end_offsets(parts)
            # A new broker.
            await site.brokers.start(3, offsets_topic_replication_factor="1")
            await site.until(lambda: producer.pool == [1, 2, 3] and watch.pool.knows(3))
            # A new topic.
            await site.topic("new", {0: [3]})
            await site.until(lambda: watch.topics.get("new") == [(3, 0)])
            await asyncio.to_thread(producer.send, ProducerData("new", None, [b"x"]))
            # A broker that registers an existing topic: it leads a partition of it.
            grown = {"version": 1, "partitions": {"0": [3], "1": [1]}}
            site.brokers.tree.set("/brokers/topics/new", json.dumps(grown).encode())
            await site.until(lambda: watch.topics["new"] == [(1, 1), (3, 0)])
            # A broker that goes.
            await site.brokers.stop(2)
            await site.until(lambda: producer.pool == [1, 3] and not watch.pool.knows(2))
            await site.until(lambda: watch.topics["t"] == [(1, 0), (1, 2)])
            await asyncio.to_thread(producer.send, ProducerData("t", None, [b"y"] * 20))
        finally:
            await asyncio.to_thread(producer.close)

    assert pools == [[1, 2]]
    assert sum(ends.values()) == 60
    # By chance alone a partition would be left out once in ten million runs.
    assert min(ends.values()) > 0


@pytest.mark.requirement("PRD-12")
def test_a_list_of_brokers_is_used_at_random_and_a_dead_one_fails(
    cluster: ottla.Cluster,
) -> None:
    """Without ZooKeeper no list is kept up to date: that is what the other mode is for."""
    cluster.create_topic("listed", partitions=2)
    dead = f"127.0.0.1:{free_ports(1)[0]}"
    with Producer({"broker.list": cluster.bootstrap_servers}) as producer:
        for number in range(40):
            producer.send(ProducerData("listed", None, [b"%d" % number]))
    partitions = Counter(one.partition for one in records_of(cluster, "listed", 40))

    assert sum(partitions.values()) == 40
    # One chance in a million million to miss a broker.
    assert len(partitions) == len({cluster.leader("listed", one) for one in (0, 1)}) == 2
    with_dead = {"broker.list": f"1:{dead},2:{cluster.bootstrap_servers.split(',')[0]}"}
    sent, failed = 0, set[str]()
    with Producer({**with_dead, "message.send.max.retries": 0}) as producer:
        while not sent or not failed:
            try:
                producer.send(ProducerData("listed", None, [b"x"]))
                sent += 1
            except BrokerUnreachable as error:
                failed.add(str(error.address))

    assert failed == {dead}


@pytest.mark.requirement("PRD-20")
async def test_behind_a_load_balancer_one_connection_leads_to_one_broker(
    cluster: ottla.Cluster,
) -> None:
    """The producer knows the balancer's address alone; it does not follow the cluster's own."""
    for run in range(2):
        cluster.create_topic(f"balanced-{run}", partitions=4)
    addresses = [one.rpartition(":") for one in cluster.bootstrap_servers.split(",")]
    accepted: list[int] = []

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        place = len(accepted) % len(addresses)
        accepted.append(place)
        host, _, port = addresses[place]
        there, back = await asyncio.open_connection(host, int(port))
        await asyncio.gather(pipe(reader, back), pipe(there, writer))

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
        writer.close()

    server = await asyncio.start_server(forward, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    def work(topic: str) -> None:
        with Producer({"broker.list": f"127.0.0.1:{port}"}) as producer:
            for number in range(40):
                producer.send(ProducerData(topic, number, [b"%d" % number]))

    leaders = []
    try:
        for run in range(2):
            topic = f"balanced-{run}"
            await asyncio.to_thread(work, topic)
            records = await asyncio.to_thread(records_of, cluster, topic, 40)
            assert len(records) == 40
            leaders.append({cluster.leader(topic, one.partition) for one in records})
    finally:
        server.close()
        await server.wait_closed()

    assert accepted == [0, 1]
    # Each run has one connection, and its messages are all at the broker behind it.
    assert [len(one) for one in leaders] == [1, 1]
    assert leaders[0] != leaders[1]


def test_messages_are_compressed_and_confirmed_as_the_settings_say(
    cluster: ottla.Cluster,
) -> None:
    """All codecs of that time, by number and by name, and all kinds of acknowledgement."""
    cluster.create_topic("terms", partitions=1)
    for codec, acks in (("0", "0"), ("1", "1"), ("2", "-1"), ("gzip", 1), ("lz4", -1)):
        settings = {"compression.codec": codec, "request.required.acks": acks}
        with Producer({"broker.list": cluster.bootstrap_servers, **settings}) as producer:
            producer.send(ProducerData("terms", None, [b"x" * 100]))

    assert values_of(cluster, "terms", 5) == [b"x" * 100] * 5
