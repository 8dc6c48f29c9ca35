"""Transactions whose requests are lost, and coordinators that are not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records.batch import parse_batch
from ottla.wire.errors import ClientClosed
from tests.client.support.toy_broker import Fate
from tests.client.support.transactional import (
    INPUT,
    control,
    once,
    one,
    only_log,
    producer_of,
)

if TYPE_CHECKING:
    from tests.client.support.toy_broker import Seen, ToyCluster


LOST = [Fate.DROP_BEFORE, Fate.DROP_AFTER, Fate.SILENCE]


# Requests that are lost, and coordinators that are not there.


@pytest.mark.parametrize("fate", LOST)
@pytest.mark.parametrize(
    "key",
    [
        ApiKey.FIND_COORDINATOR,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.PRODUCE,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.END_TXN,
    ],
)
async def test_a_lost_request_changes_nothing(cluster: ToyCluster, key: ApiKey, fate: Fate) -> None:
    """Each is sent again, and means the same the second time."""
    cluster.judge = once(key, fate)
    async with producer_of(cluster, request_timeout_ms=150) as producer:
        await producer.init_transactions()
        for number in range(1, 4):
            await one(producer, b"%d" % number)

    assert only_log(cluster) == [b"1", b"2", b"3"]
    assert cluster.transactions.committed_offsets == {"g": {INPUT: 3}}


@pytest.mark.requirement("TXN-43", "TXN-45")
@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    ],
)
async def test_a_coordinator_that_is_elsewhere_or_busy_is_asked_again(
    cluster: ToyCluster, code: ErrorCode
) -> None:
    """The application sees no error. A coordinator that has moved is looked up first."""
    refused: set[ApiKey] = set()

    def judge(seen: Seen) -> ErrorCode | None:
        if seen.api_key in refused or seen.api_key not in {*control(cluster)}:
            return None
        refused.add(seen.api_key)
        return code

    cluster.judge = judge
    async with producer_of(cluster) as producer:
        await producer.init_transactions()
        await one(producer, b"1")
        cluster.start(2)
        cluster.transactions.node_id = 2
        refused.clear()
        await one(producer, b"2")

    assert only_log(cluster) == [b"1", b"2"]
    moved = code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    ends = [seen.node_id for seen in cluster.seen if seen.api_key is ApiKey.END_TXN]
    assert ends[-1] == (2 if moved else 1)


@pytest.mark.requirement("TXN-45")
async def test_the_next_transaction_waits_until_the_last_is_complete(toy: ToyCluster) -> None:
    """CONCURRENT_TRANSACTIONS passes as soon as the markers are written, so the first pause is 20
    milliseconds and not the usual one."""
    toy.transaction_version = 2
    toy.add_topic("out")
    refused = 0

    def judge(seen: Seen) -> ErrorCode | None:
        nonlocal refused
        if seen.api_key is ApiKey.PRODUCE and refused < 3:
            refused += 1
            return ErrorCode.CONCURRENT_TRANSACTIONS
        return None

    toy.judge = judge
    async with producer_of(toy) as producer:
        await producer.init_transactions()
        await one(producer, b"1")

    assert refused == 3
    assert only_log(toy) == [b"1"]


# Changes of the version.


async def test_a_cluster_that_is_upgraded_is_followed_with_the_next_transaction(
    toy: ToyCluster,
) -> None:
    """The first transaction of version 2 gets a new epoch, so that partitions announced in version
    1 do not seem to belong to it."""
    toy.transaction_version = 1
    log = toy.add_topic("out").partitions[0]
    async with producer_of(toy) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        await (await producer.send("out", b"1", partition=0))
        toy.transaction_version, toy.features_epoch = 2, 2
        toy.nodes[1].drop_connections()
        await producer.commit_transaction()
        await one(producer, b"2")
        toy.transaction_version, toy.features_epoch = 1, 3
        toy.nodes[1].drop_connections()
        await one(producer, b"3")
        await one(producer, b"4")

    batches = [parse_batch(data) for data in log.batches]
    epochs = [batch.producer_epoch for batch in batches if not batch.is_control]
    ends = [seen.version for seen in toy.seen if seen.api_key is ApiKey.END_TXN]
    assert only_log(toy) == [b"1", b"2", b"3", b"4"]
    assert ends == [4, 5, 5, 4]
    assert epochs == [0, 1, 2, 3]


async def test_a_broker_that_does_not_know_its_clusters_version_is_not_written_to(
    toy: ToyCluster,
) -> None:
    """Such a broker would store records of a transaction without telling the coordinator."""
    toy.transaction_version = 2
    toy.versions = {ApiKey.PRODUCE: (0, 11)}
    toy.add_topic("out")
    async with producer_of(toy) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        sent = await producer.send("out", b"1", partition=0)
        with pytest.raises(ClientClosed, match="does not know the version of transactions"):
            await producer.commit_transaction()
        with pytest.raises(ClientClosed):
            await sent

    assert toy.counts()[ApiKey.PRODUCE] == 0
