"""The exception table of transactions, as an application meets it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.client.process.errors import (
    AbortRequired,
    DeliveryTimedOut,
    ProducerFenced,
    ProducerUnusable,
    TransactionMisuse,
)
from ottla.client.records.committed import Committed, ConsumerGroupMetadata
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records.batch import parse_batch
from ottla.wire.errors import RequestRefused
from tests.client.support.transactional import (
    INPUT,
    control,
    finish,
    first_of,
    once,
    one,
    only_log,
    producer_of,
)

if TYPE_CHECKING:
    from tests.client.support.toy_broker import ToyCluster


# The exception table.


@pytest.mark.requirement("TXN-41", "TXN-02", "TXN-03")
async def test_an_older_instance_is_refused_and_ends(cluster: ToyCluster) -> None:
    """The old instance's open transaction is aborted, and it can never write again."""
    async with producer_of(cluster) as old, producer_of(cluster) as new:
        await old.init_transactions()
        await old.begin_transaction()
        await (await old.send("out", b"old", partition=0))
        await new.init_transactions()
        await one(new, b"1")

        late = await old.send("out", b"late", partition=0)
        with pytest.raises(RequestRefused, match="INVALID_PRODUCER_EPOCH"):
            await late
        for call in (old.commit_transaction, old.abort_transaction, old.begin_transaction):
            with pytest.raises(ProducerFenced, match="another producer has the transactional id"):
                await call()
        with pytest.raises(ProducerFenced):
            await old.send("out", b"never", partition=0)
        await one(new, b"2")

    assert only_log(cluster) == [b"1", b"2"]


@pytest.mark.requirement("TXN-41", "TXN-49")
@pytest.mark.parametrize("code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED])
@pytest.mark.parametrize("key", [ApiKey.END_TXN, ApiKey.TXN_OFFSET_COMMIT, ApiKey.INIT_PRODUCER_ID])
async def test_being_fenced_is_final_whichever_request_is_refused(
    cluster: ToyCluster, key: ApiKey, code: ErrorCode
) -> None:
    """Older brokers say INVALID_PRODUCER_EPOCH for PRODUCER_FENCED."""
    cluster.judge = once(key, code)
    async with producer_of(cluster) as producer:
        with pytest.raises(ProducerFenced) as raised:
            await first_of(producer, b"1")
        with pytest.raises(ProducerFenced):
            await producer.begin_transaction()

    assert raised.value.code is code
    assert only_log(cluster) == []


@pytest.mark.requirement("TXN-42")
async def test_an_id_that_the_coordinator_has_forgotten_is_asked_for_again(
    cluster: ToyCluster,
) -> None:
    """After a week without transactions, say. The transaction is lost, the producer is not."""
    async with producer_of(cluster) as producer:
        await producer.init_transactions()
        await one(producer, b"1")
        cluster.transactions.by_id.clear()
        with pytest.raises(AbortRequired, match="INVALID_PRODUCER_ID_MAPPING"):
            await one(producer, b"2")
        await one(producer, b"3")

    values = cluster.topics["out"].partitions[0].batches
    ids = [batch.producer_id for batch in map(parse_batch, values) if not batch.is_control]
    assert only_log(cluster) == [b"1", b"3"]
    assert len(set(ids)) == 2
    assert ApiKey.END_TXN not in control(cluster)[control(cluster).index(ApiKey.END_TXN) + 1 : -1]


@pytest.mark.requirement("TXN-44")
async def test_calls_in_the_wrong_order_are_told_and_change_nothing(cluster: ToyCluster) -> None:
    """Misuse is an error of the application, which can correct it and continue."""
    async with producer_of(cluster) as producer:
        with pytest.raises(TransactionMisuse, match="not initialized"):
            await producer.begin_transaction()
        await producer.init_transactions()
        with pytest.raises(TransactionMisuse, match="without a transaction"):
            await producer.commit_transaction()
        with pytest.raises(TransactionMisuse, match="without a transaction"):
            await producer.send("out", b"x")
        with pytest.raises(TransactionMisuse, match="without a transaction"):
            await producer.send_offsets_to_transaction({INPUT: 1}, "g")
        await producer.begin_transaction()
        with pytest.raises(TransactionMisuse, match="in a transaction"):
            await producer.begin_transaction()
        with pytest.raises(TransactionMisuse, match="in a transaction"):
            await producer.init_transactions()
        await producer.send("out", b"1", partition=0)
        await producer.commit_transaction()

    assert only_log(cluster) == [b"1"]


@pytest.mark.requirement("TXN-44")
async def test_a_broker_that_sees_a_violation_ends_the_producer(cluster: ToyCluster) -> None:
    """INVALID_TXN_STATE on EndTxn: client and coordinator disagree on what is open."""
    cluster.judge = once(ApiKey.END_TXN, ErrorCode.INVALID_TXN_STATE)
    async with producer_of(cluster) as producer:
        await producer.init_transactions()
        with pytest.raises(ProducerUnusable, match="INVALID_TXN_STATE"):
            await one(producer, b"1")


@pytest.mark.requirement("TXN-46")
async def test_a_batch_that_is_stored_already_is_delivered(cluster: ToyCluster) -> None:
    """The first try arrived, and the broker has forgotten where it went."""
    async with producer_of(cluster) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        await (await producer.send("out", b"1", partition=0))
        cluster.judge = once(ApiKey.PRODUCE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
        delivered = await (await producer.send("out", b"2", partition=0))
        await producer.commit_transaction()

    assert delivered.offset == -1
    assert only_log(cluster) == [b"1"]


@pytest.mark.requirement("TXN-47", "TXN-49")
async def test_acknowledged_records_that_are_gone_end_the_producer(cluster: ToyCluster) -> None:
    """The log has lost acknowledged records, which must be reported and not be ignored."""
    async with producer_of(cluster) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        await (await producer.send("out", b"1", partition=0))
        cluster.judge = once(ApiKey.PRODUCE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        await producer.send("out", b"2", partition=0)
        with pytest.raises(ProducerUnusable) as raised:
            await producer.commit_transaction()

    assert raised.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert only_log(cluster) == []


@pytest.mark.requirement("TXN-48")
async def test_a_timeout_out_of_range_is_final(cluster: ToyCluster) -> None:
    """The broker has the say on how long a transaction may hold up others."""
    cluster.judge = once(ApiKey.INIT_PRODUCER_ID, ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    async with producer_of(cluster, transaction_timeout_ms=10**9) as producer:
        with pytest.raises(ProducerUnusable, match="INVALID_TRANSACTION_TIMEOUT"):
            await producer.init_transactions()
        with pytest.raises(ProducerUnusable):
            await producer.init_transactions()

    (asked,) = [seen for seen in cluster.seen if seen.api_key is ApiKey.INIT_PRODUCER_ID]
    assert asked.request.transaction_timeout_ms == 10**9


@pytest.mark.requirement("TXN-49")
@pytest.mark.parametrize(
    "code",
    [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED],
)
async def test_who_may_not_use_the_id_cannot_go_on(cluster: ToyCluster, code: ErrorCode) -> None:
    """The producer is closed, as after being fenced."""
    cluster.judge = once(ApiKey.INIT_PRODUCER_ID, code)
    async with producer_of(cluster) as producer:
        with pytest.raises(ProducerUnusable) as raised:
            await producer.init_transactions()

    assert raised.value.code is code


@pytest.mark.parametrize(
    ("key", "code"),
    [
        (ApiKey.PRODUCE, ErrorCode.MESSAGE_TOO_LARGE),
        (ApiKey.PRODUCE, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (ApiKey.PRODUCE, ErrorCode.TRANSACTION_ABORTABLE),
        (ApiKey.PRODUCE, ErrorCode.INVALID_TXN_STATE),
        (ApiKey.PRODUCE, ErrorCode.UNKNOWN_PRODUCER_ID),
        (ApiKey.TXN_OFFSET_COMMIT, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (ApiKey.TXN_OFFSET_COMMIT, ErrorCode.ILLEGAL_GENERATION),
        (ApiKey.TXN_OFFSET_COMMIT, ErrorCode.FENCED_INSTANCE_ID),
        (ApiKey.TXN_OFFSET_COMMIT, ErrorCode.UNKNOWN_MEMBER_ID),
        (ApiKey.TXN_OFFSET_COMMIT, ErrorCode.TRANSACTION_ABORTABLE),
        (ApiKey.END_TXN, ErrorCode.TRANSACTION_ABORTABLE),
    ],
)
async def test_an_error_of_one_transaction_ends_that_one(
    cluster: ToyCluster, key: ApiKey, code: ErrorCode
) -> None:
    """The transaction has to be aborted and stays invisible; the next one works normally."""
    async with producer_of(cluster) as producer:
        await producer.init_transactions()
        cluster.judge = once(key, code)
        await producer.begin_transaction()
        await producer.send("out", b"1", partition=0)
        with pytest.raises(AbortRequired) as raised:
            await finish(producer)
        with pytest.raises(AbortRequired):
            await producer.send("out", b"1", partition=0)
        with pytest.raises(AbortRequired):
            await producer.commit_transaction()
        await producer.abort_transaction()
        await one(producer, b"2")

    assert raised.value.code is code
    assert only_log(cluster) == [b"2"]
    assert cluster.transactions.committed_offsets == {"g": {INPUT: 2}}


async def test_version_1_takes_the_next_epoch_after_an_error(toy: ToyCluster) -> None:
    """KIP-360: what may be on its way under the old epoch cannot join a later transaction, and
    numbers that may be in the log are not used again (hazard T-09)."""
    toy.transaction_version = 1
    log = toy.add_topic("out").partitions[0]
    async with producer_of(toy) as producer:
        await producer.init_transactions()
        await one(producer, b"1")
        toy.judge = once(ApiKey.PRODUCE, ErrorCode.MESSAGE_TOO_LARGE)
        with pytest.raises(AbortRequired):
            await one(producer, b"2")
        await one(producer, b"3")

    assert control(toy).count(ApiKey.INIT_PRODUCER_ID) == 2
    batches = [parse_batch(data) for data in log.batches]
    data = [
        (batch.producer_epoch, batch.base_sequence) for batch in batches if not batch.is_control
    ]
    assert data == [(0, 0), (1, 0)]


async def test_version_1_aborts_without_an_error_in_the_same_epoch(toy: ToyCluster) -> None:
    """An abort that was simply wanted costs no more than a commit."""
    toy.transaction_version = 1
    toy.add_topic("out")
    async with producer_of(toy) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        await (await producer.send("out", b"1", partition=0))
        await producer.abort_transaction()

    assert control(toy).count(ApiKey.INIT_PRODUCER_ID) == 1


async def test_a_coordinator_that_cannot_raise_epochs_ends_the_producer(toy: ToyCluster) -> None:
    """Before KIP-360: the log may hold sequence numbers under an epoch that would stay in use."""
    toy.versions = {ApiKey.INIT_PRODUCER_ID: (0, 1)}
    toy.add_topic("out")
    async with producer_of(toy) as producer:
        await producer.init_transactions()
        await one(producer, b"1")
        toy.judge = once(ApiKey.PRODUCE, ErrorCode.MESSAGE_TOO_LARGE)
        await producer.begin_transaction()
        await producer.send("out", b"2", partition=0)
        with pytest.raises(AbortRequired):
            await producer.commit_transaction()
        await producer.abort_transaction()
        with pytest.raises(ProducerUnusable):
            await producer.begin_transaction()

    assert only_log(toy) == [b"1"]


async def test_a_record_that_runs_out_of_time_ends_its_transaction(cluster: ToyCluster) -> None:
    """Committing without it would tear the transaction."""
    cluster.judge = lambda seen: (
        ErrorCode.NOT_ENOUGH_REPLICAS if seen.api_key is ApiKey.PRODUCE else None
    )
    settings = {"linger_ms": 0, "request_timeout_ms": 100, "delivery_timeout_ms": 150}
    async with producer_of(cluster, **settings) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        lost = await producer.send("out", b"1", partition=0)
        with pytest.raises(AbortRequired):
            await producer.commit_transaction()
        with pytest.raises(DeliveryTimedOut):
            await lost
        await producer.abort_transaction()
        cluster.judge = lambda _: None
        await one(producer, b"2")

    assert only_log(cluster) == [b"2"]


async def test_after_an_error_nothing_more_is_sent(cluster: ToyCluster) -> None:
    """Records behind the refused batch fail with its error; they would be aborted anyway."""
    async with producer_of(cluster, linger_ms=10_000) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        first = await producer.send("out", b"1", partition=0)
        cluster.judge = once(ApiKey.PRODUCE, ErrorCode.MESSAGE_TOO_LARGE)
        await producer.flush()
        with pytest.raises(RequestRefused, match="MESSAGE_TOO_LARGE"):
            await first
        with pytest.raises(AbortRequired):
            await producer.send("out", b"2", partition=0)
        await producer.abort_transaction()

    assert cluster.counts()[ApiKey.PRODUCE] == 1


# Who may commit offsets.


@pytest.mark.requirement("TXN-19", "TXN-20")
async def test_a_member_that_has_been_replaced_cannot_commit_offsets(cluster: ToyCluster) -> None:
    """KIP-447, hazard T-22: the member woke up after its partitions had gone to another one."""
    cluster.transactions.generations["g"] = 5
    old = ConsumerGroupMetadata("g", 4, "me", None)
    async with producer_of(cluster) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.send("out", b"1", partition=0)
        with pytest.raises(AbortRequired, match="ILLEGAL_GENERATION"):
            await producer.send_offsets_to_transaction({INPUT: 1}, old)
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send_offsets_to_transaction(
                {INPUT: Committed(2, 1, "note")}, old._replace(generation_id=5)
            )

    (*_, last) = [seen for seen in cluster.seen if seen.api_key is ApiKey.TXN_OFFSET_COMMIT]
    part = last.request.topics[0].partitions[0]
    assert (last.request.member_id, last.request.generation_id_or_member_epoch) == ("me", 5)
    assert (part.committed_leader_epoch, part.committed_metadata) == (1, "note")
    assert only_log(cluster) == []
    assert cluster.transactions.committed_offsets == {"g": {INPUT: 2}}


async def test_a_member_is_not_passed_off_as_no_member(toy: ToyCluster) -> None:
    """A broker without support for members would not fence one that has been replaced."""
    toy.versions = {ApiKey.TXN_OFFSET_COMMIT: (0, 2)}
    toy.add_topic("out")
    async with producer_of(toy) as producer:
        await producer.init_transactions()
        await one(producer, b"1")
        await producer.begin_transaction()
        with pytest.raises(ProducerUnusable, match="cannot check the member"):
            await producer.send_offsets_to_transaction(
                {INPUT: 2}, ConsumerGroupMetadata("g", 1, "me")
            )

    assert toy.transactions.committed_offsets == {"g": {INPUT: 1}}
