"""The transactional producer against a toy cluster, in both versions of the protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.client.process.errors import TransactionAborted
from ottla.protocol.apis import ApiKey
from ottla.protocol.records.batch import parse_batch
from tests.client.support.toy_transactions import committed
from tests.client.support.transactional import (
    INPUT,
    control,
    producer_of,
)

if TYPE_CHECKING:
    from tests.client.support.toy_broker import ToyCluster

# The ordinary way.


@pytest.mark.requirement("TXN-08", "TXN-22", "TXN-28", "TXN-29")
async def test_records_and_offsets_of_a_transaction_are_committed_together(
    cluster: ToyCluster,
) -> None:
    """The whole way once, with every call there is."""
    async with producer_of(cluster) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.send("out", b"a", partition=0)
        await producer.send("out", b"b", partition=1)
        await producer.send_offsets_to_transaction({INPUT: 7}, "readers")
        before = dict(cluster.transactions.committed_offsets)
        await producer.commit_transaction()

    first, second = cluster.topics["out"].partitions
    assert before == {}
    assert (committed(first), committed(second)) == ([b"a"], [b"b"])
    assert cluster.transactions.committed_offsets == {"readers": {INPUT: 7}}
    batch = parse_batch(first.batches[0])
    assert batch.is_transactional
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (4001, 0, 0)


@pytest.mark.requirement("TXN-30")
async def test_an_aborted_transaction_leaves_nothing(cluster: ToyCluster) -> None:
    """Records of an aborted transaction stay in the log and are not returned."""
    async with producer_of(cluster) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        await (await producer.send("out", b"a", partition=0))
        await producer.send_offsets_to_transaction({INPUT: 7}, "readers")
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send("out", b"b", partition=0)

    log = cluster.topics["out"].partitions[0]
    assert b"a" in log.values()
    assert committed(log) == [b"b"]
    assert cluster.transactions.committed_offsets == {}


async def test_version_1_announces_partitions_and_groups_once(toy: ToyCluster) -> None:
    """Each costs a round trip, and a write of the coordinator."""
    toy.transaction_version = 1
    toy.add_topic("out", 2)
    async with producer_of(toy) as producer:
        await producer.init_transactions()
        async with producer.transaction():
            for number in range(6):
                await (await producer.send("out", b"%d" % number, partition=0))
            await producer.send_offsets_to_transaction({INPUT: 1}, "g")
            await producer.send_offsets_to_transaction({INPUT: 2}, "g")

    assert control(toy) == [
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.END_TXN,
    ]
    assert toy.transactions.committed_offsets == {"g": {INPUT: 2}}
    assert {seen.version for seen in toy.seen if seen.api_key is ApiKey.PRODUCE} == {11}
    assert {seen.version for seen in toy.seen if seen.api_key is ApiKey.END_TXN} == {4}


async def test_version_2_announces_nothing_and_takes_the_next_epoch(toy: ToyCluster) -> None:
    """KIP-890: producer id and epoch name one transaction, so nothing late can join another."""
    toy.transaction_version = 2
    log = toy.add_topic("out").partitions[0]
    async with producer_of(toy) as producer:
        await producer.init_transactions()
        for number in range(3):
            async with producer.transaction():
                await producer.send("out", b"%d" % number)
                await producer.send_offsets_to_transaction({INPUT: number}, "g")

    assert set(control(toy)) == {
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.END_TXN,
    }
    batches = [parse_batch(data) for data in log.batches]
    data = [
        (batch.producer_epoch, batch.base_sequence) for batch in batches if not batch.is_control
    ]
    assert data == [(0, 0), (1, 0), (2, 0)]
    assert {seen.version for seen in toy.seen if seen.api_key is ApiKey.END_TXN} == {5}
    assert min(seen.version for seen in toy.seen if seen.api_key is ApiKey.PRODUCE) >= 12


async def test_version_1_keeps_epoch_and_sequence_over_transactions(toy: ToyCluster) -> None:
    """Brokers of that version expect it."""
    log = toy.add_topic("out").partitions[0]
    async with producer_of(toy) as producer:
        await producer.init_transactions()
        for number in range(3):
            async with producer.transaction():
                await producer.send("out", b"%d" % number)

    batches = [parse_batch(data) for data in log.batches]
    data = [
        (batch.producer_epoch, batch.base_sequence) for batch in batches if not batch.is_control
    ]
    assert data == [(0, 0), (0, 1), (0, 2)]


@pytest.mark.requirement("TXN-15")
async def test_a_transaction_without_records_sends_no_request(cluster: ToyCluster) -> None:
    """Beginning is local, and the coordinator does not have to end what it never heard of."""
    async with producer_of(cluster) as producer:
        await producer.init_transactions()
        cluster.seen.clear()
        await producer.begin_transaction()
        await producer.commit_transaction()
        await producer.begin_transaction()
        await producer.send_offsets_to_transaction({}, "g")
        await producer.abort_transaction()

    assert cluster.seen == []


@pytest.mark.requirement("TXN-26")
async def test_a_commit_waits_for_every_acknowledgement(cluster: ToyCluster) -> None:
    """A record that is refused after EndTxn would be missing from a committed transaction."""
    async with producer_of(cluster, linger_ms=1_000, in_flight_max=1) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        sent = [await producer.send("out", b"%d" % number) for number in range(100)]
        await producer.commit_transaction()

        assert all(delivery.done for delivery in sent)
    keys = [seen.api_key for seen in cluster.seen]
    assert keys[-1] is ApiKey.END_TXN
    values = [value for log in cluster.topics["out"].partitions for value in committed(log)]
    assert len(values) == 100


@pytest.mark.requirement("TXN-27")
async def test_an_abort_drops_what_waits_and_awaits_what_is_on_its_way(
    cluster: ToyCluster,
) -> None:
    """Dropped records fail with an error that says so, and EndTxn follows the last answer."""
    ended: list[ApiKey] = []
    async with producer_of(cluster, linger_ms=10_000) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        first = await producer.send("out", b"1", partition=0)
        await producer.flush()
        waiting = await producer.send("out", b"2", partition=0)
        await producer.abort_transaction()
        ended = control(cluster)

        with pytest.raises(TransactionAborted):
            await waiting
    assert (await first).offset == 0
    assert ended[-1] is ApiKey.END_TXN
    log = cluster.topics["out"].partitions[0]
    assert log.values()[0] == b"1"
    assert b"2" not in log.values()
    assert committed(log) == []
