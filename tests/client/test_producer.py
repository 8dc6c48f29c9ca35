"""The producer against a toy cluster."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from ottla.client.process.errors import DeliveryTimedOut
from ottla.client.producer import Producer
from ottla.client.settings.config import ProducerConfig
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records.batch import parse_batch
from ottla.wire.backoff import Backoff
from ottla.wire.errors import ClientClosed, RequestRefused
from tests.client.support.toy_broker import Fate

if TYPE_CHECKING:
    from tests.client.support.toy_broker import Seen, ToyCluster

QUICK = Backoff(1, 5)


def config(**changes: Any) -> ProducerConfig:
    """Settings that make a test short."""
    return ProducerConfig(retry_backoff=QUICK, reconnect_backoff=QUICK, **changes)


async def test_a_record_comes_to_its_partition_and_its_offset_comes_back(
    toy: ToyCluster,
) -> None:
    """The whole way once: bootstrap, metadata, producer id, produce."""
    topic = toy.add_topic("t")
    async with Producer(toy.bootstrap, config()) as producer:
        first = await producer.send("t", b"one", b"k", headers=(("h", b"1"),))
        second = await producer.send("t", b"two")
        delivered = [await first, await second]

    records = topic.partitions[0].records()
    assert [where.offset for where in delivered] == [0, 1]
    assert [(record.key, record.value) for record in records] == [(b"k", b"one"), (None, b"two")]
    assert records[0].headers == (("h", b"1"),)


@pytest.mark.requirement("ARC-15")
async def test_every_byte_string_is_stored_as_it_is(toy: ToyCluster) -> None:
    """Keys and values are opaque: empty is not null, and nothing has to be text."""
    topic = toy.add_topic("t")
    pairs = [(b"", b""), (None, b"\xff\xfe\x00\n"), (b"\x80", None), (None, None)]
    async with Producer(toy.bootstrap, config()) as producer:
        for key, value in pairs:
            await producer.send("t", value, key, partition=0)

    assert [(record.key, record.value) for record in topic.partitions[0].records()] == pairs


@pytest.mark.requirement("IDM-01", "IDM-02", "IDM-03", "TXN-09")
async def test_batches_carry_a_producer_id_and_gapless_sequences_by_default(
    toy: ToyCluster,
) -> None:
    """Idempotence is what a user gets without asking; the id shows nowhere in the calls."""
    topic = toy.add_topic("t")
    async with Producer(toy.bootstrap, config(linger_ms=0)) as producer:
        for number in range(30):
            await producer.send("t", b"%d" % number)
            await asyncio.sleep(0)

    batches = [parse_batch(data) for data in topic.partitions[0].batches]
    expected = 0
    for batch in batches:
        assert (batch.producer_id, batch.producer_epoch) == (4001, 0)
        assert batch.base_sequence == expected
        expected += batch.record_count
    assert expected == 30
    # Only a transactional id has a coordinator.
    assert toy.counts()[ApiKey.FIND_COORDINATOR] == 0


async def test_two_producers_have_two_ids(toy: ToyCluster) -> None:
    """A shared id would make one's records look like the other's retries."""
    topic = toy.add_topic("t")
    for _ in range(2):
        async with Producer(toy.bootstrap, config()) as producer:
            await producer.send("t", b"x")

    ids = {parse_batch(data).producer_id for data in topic.partitions[0].batches}
    assert len(ids) == 2


@pytest.mark.requirement("IDM-10")
@pytest.mark.parametrize("fate", [Fate.DROP_BEFORE, Fate.DROP_AFTER, Fate.SILENCE])
async def test_lost_connections_leave_each_record_once_and_in_order(
    toy: ToyCluster, fate: Fate
) -> None:
    """Whether a request was lost on the way there or its answer on the way back."""
    topic = toy.add_topic("t")
    produced = 0

    def judge(seen: Seen) -> Fate | None:
        nonlocal produced
        if seen.api_key is not ApiKey.PRODUCE:
            return None
        produced += 1
        return fate if produced % 10 == 0 else None

    toy.judge = judge
    settings = config(linger_ms=0, batch_bytes=100, request_timeout_ms=200)
    async with Producer(toy.bootstrap, settings) as producer:
        for number in range(300):
            await producer.send("t", b"%d" % number)
            if number % 3 == 0:
                await asyncio.sleep(0)
        await producer.flush()

    assert topic.partitions[0].values() == [b"%d" % number for number in range(300)]
    assert produced > 30


@pytest.mark.requirement("IDM-10")
@pytest.mark.parametrize("code", [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_LEADER_OR_FOLLOWER])
async def test_a_refused_batch_is_retried_before_those_behind_it(
    toy: ToyCluster, code: ErrorCode
) -> None:
    """Five are in flight when the first is refused; the log still has them in order."""
    topic = toy.add_topic("t")
    produced = 0

    def judge(seen: Seen) -> ErrorCode | None:
        nonlocal produced
        if seen.api_key is not ApiKey.PRODUCE:
            return None
        produced += 1
        return code if produced % 4 == 2 else None

    toy.judge = judge
    async with Producer(toy.bootstrap, config(linger_ms=0, batch_bytes=100)) as producer:
        await producer.send_values("t", [b"%d" % number for number in range(200)])

    assert topic.partitions[0].values() == [b"%d" % number for number in range(200)]


async def test_a_moved_leader_is_followed(toy: ToyCluster) -> None:
    """NOT_LEADER makes the producer refresh its metadata; nothing is lost or stored twice."""
    toy.start(2)
    topic = toy.add_topic("t")
    async with Producer(toy.bootstrap, config()) as producer:
        await (await producer.send("t", b"1"))
        partition = topic.partitions[0]
        partition.leader_id, partition.leader_epoch = 2, 1
        await (await producer.send("t", b"2"))

    assert partition.values() == [b"1", b"2"]


@pytest.mark.requirement("NET-37")
async def test_any_one_broker_is_enough_to_find_the_leaders(toy: ToyCluster) -> None:
    """The bootstrap address need not be the leader's, and is asked once while nothing fails."""
    toy.start(3)
    topic = toy.add_topic("t", 3)
    async with Producer(toy.bootstrap, config(linger_ms=0)) as producer:
        for number in range(30):
            await (await producer.send("t", b"%d" % number, partition=number % 3))

    assert [len(partition.records()) for partition in topic.partitions] == [10, 10, 10]
    assert toy.counts()[ApiKey.METADATA] <= 3


@pytest.mark.requirement("NET-37")
async def test_leaders_are_cached_until_an_error_or_their_expiry(toy: ToyCluster) -> None:
    """A look-up for each record would double the requests; one too few would miss a failover."""
    toy.add_topic("t")
    refusals = 0

    def judge(seen: Seen) -> ErrorCode | None:
        nonlocal refusals
        if seen.api_key is not ApiKey.PRODUCE or not refusals:
            return None
        refusals -= 1
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    toy.judge = judge
    async with Producer(toy.bootstrap, config(linger_ms=0)) as producer:
        await (await producer.send("t", b"first"))
        known = toy.counts()[ApiKey.METADATA]
        for _ in range(20):
            await (await producer.send("t", b"x"))
        cached = toy.counts()[ApiKey.METADATA]
        refusals = 1
        await (await producer.send("t", b"x"))
        after_error = toy.counts()[ApiKey.METADATA]
    async with Producer(toy.bootstrap, config(linger_ms=0, metadata_max_age_ms=20)) as producer:
        await (await producer.send("t", b"x"))
        begun = toy.counts()[ApiKey.METADATA]
        async with asyncio.timeout(60):
            while toy.counts()[ApiKey.METADATA] < begun + 2:
                await asyncio.sleep(0.03)
                await (await producer.send("t", b"x"))

    assert cached == known
    assert after_error > cached


@pytest.mark.requirement("PRD-34")
async def test_ten_thousand_records_take_few_requests(toy: ToyCluster) -> None:
    """Batching is what makes small records cheap."""
    toy.add_topic("t")
    async with Producer(toy.bootstrap, config(linger_ms=5)) as producer:
        for number in range(10_000):
            await producer.send("t", b"%d" % number)

    assert toy.counts()[ApiKey.PRODUCE] <= 10_000 / 50


@pytest.mark.requirement("PRD-26")
async def test_with_acks_0_a_record_is_delivered_as_soon_as_it_is_sent(
    toy: ToyCluster,
) -> None:
    """There is no answer to wait for, no offset to return, and no producer id to ask for."""
    topic = toy.add_topic("t")
    async with Producer(toy.bootstrap, config(acks=0)) as producer:
        delivered = await (await producer.send("t", b"x"))
        while not topic.partitions[0].batches:
            await asyncio.sleep(0.001)

    assert delivered.offset == -1
    assert toy.counts()[ApiKey.INIT_PRODUCER_ID] == 0


async def test_a_refused_record_fails_its_own_delivery_and_no_other(toy: ToyCluster) -> None:
    """The rest of the partition must not wait for a sequence that will never come."""
    topic = toy.add_topic("t")
    produced = 0

    def judge(seen: Seen) -> ErrorCode | None:
        nonlocal produced
        if seen.api_key is not ApiKey.PRODUCE:
            return None
        produced += 1
        return ErrorCode.MESSAGE_TOO_LARGE if produced == 2 else None

    toy.judge = judge
    async with Producer(toy.bootstrap, config(linger_ms=0, batch_bytes=90)) as producer:
        deliveries = [await producer.send("t", b"%d" % number * 20) for number in range(8)]
        results = await asyncio.gather(*deliveries, return_exceptions=True)

    refused = [result for result in results if isinstance(result, BaseException)]
    assert len(refused) == 1
    assert isinstance(refused[0], RequestRefused)
    assert refused[0].code is ErrorCode.MESSAGE_TOO_LARGE
    assert (refused[0].topic, refused[0].partition) == ("t", 0)
    stored = [b"%d" % number * 20 for number in range(8) if number != results.index(refused[0])]
    assert topic.partitions[0].values() == stored


async def test_a_forgotten_sequence_is_reported_and_the_next_records_are_stored(
    toy: ToyCluster,
) -> None:
    """An unclean election lost acknowledged records: the application gets one error."""
    topic = toy.add_topic("t")
    async with Producer(toy.bootstrap, config(linger_ms=0)) as producer:
        await (await producer.send("t", b"1"))
        await (await producer.send("t", b"2"))
        log = topic.partitions[0]
        log.producers[4001] = (0, 1, {(0, 0): 0})
        log.batches.pop()

        with pytest.raises(RequestRefused, match="OUT_OF_ORDER_SEQUENCE_NUMBER"):
            await (await producer.send("t", b"3"))
        await (await producer.send("t", b"4"))

    assert log.values() == [b"1", b"4"]
    assert parse_batch(log.batches[-1]).producer_epoch == 1


async def test_an_unknown_outcome_is_called_that(toy: ToyCluster) -> None:
    """A record that may be stored must not be reported as if it were certainly not."""
    topic = toy.add_topic("t")
    toy.judge = lambda seen: Fate.SILENCE if seen.api_key is ApiKey.PRODUCE else None
    settings = config(request_timeout_ms=50, delivery_timeout_ms=120, linger_ms=0)
    async with Producer(toy.bootstrap, settings) as producer:
        delivery = await producer.send("t", b"x")

        with pytest.raises(DeliveryTimedOut, match="may be stored") as caught:
            await delivery

    assert caught.value.was_sent
    assert topic.partitions[0].values() == [b"x"]


async def test_full_memory_holds_up_the_caller_until_there_is_room(toy: ToyCluster) -> None:
    """A producer faster than its broker must not eat the machine."""
    topic = toy.add_topic("t")
    settings = config(memory_bytes_max=2000, batch_bytes=500, linger_ms=0)
    async with Producer(toy.bootstrap, settings) as producer:
        for number in range(200):
            await producer.send("t", b"%03d" % number * 30)
        deliveries = await producer.send_values("t", [b"v" * 100] * 100)
        assert sum(delivery.record_count for delivery in deliveries) == 100

    assert len(topic.partitions[0].values()) == 300


async def test_records_without_key_move_on_after_each_batch(toy: ToyCluster) -> None:
    """All partitions get their share, a batch at a time, whichever call they came by."""
    topic = toy.add_topic("t", 4)
    async with Producer(toy.bootstrap, config(batch_bytes=1000)) as producer:
        await producer.send_values("t", [b"x" * 100] * 500)
        for _ in range(500):
            await producer.send("t", b"x" * 100)

    shares = [len(partition.records()) for partition in topic.partitions]
    sizes = [
        parse_batch(data).record_count
        for partition in topic.partitions
        for data in partition.batches
    ]
    assert sum(shares) == 1000
    assert min(shares) > 50
    assert sum(sizes) / len(sizes) > 5


async def test_what_cannot_be_sent_is_refused_at_once(toy: ToyCluster) -> None:
    """A mistake in a call is reported by the call, not in the background."""
    toy.add_topic("t")
    async with Producer(toy.bootstrap, config(request_bytes_max=1000)) as producer:
        with pytest.raises(RequestRefused, match="MESSAGE_TOO_LARGE"):
            await producer.send("t", b"x" * 1000)
        with pytest.raises(RequestRefused, match="UNKNOWN_TOPIC_OR_PARTITION"):
            await producer.send("t", b"x", partition=1)
        with pytest.raises(RequestRefused, match="UNKNOWN_TOPIC_OR_PARTITION"):
            await producer.send("nothere", b"x")
        with pytest.raises(TypeError, match="not str"):
            await producer.send("t", "text")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="not str"):
            await producer.send_values("t", ["text"])  # type: ignore[list-item]
        with pytest.raises(TypeError, match="headers are pairs"):
            await producer.send("t", b"x", headers=(("h", "v"),))  # type: ignore[arg-type]


async def test_a_closed_producer_takes_nothing_and_has_lost_nothing_in_silence(
    toy: ToyCluster,
) -> None:
    """Records in memory at a close without delivery fail, and do not vanish silently."""
    toy.add_topic("t")
    toy.judge = lambda seen: Fate.SWALLOW if seen.api_key is ApiKey.PRODUCE else None
    producer = Producer(toy.bootstrap, config())
    await producer.start()
    delivery = await producer.send("t", b"x")
    await producer.close(deliver=False)

    with pytest.raises(ClientClosed):
        await delivery
    with pytest.raises(ClientClosed):
        await producer.send("t", b"y")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"acks": 1, "idempotent": True}, "needs acks='all'"),
        ({"in_flight_max": 6, "idempotent": True}, "at most 5"),
        ({"acks": 2}, "acks is"),
        ({"delivery_timeout_ms": 10}, "delivery_timeout_ms"),
    ],
)
@pytest.mark.requirement("PRD-35")
def test_settings_that_contradict_a_promise_are_refused(
    changes: dict[str, Any], expected: str
) -> None:
    """Quietly dropping idempotence is how duplicates come into production."""
    with pytest.raises(ValueError, match=expected):
        config(**changes)


def test_idempotence_gives_way_only_where_it_was_not_asked_for() -> None:
    """acks=1 alone is a wish for speed; together with idempotent=True it is a mistake."""
    assert config().is_idempotent
    assert not config(acks=1).is_idempotent
    assert not config(in_flight_max=10).is_idempotent
