"""A transaction that one producer leaves open and another process ends, in both versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.client.cluster.cluster import ClusterClient
from ottla.client.prepared_transaction import ResumedTransaction, prepare_transaction
from ottla.client.process.environment import real_environment
from ottla.client.process.errors import ProducerFenced, TransactionError
from ottla.client.records.committed import Committed, ConsumerGroupMetadata
from ottla.client.settings.config import parse_addresses
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.wire.errors import ClientClosed
from tests.client.support.toy_broker import Fate
from tests.client.support.transactional import INPUT, config, control, once, only_log, producer_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ottla.client.prepared_transaction import PreparedTransaction
    from tests.client.support.toy_broker import ToyCluster


@pytest.fixture
async def second(cluster: ToyCluster) -> AsyncIterator[ClusterClient]:
    """The connection of the process that ends the transaction."""
    seen = ClusterClient(real_environment(), parse_addresses(cluster.bootstrap), config())
    await seen.refresh()
    yield seen
    seen.close()


async def prepared(cluster: ToyCluster) -> PreparedTransaction:
    """Leave a transaction open that holds one record and one committed position."""
    producer = producer_of(cluster)
    await producer.start()
    await producer.init_transactions()
    await producer.begin_transaction()
    await producer.send("out", b"a", partition=0)
    await producer.send_offsets_to_transaction({INPUT: 1}, "g")
    found = await prepare_transaction(producer)
    with pytest.raises(ClientClosed):
        await producer.send("out", b"b", partition=0)
    return found


async def test_the_second_process_adds_offsets_and_commits(
    cluster: ToyCluster, second: ClusterClient
) -> None:
    """All sent records count, and for each partition the last position."""
    resumed = ResumedTransaction(second, config(), await prepared(cluster))
    before = only_log(cluster)
    await resumed.send_offsets({INPUT: Committed(2)}, ConsumerGroupMetadata("g"))
    await resumed.commit()

    assert before == []
    assert only_log(cluster) == [b"a"]
    assert cluster.transactions.committed_offsets == {"g": {INPUT: 2}}
    assert control(cluster).count(ApiKey.END_TXN) == 1


async def test_the_second_process_aborts(cluster: ToyCluster, second: ClusterClient) -> None:
    """An open transaction must not keep readers waiting."""
    await ResumedTransaction(second, config(), await prepared(cluster)).abort()

    assert only_log(cluster) == []
    assert cluster.transactions.committed_offsets == {}


async def test_a_new_producer_with_the_same_transactional_id_fences_the_second_process(
    cluster: ToyCluster, second: ClusterClient
) -> None:
    """Otherwise a second attempt could not be sure that the first is over (hazard T-08)."""
    found = await prepared(cluster)
    async with producer_of(cluster) as producer:
        await producer.init_transactions()

        with pytest.raises(ProducerFenced):
            await ResumedTransaction(second, config(), found).commit()
    assert only_log(cluster) == []


async def test_a_commit_is_retried_after_a_lost_answer(
    cluster: ToyCluster, second: ClusterClient
) -> None:
    """The second process sends EndTxn again, and the coordinator answers that it is done."""
    found = await prepared(cluster)
    cluster.judge = once(ApiKey.END_TXN, Fate.DROP_AFTER)
    await ResumedTransaction(second, config(), found).commit()

    assert only_log(cluster) == [b"a"]


async def test_a_transaction_with_a_failed_record_cannot_be_prepared(cluster: ToyCluster) -> None:
    """The second process would commit a transaction that lacks a record."""
    async with producer_of(cluster) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        cluster.judge = once(ApiKey.PRODUCE, ErrorCode.INVALID_RECORD)
        await producer.send("out", b"a", partition=0)

        with pytest.raises(TransactionError):
            await prepare_transaction(producer)
        await producer.abort_transaction()
    assert only_log(cluster) == []
