"""What records, groups, transactions and administrators do on any broker of Kafka's protocol."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Literal, get_args
from uuid import uuid4

import confluent_kafka
import pytest

import ottla
import ottla.sync
from ottla.client.records.serializers import JSON, TEXT
from ottla.client.settings.config import Compression
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from ottla.wire.errors import UnsupportedByBroker
from tests.client.support.membered import SETTINGS
from tests.client.support.sites import OTTLA, cluster_of, soon

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.client.administration.brokers import LogDirView
    from ottla.client.records.consumer_record import ConsumerRecord
    from tests.client.support.sites import Apaches

# Times long ago would be deleted by retention, some time after the start of a broker.
NOW_MS = int(time.time() * 1_000)


@pytest.fixture(scope="module")
def site(kind: str, apaches: Apaches) -> Iterator[str]:
    """The address of a broker of that kind."""
    with cluster_of(kind, apaches, settings=SETTINGS) as cluster:
        yield cluster.bootstrap_servers


@pytest.fixture
async def topic(site: str) -> str:
    """A topic of two partitions."""
    name = f"t{uuid4().hex[:8]}"
    async with ottla.Admin(site) as admin:
        await admin.create_topic(ottla.NewTopic(name, 2, 1))
        await soon(lambda: admin.describe_topic(name), bool)
    return name


async def read(site: str, where: TopicPartition, count: int) -> list[ConsumerRecord]:
    """Read so many records from the beginning."""
    found: list[ConsumerRecord] = []
    async with ottla.Consumer(site, offset_reset="earliest") as consumer:
        consumer.assign([where])
        async with asyncio.timeout(90):
            while len(found) < count:
                found += await consumer.poll(1_000)
    return found


async def test_records_come_back_as_they_were_sent(site: str, topic: str) -> None:
    """Keys, values, headers, null and empty, and a time of their own."""
    sent = [
        (b"k", b"v", (("h", b"1"), ("h", None)), NOW_MS),
        (None, None, (), NOW_MS + 5),
        (b"", b"", (), NOW_MS - 5),
    ]
    async with ottla.Producer(site) as producer:
        for key, value, headers, timestamp in sent:
            await producer.send(
                topic, value, key, partition=0, headers=headers, timestamp=timestamp
            )

    records = await read(site, TopicPartition(topic, 0), 3)
    assert [(one.key, one.value, one.headers, one.timestamp) for one in records] == sent
    assert [one.offset for one in records] == [0, 1, 2]


@pytest.mark.requirement("PRD-30")
@pytest.mark.parametrize("codec", get_args(Compression))
async def test_every_codec_is_understood_by_another_client_in_both_directions(
    site: str, topic: str, codec: Compression
) -> None:
    """librdkafka reads what we compress, and we read what it compresses."""
    values = [b"value %d " % number * 20 for number in range(200)]
    async with ottla.Producer(site, compression=codec) as producer:
        await producer.send_batch(topic, values, partition=0)
    theirs = confluent_kafka.Producer({"bootstrap.servers": site, "compression.type": codec})
    for value in values:
        theirs.produce(topic, value, partition=1)
    theirs.flush(30)

    ours = await read(site, TopicPartition(topic, 1), 200)
    assert [record.value for record in ours] == values
    assert await asyncio.to_thread(read_with_confluent, site, topic, 200) == values


def read_with_confluent(site: str, topic: str, count: int) -> list[bytes]:
    """Read so many values of partition 0."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": site, "group.id": "x"})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    found: list[bytes] = []
    end_s = time.monotonic() + 60
    while len(found) < count and time.monotonic() < end_s:
        for message in consumer.consume(500, 1):
            assert message.error() is None
            found.append(message.value())
    consumer.close()
    return found


PARTITIONERS: list[tuple[Literal["murmur2", "consistent", "fnv1a"], str]] = [
    ("murmur2", "murmur2_random"),
    ("consistent", "consistent"),
    ("fnv1a", "fnv1a_random"),
]


@pytest.mark.parametrize(("ours", "theirs"), PARTITIONERS)
async def test_keys_go_where_other_clients_put_them(
    site: str, ours: Literal["murmur2", "consistent", "fnv1a"], theirs: str
) -> None:
    """Producers in several languages must put one key into one partition."""
    name = f"p{uuid4().hex[:8]}"
    async with ottla.Admin(site) as admin:
        await admin.create_topic(ottla.NewTopic(name, 7, 1))
    keys = [b"key-%d" % number for number in range(40)]
    async with ottla.Producer(site, partitioner=ours) as producer:
        places = {key: (await producer.send(name, b"", key)).partition.partition for key in keys}
    other = confluent_kafka.Producer({"bootstrap.servers": site, "partitioner": theirs})
    found: dict[bytes, int] = {}
    for key in keys:
        other.produce(
            name, b"", key, on_delivery=lambda _, one: found.update({one.key(): one.partition()})
        )
    await asyncio.to_thread(other.flush, 30)

    assert found == places


async def test_a_group_divides_reads_and_commits(site: str, topic: str) -> None:
    """Two members share the partitions; a later one continues after what was read."""
    group = f"g{topic}"
    async with ottla.Producer(site) as producer:
        for partition in (0, 1):
            await producer.send(topic, b"%d" % partition, partition=partition)
    values: list[bytes | None] = []
    async with (
        ottla.Consumer(site, group_id=group, offset_reset="earliest") as first,
        ottla.Consumer(site, group_id=group, offset_reset="earliest") as second,
    ):
        await first.subscribe([topic])
        await second.subscribe([topic])
        async with asyncio.timeout(60):
            while len(values) < 2 or not (first.assignment and second.assignment):
                for member in (first, second):
                    values += [record.value for record in await member.poll(100)]

        assert {*first.assignment, *second.assignment} == {
            TopicPartition(topic, number) for number in (0, 1)
        }
    async with ottla.Admin(site) as admin:
        offsets = await admin.groups.offsets(group)
        described = await admin.groups.describe(group)
        assert group in [one.group_id for one in await admin.groups.list_all()]
        await admin.groups.delete(group)

    assert sorted(value or b"" for value in values) == [b"0", b"1"]
    assert {where: one.offset for where, one in offsets.items()} == {
        TopicPartition(topic, number): 1 for number in (0, 1)
    }
    assert described.state.lower() == "empty"


async def test_a_group_of_the_newer_protocol_reads(site: str, topic: str) -> None:
    """KIP-848: the coordinator assigns."""
    async with ottla.Producer(site) as producer:
        await producer.send(topic, b"x", partition=1)
    async with ottla.Consumer(
        site, group_id=f"n{topic}", group_protocol="consumer", offset_reset="earliest"
    ) as member:
        await member.subscribe([topic])
        async with asyncio.timeout(60):
            while not (records := await member.poll(1_000)):
                pass
        await member.commit()
        committed = await member.committed()

    assert [record.value for record in records] == [b"x"]
    assert committed[TopicPartition(topic, 1)].offset == 1


async def test_transactions_are_seen_whole_or_not_at_all(site: str, topic: str) -> None:
    """With the positions of a group among them."""
    where = TopicPartition(topic, 0)
    async with ottla.Producer(site, transactional_id=topic) as producer:
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send(topic, b"committed", partition=0)
            await producer.send_offsets_to_transaction({TopicPartition(topic, 1): 7}, f"x{topic}")
        await producer.begin_transaction()
        await (await producer.send(topic, b"aborted", partition=0))
        await producer.abort_transaction()
    async with ottla.Consumer(
        site, offset_reset="earliest", isolation="read_committed"
    ) as consumer:
        consumer.assign([where])
        records = await consumer.poll(60_000)
        committed = await consumer.committed(f"x{topic}")

    assert [record.value for record in records] == [b"committed"]
    assert committed[TopicPartition(topic, 1)].offset == 7
    assert [record.value for record in await read(site, where, 2)] == [b"committed", b"aborted"]


async def test_offsets_are_found_by_time_and_records_deleted(site: str, topic: str) -> None:
    """The first, the last, and the first at or after a time."""
    where = TopicPartition(topic, 0)
    async with ottla.Producer(site, linger_ms=0) as producer:
        for timestamp in (NOW_MS, NOW_MS + 10, NOW_MS + 20):
            await (await producer.send(topic, b"x", partition=0, timestamp=timestamp))
    async with ottla.Admin(site) as admin, ottla.Consumer(site) as consumer:
        found = await consumer.offsets_at({where: NOW_MS + 5})
        deleted = await admin.delete_records({where: 2})
        first = (await consumer.offsets_at({where: -2}))[where].offset
        end = (await consumer.end_offsets([where]))[where]

    assert found[where] == (1, NOW_MS + 10)
    assert (deleted[where], first, end) == (2, 2, 3)


async def test_settings_are_described_and_changed(site: str, topic: str) -> None:
    """One by one, and all at once as older clients do."""
    kind = ottla.ResourceType.TOPIC
    async with ottla.Admin(site) as admin:
        change = ottla.ConfigChange("retention.ms", ottla.ConfigOperation.SET, "60000")
        await admin.alter_configs(kind, topic, [change])
        await soon(
            lambda: admin.describe_configs(kind, topic, ["retention.ms"]),
            lambda found: found[0].value == "60000",
        )
        await admin.replace_configs(kind, topic, {"retention.bytes": "5"})
        await soon(
            lambda: admin.describe_configs(kind, topic, ["retention.bytes"]),
            lambda found: found[0].value == "5",
        )
        after = {one.name: one.value for one in await admin.describe_configs(kind, topic)}
        wrong = ottla.ConfigChange("retention.ms", ottla.ConfigOperation.SET, "soon")
        with pytest.raises(ottla.RequestRefused) as raised:
            await admin.alter_configs(kind, topic, [wrong])

    assert after["retention.ms"] == "604800000"
    assert raised.value.code is ErrorCode.INVALID_CONFIG
    assert raised.value.topic == topic


async def test_the_cluster_describes_itself(site: str, topic: str) -> None:
    """Brokers, directories, moves."""
    where = TopicPartition(topic, 0)
    async with ottla.Admin(site) as admin:
        (broker,) = (await admin.describe_cluster()).brokers

        def is_stored(answers: dict[int, list[LogDirView] | ottla.ClientError]) -> bool:
            directories = answers[broker.node_id]
            assert isinstance(directories, list)
            return where in [one.partition for found in directories for one in found.replicas]

        await soon(admin.brokers.log_dirs, is_stored)
        assert await admin.placements.moves() == {}
        await admin.create_partitions(topic, 3)
        async with asyncio.timeout(90):
            while len((await admin.describe_topic(topic)).partitions) < 3:
                await asyncio.sleep(0.05)
        assert (await admin.delete_topics([topic]))[topic] is None


async def test_newer_brokers_describe_more(site: str, topic: str) -> None:
    """Brokers that are fenced, partitions in pages, features."""
    async with ottla.Admin(site) as admin:
        (broker,) = (await admin.describe_cluster()).brokers
        registered = await admin.brokers.registered()
        assert [one.node_id for one in registered] == [broker.node_id]
        pages = await admin.describe_partitions([topic], page_partitions=1)
        assert pages[TopicPartition(topic, 0)].leader_id == broker.node_id
        assert len(pages) == 2
        assert await admin.features.describe_features()


async def test_errors_say_what_and_where(site: str) -> None:
    """The same from every broker."""
    async with ottla.Admin(site) as admin, ottla.Producer(site) as producer:
        with pytest.raises(ottla.RequestRefused) as unknown:
            await producer.send("missing-topic", b"x")
        with pytest.raises(ottla.RequestRefused) as nobody:
            await admin.groups.describe("missing-group")
        with pytest.raises(ottla.RequestRefused) as invalid:
            await admin.create_topic(ottla.NewTopic("no/slash", 1, 1))
        with pytest.raises(ottla.RequestRefused) as many:
            await admin.create_topic(ottla.NewTopic("many", 1, 9))

    codes = [error.value.code for error in (unknown, nobody, invalid, many)]
    assert codes == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_REPLICATION_FACTOR,
    ]
    assert (unknown.value.topic, many.value.topic) == ("missing-topic", "many")


def test_a_script_without_an_event_loop_works(site: str) -> None:
    """The blocking face, with serializers."""
    name = f"s{uuid4().hex[:8]}"
    with ottla.sync.Admin(site) as admin:
        admin.create_topic(ottla.NewTopic(name, 1, 1))
    with ottla.sync.Producer(
        site, key_serializer=TEXT.encode, value_serializer=JSON.encode
    ) as producer:
        assert producer.send(name, {"n": 1}, "k").result().offset == 0
    with ottla.sync.Consumer(
        site,
        group_id=name,
        offset_reset="earliest",
        key_deserializer=TEXT.decode,
        value_deserializer=JSON.decode,
    ) as consumer:
        consumer.subscribe([name])
        record = next(iter(consumer))
        consumer.commit()

    assert (record.key, record.value) == ("k", {"n": 1})


async def test_what_a_broker_cannot_do_is_said(site: str, kind: str) -> None:
    """Ottla keeps a timeline of each group; others are asked for nothing they do not know."""
    async with ottla.Admin(site) as admin:
        if kind == OTTLA:
            with pytest.raises(ottla.RequestRefused):
                await admin.groups.timeline("missing")
        else:
            with pytest.raises(UnsupportedByBroker):
                await admin.groups.timeline("missing")
