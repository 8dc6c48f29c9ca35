"""The guarantees of producers and consumers, on three real brokers that fail."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

import ottla
import ottla.sync
from ottla.client.administration.placements import ElectionType
from ottla.protocol.apis import ApiKey
from ottla.protocol.ids import TopicPartition
from tests.client.support.sites import cluster_of, read_all
from tests.support.watched_net import WatchedNet

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.client.records.consumer_record import ConsumerRecord
    from tests.client.support.sites import Apaches

EVERYBODY = (1, 2, 3)
# A little more than replica.fetch.wait.max.ms, which a leader answers followers within.
FETCH_WAIT_S = 0.7


@pytest.fixture
def cluster(kind: str, apaches: Apaches) -> Iterator[ottla.Cluster]:
    """Three brokers; a test may kill some."""
    with cluster_of(kind, apaches, 3) as brokers:
        yield brokers


@pytest.fixture(scope="module")
def quiet(kind: str, apaches: Apaches) -> Iterator[ottla.Cluster]:
    """Three brokers for tests that leave them alone."""
    with cluster_of(kind, apaches, 3) as brokers:
        yield brokers


def new_topic(cluster: ottla.Cluster) -> TopicPartition:
    """A topic of one partition on all three."""
    name = f"t{uuid4().hex[:8]}"
    cluster.create_topic(name)
    return TopicPartition(name, 0)


@pytest.mark.requirement("PRD-27")
async def test_acks_1_loses_a_record_when_the_leader_dies_before_its_followers_have_it(
    cluster: ottla.Cluster,
) -> None:
    """The price of acks=1: the record was acknowledged, and no replica has it."""
    where = new_topic(cluster)
    leader = cluster.leader(where.topic)
    async with ottla.Producer(cluster.bootstrap_servers, acks=1, linger_ms=0) as producer:
        await (await producer.send(where.topic, b"everybody has it"))
        await all_have(cluster, where, 1)
        await cut_off(cluster, leader)
        delivered = await (await producer.send(where.topic, b"only the leader has it"))
        cluster.faults.kill(leader)
    cluster.faults.heal()

    assert delivered.offset == 1
    assert cluster.leader(where.topic) != leader
    assert await read_all(cluster.bootstrap_servers, where) == [b"everybody has it"]


async def cut_off(cluster: ottla.Cluster, leader: int) -> None:
    """No follower gets anything any more, also by a fetch that the leader has in its hands."""
    cluster.faults.partition({leader}, {*EVERYBODY} - {leader})
    await asyncio.sleep(FETCH_WAIT_S)


async def all_have(cluster: ottla.Cluster, where: TopicPartition, offset: int) -> None:
    """Return when the high watermark, which every in-sync replica has reached, is at ``offset``."""
    async with ottla.Consumer(cluster.bootstrap_servers) as consumer:
        while (await consumer.end_offsets([where]))[where] < offset:
            await asyncio.sleep(0.01)


@pytest.mark.requirement("PRD-28")
async def test_acks_all_keeps_every_record_when_the_leader_dies_right_after(
    cluster: ottla.Cluster,
) -> None:
    """Without a pause between the acknowledgement and the end of the leader."""
    where = new_topic(cluster)
    leader = cluster.leader(where.topic)
    async with ottla.Producer(cluster.bootstrap_servers, acks="all", linger_ms=0) as producer:
        for number in range(50):
            await (await producer.send(where.topic, b"%d" % number))
        cluster.faults.kill(leader)

    assert cluster.leader(where.topic) != leader
    assert await read_all(cluster.bootstrap_servers, where) == [
        b"%d" % number for number in range(50)
    ]


@pytest.mark.requirement("CON-19")
async def test_a_record_that_only_the_leader_has_is_not_seen(cluster: ottla.Cluster) -> None:
    """The record could still be lost, and then a reader would have seen what never existed."""
    where = new_topic(cluster)
    leader = cluster.leader(where.topic)
    async with (
        ottla.Producer(cluster.bootstrap_servers, acks=1, linger_ms=0) as producer,
        ottla.Consumer(cluster.bootstrap_servers, offset_reset="earliest") as consumer,
    ):
        consumer.assign([where])
        await (await producer.send(where.topic, b"seen"))
        assert [record.value for record in await consumer.poll(10_000)] == [b"seen"]
        await cut_off(cluster, leader)
        delivered = await (await producer.send(where.topic, b"unseen"))
        assert await consumer.poll(700) == []
        end = (await consumer.end_offsets([where]))[where]
        cluster.faults.heal()
        later = await consumer.poll(20_000)

    assert (delivered.offset, end) == (1, 1)
    assert [record.value for record in later] == [b"unseen"]


@pytest.mark.requirement("PRD-32")
async def test_a_record_goes_to_the_leader_and_to_no_other_broker(quiet: ottla.Cluster) -> None:
    """Copies are the leader's business; a producer that wrote to three brokers would be slow."""
    where = new_topic(quiet)
    net = WatchedNet()
    async with ottla.Producer(
        quiet.bootstrap_servers, environment=net.environment(), linger_ms=0
    ) as producer:
        for number in range(20):
            await (await producer.send(where.topic, b"%d" % number))

    leader = quiet.brokers[quiet.leader(where.topic)].address
    assert net.addresses(ApiKey.PRODUCE) == [leader] * 20
    async with ottla.Admin(quiet.bootstrap_servers) as admin:
        view = await admin.describe_topic(where.topic)
    assert sorted(view.partitions[0].isr) == [1, 2, 3]


@pytest.mark.requirement("PRD-33")
async def test_a_producer_follows_a_leader_that_has_moved(quiet: ottla.Cluster) -> None:
    """The old one answers that it does not lead any more; the producer asks who does."""
    where = new_topic(quiet)
    net = WatchedNet()
    old = quiet.leader(where.topic)
    async with (
        ottla.Admin(quiet.bootstrap_servers) as admin,
        ottla.Producer(
            quiet.bootstrap_servers, environment=net.environment(), linger_ms=0
        ) as producer,
    ):
        await (await producer.send(where.topic, b"before"))
        others = [node for node in EVERYBODY if node != old]
        await admin.placements.move({where: [*others, old]})
        while where in await admin.placements.moves():
            await asyncio.sleep(0.01)
        await admin.placements.elect(ElectionType.PREFERRED, [where])
        while quiet.leader(where.topic) == old:
            await asyncio.sleep(0.01)
        net.sent.clear()
        delivered = await (await producer.send(where.topic, b"after"))

    new = quiet.brokers[quiet.leader(where.topic)].address
    assert delivered.offset == 1
    asked = [sent.api_key for sent in net.sent]
    addresses = net.addresses(ApiKey.PRODUCE)
    assert addresses[0] == quiet.brokers[old].address
    # More than once while the new leader does not know of its election yet, either.
    assert {*addresses[1:]} == {new}
    assert ApiKey.METADATA in asked[asked.index(ApiKey.PRODUCE) : len(asked) - 1]


@pytest.mark.requirement("PRD-25")
async def test_a_batch_leaves_when_it_is_old_or_full(quiet: ottla.Cluster) -> None:
    """``send`` returns at once in both cases, with something to await."""
    where = new_topic(quiet)
    clock = asyncio.get_running_loop().time
    net = WatchedNet()
    async with ottla.Producer(
        quiet.bootstrap_servers, environment=net.environment(), linger_ms=3_000, batch_bytes=2_000
    ) as producer:
        await producer.partition_count(where.topic)
        # The first batch of an idempotent partition goes alone.
        await (await producer.send(where.topic, b"first"))
        net.sent.clear()
        begun_s = clock()
        delivery = await producer.send(where.topic, b"x")
        sent_s = clock() - begun_s
        await delivery
        old_s = clock() - begun_s
        full = [await producer.send(where.topic, bytes(500)) for _ in range(4)]
        begun_s = clock()
        await full[0]
        full_s = clock() - begun_s

    assert sent_s < 2.5 < old_s
    assert full_s < 2.5
    assert len(net.addresses(ApiKey.PRODUCE)) <= 3


async def test_a_send_to_a_partition_that_is_down_is_tried_again_by_default(
    quiet: ottla.Cluster,
) -> None:
    """Three retries as in 0.8, where the fourth failure was final; here the delivery timeout
    decides, see PRD-23. The application does not have to set anything."""
    where = new_topic(quiet)
    leader = quiet.leader(where.topic)
    net = WatchedNet()
    async with ottla.Producer(quiet.bootstrap_servers, environment=net.environment()) as producer:
        await (await producer.send(where.topic, b"first"))
        net.sent.clear()
        quiet.faults.fail_request("PRODUCE", "NOT_ENOUGH_REPLICAS", 3, broker=leader)
        delivered = await (await producer.send(where.topic, b"x"))

    assert delivered.offset == 1
    assert len(net.addresses(ApiKey.PRODUCE)) == 1 + 3


@pytest.mark.requirement("PRD-23")
def test_a_blocking_producer_raises_when_its_tries_are_over(quiet: ottla.Cluster) -> None:
    """The caller decides whether to continue, and can."""
    where = new_topic(quiet)
    leader = quiet.leader(where.topic)
    # The first record of a topic may take a busy cluster longer than this one has.
    with ottla.sync.Producer(quiet.bootstrap_servers) as patient:
        patient.send(where.topic, b"first").result()
    with ottla.sync.Producer(
        quiet.bootstrap_servers, linger_ms=0, request_timeout_ms=500, delivery_timeout_ms=1_000
    ) as producer:
        quiet.faults.fail_request("PRODUCE", "NOT_ENOUGH_REPLICAS", 1_000, broker=leader)
        with pytest.raises(ottla.DeliveryTimedOut) as raised:
            producer.send(where.topic, b"refused").result()
        quiet.faults.clear()
        later = producer.send(where.topic, b"later").result()

    assert raised.value.code is ottla.ErrorCode.NOT_ENOUGH_REPLICAS
    assert later.offset == 1


@pytest.mark.requirement("PRD-24")
async def test_a_producer_whose_deliveries_are_not_awaited_logs_the_loss_and_continues(
    quiet: ottla.Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Later records are stored; the log reports the loss."""
    where = new_topic(quiet)
    leader = quiet.leader(where.topic)
    async with ottla.Producer(quiet.bootstrap_servers) as patient:
        await (await patient.send(where.topic, b"first"))
    with caplog.at_level(logging.WARNING, logger="ottla"):
        async with ottla.Producer(
            quiet.bootstrap_servers,
            linger_ms=0,
            request_timeout_ms=500,
            delivery_timeout_ms=1_000,
        ) as producer:
            quiet.faults.fail_request("PRODUCE", "NOT_ENOUGH_REPLICAS", 1_000, broker=leader)
            await producer.send(where.topic, b"lost")
            await producer.flush()
            quiet.faults.clear()
            await producer.send(where.topic, b"later")

    assert await read_all(quiet.bootstrap_servers, where) == [b"first", b"later"]
    assert "1 record was not delivered" in caplog.text


async def with_transactions(quiet: ottla.Cluster) -> TopicPartition:
    """A partition with a committed transaction, an aborted one and a plain record."""
    where = new_topic(quiet)
    async with ottla.Producer(quiet.bootstrap_servers, transactional_id=where.topic) as producer:
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send(where.topic, b"committed")
        await producer.begin_transaction()
        await (await producer.send(where.topic, b"aborted"))
        await producer.abort_transaction()
    async with ottla.Producer(quiet.bootstrap_servers) as producer:
        await producer.send(where.topic, b"plain")
    return where


@pytest.mark.requirement("CON-20")
async def test_aborted_records_are_seen_by_those_who_ask_for_them(quiet: ottla.Cluster) -> None:
    """Readers of committed records never see them, by any way of reading."""
    where = await with_transactions(quiet)

    assert await read_all(quiet.bootstrap_servers, where) == [b"committed", b"aborted", b"plain"]
    assert await read_all(quiet.bootstrap_servers, where, isolation="read_committed") == [
        b"committed",
        b"plain",
    ]


@pytest.mark.requirement("CON-21")
@pytest.mark.parametrize(
    ("offset", "isolation", "first"),
    [
        (0, "read_committed", b"committed"),
        (1, "read_committed", b"plain"),
        (2, "read_committed", b"plain"),
        (2, "read_uncommitted", b"aborted"),
        (4, "read_committed", b"plain"),
        (3, "read_uncommitted", b"plain"),
    ],
)
async def test_seek_goes_to_any_offset_inside_a_transaction_and_outside(
    quiet: ottla.Cluster, offset: int, isolation: str, first: bytes
) -> None:
    """Offsets of markers (1 and 3 here) are places like any other, with nothing to read."""
    where = await with_transactions(quiet)
    async with ottla.Consumer(
        quiet.bootstrap_servers,
        offset_reset="none",
        isolation="read_committed" if isolation == "read_committed" else "read_uncommitted",
    ) as consumer:
        consumer.assign([where])
        consumer.seek(where, offset)
        records = await consumer.poll(10_000)

    assert records[0].value == first
    assert records[0].offset >= offset


async def as_member(
    quiet: ottla.Cluster, group_id: str, topic: str, *, auto_commit: bool, reset: str = "earliest"
) -> list[ConsumerRecord]:
    """The first records that a member of the group reads, if any come soon."""
    async with ottla.Consumer(
        quiet.bootstrap_servers,
        group_id=group_id,
        auto_commit=auto_commit,
        auto_commit_interval_ms=50,
        offset_reset="earliest" if reset == "earliest" else "latest",
    ) as consumer:
        await consumer.subscribe([topic])
        for _ in range(20):
            found = await consumer.poll(200)
            if found or consumer.assignment:
                return found or await consumer.poll(500)
    return []


@pytest.mark.requirement("CON-18")
async def test_positions_are_committed_by_themselves_or_by_a_call_alone(
    quiet: ottla.Cluster,
) -> None:
    """With automatic commits a group continues after what was read; without, it starts over."""
    where = new_topic(quiet)
    async with ottla.Producer(quiet.bootstrap_servers) as producer:
        await producer.send(where.topic, b"x")
    for _ in range(2):
        assert len(await as_member(quiet, f"m{where.topic}", where.topic, auto_commit=False)) == 1
    assert len(await as_member(quiet, f"a{where.topic}", where.topic, auto_commit=True)) == 1

    assert await as_member(quiet, f"a{where.topic}", where.topic, auto_commit=True) == []
    async with ottla.Admin(quiet.bootstrap_servers) as admin:
        assert await admin.groups.offsets(f"m{where.topic}") == {}
        assert (await admin.groups.offsets(f"a{where.topic}"))[where].offset == 1


@pytest.mark.requirement("CON-22")
@pytest.mark.parametrize(("reset", "count"), [("earliest", 1), ("latest", 0)])
async def test_a_new_group_begins_where_its_policy_says(
    quiet: ottla.Cluster, reset: str, count: int
) -> None:
    """Kafka's default is the end: a new group does not read the past."""
    where = new_topic(quiet)
    async with ottla.Producer(quiet.bootstrap_servers) as producer:
        await producer.send(where.topic, b"x")

    found = await as_member(quiet, f"r{where.topic}", where.topic, auto_commit=False, reset=reset)
    assert len(found) == count
