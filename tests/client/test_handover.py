"""A transaction that one producer leaves open and another process ends, in both versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.client.cluster.cluster import ClusterClient
from ottla.client.handover import TakenOver, leave_open
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

    from ottla.client.handover import TransactionHandover
    from tests.client.support.toy_broker import ToyCluster


@pytest.fixture
async def heir(cluster: ToyCluster) -> AsyncIterator[ClusterClient]:
    """The cluster as another process sees it."""
    seen = ClusterClient(real_environment(), parse_addresses(cluster.bootstrap), config())
    await seen.refresh()
    yield seen
    seen.close()


async def left(cluster: ToyCluster) -> TransactionHandover:
    """Leave a transaction open that holds one record and one committed position."""
    producer = producer_of(cluster)
    await producer.start()
    await producer.init_transactions()
    await producer.begin_transaction()
    await producer.send("out", b"a", partition=0)
    await producer.send_offsets_to_transaction({INPUT: 1}, "g")
    found = await leave_open(producer)
    with pytest.raises(ClientClosed):
        await producer.send("out", b"b", partition=0)
    return found


async def test_the_heir_commits_what_was_left_and_may_add_offsets(
    cluster: ToyCluster, heir: ClusterClient
) -> None:
    """All sent records count, and for each partition the last position."""
    taken = TakenOver(heir, config(), await left(cluster))
    before = only_log(cluster)
    await taken.send_offsets({INPUT: Committed(2)}, ConsumerGroupMetadata("g"))
    await taken.commit()

    assert before == []
    assert only_log(cluster) == [b"a"]
    assert cluster.transactions.committed_offsets == {"g": {INPUT: 2}}
    assert control(cluster).count(ApiKey.END_TXN) == 1


async def test_the_heir_may_abort_as_well(cluster: ToyCluster, heir: ClusterClient) -> None:
    """An open transaction must not keep readers waiting."""
    await TakenOver(heir, config(), await left(cluster)).abort()

    assert only_log(cluster) == []
    assert cluster.transactions.committed_offsets == {}


async def test_the_next_producer_of_that_name_takes_it_from_the_heir(
    cluster: ToyCluster, heir: ClusterClient
) -> None:
    """Otherwise a second attempt could not be sure that the first is over (hazard T-08)."""
    found = await left(cluster)
    async with producer_of(cluster) as producer:
        await producer.init_transactions()

        with pytest.raises(ProducerFenced):
            await TakenOver(heir, config(), found).commit()
    assert only_log(cluster) == []


async def test_a_lost_answer_does_not_make_a_second_commit(
    cluster: ToyCluster, heir: ClusterClient
) -> None:
    """The heir asks again, and finds it done."""
    found = await left(cluster)
    cluster.judge = once(ApiKey.END_TXN, Fate.DROP_AFTER)
    await TakenOver(heir, config(), found).commit()

    assert only_log(cluster) == [b"a"]


async def test_what_cannot_be_committed_is_not_left(cluster: ToyCluster) -> None:
    """The heir would commit a transaction that lacks a record."""
    async with producer_of(cluster) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        cluster.judge = once(ApiKey.PRODUCE, ErrorCode.INVALID_RECORD)
        await producer.send("out", b"a", partition=0)

        with pytest.raises(TransactionError):
            await leave_open(producer)
        await producer.abort_transaction()
    assert only_log(cluster) == []
