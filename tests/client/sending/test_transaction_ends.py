"""How transactions end: late, cancelled, by errors of the application, by closing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from ottla.client.process.errors import TransactionAborted, TransactionMisuse, TransactionTimedOut
from ottla.client.producer import Producer
from ottla.client.sending.transaction_states import ProducerTransactionState
from ottla.client.settings.config import ProducerConfig
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.wire.errors import ClientClosed
from tests.client.support.toy_broker import Fate
from tests.client.support.transactional import (
    control,
    one,
    only_log,
    producer_of,
)

if TYPE_CHECKING:
    from tests.client.support.toy_broker import ToyCluster


# Time, and ends of other kinds.


async def test_a_commit_that_takes_too_long_goes_on_and_tells_its_end_later(
    cluster: ToyCluster,
) -> None:
    """Its outcome is unknown until the same call has told it; nothing else is possible before."""
    cluster.judge = lambda seen: Fate.SILENCE if seen.api_key is ApiKey.END_TXN else None
    async with producer_of(cluster, call_timeout_ms=1_500, request_timeout_ms=500) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.send("out", b"1", partition=0)
        with pytest.raises(TransactionTimedOut, match="calling it again"):
            await producer.commit_transaction()
        for call in (producer.abort_transaction, producer.begin_transaction):
            with pytest.raises(TransactionMisuse, match="call commit_transaction again"):
                await call()
        cluster.judge = lambda _: None
        await producer.commit_transaction()
        await one(producer, b"2")

    assert only_log(cluster) == [b"1", b"2"]


async def test_a_commit_that_was_cancelled_goes_on(cluster: ToyCluster) -> None:
    """The commit continues as after a timeout."""
    async with producer_of(cluster) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.send("out", b"1", partition=0)
        task = asyncio.ensure_future(producer.commit_transaction())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await producer.commit_transaction()

    assert only_log(cluster) == [b"1"]


async def test_an_initialization_that_takes_too_long_goes_on(cluster: ToyCluster) -> None:
    """The predecessor's transaction may take its time to be completed."""
    cluster.judge = lambda seen: (
        ErrorCode.CONCURRENT_TRANSACTIONS if seen.api_key is ApiKey.INIT_PRODUCER_ID else None
    )
    async with producer_of(cluster, call_timeout_ms=60) as producer:
        with pytest.raises(TransactionTimedOut):
            await producer.init_transactions()
        cluster.judge = lambda _: None
        await asyncio.sleep(0)
        while True:
            try:
                await producer.init_transactions()
            except TransactionTimedOut:
                continue
            break
        await one(producer, b"1")

    assert only_log(cluster) == [b"1"]


async def test_an_error_in_the_block_aborts_and_is_raised(cluster: ToyCluster) -> None:
    """The block's own error, not what followed from it."""
    async with producer_of(cluster) as producer:
        await producer.init_transactions()

        async def work() -> None:
            async with producer.transaction():
                await producer.send("out", b"1", partition=0)
                await producer.flush()
                raise KeyError("mine")

        with pytest.raises(KeyError, match="mine"):
            await work()
        await one(producer, b"2")

    assert only_log(cluster) == [b"2"]


async def test_a_block_that_is_cancelled_aborts(cluster: ToyCluster) -> None:
    """Readers of committed records would wait for the coordinator's timeout otherwise."""
    async with producer_of(cluster) as producer:
        await producer.init_transactions()
        inside = asyncio.Event()

        async def work() -> None:
            async with producer.transaction():
                await (await producer.send("out", b"1", partition=0))
                inside.set()
                await asyncio.Event().wait()

        task = asyncio.ensure_future(work())
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        ended = control(cluster)[-1]
        await one(producer, b"2")

    assert ended is ApiKey.END_TXN
    assert only_log(cluster) == [b"2"]


async def test_a_block_may_end_its_transaction_itself(cluster: ToyCluster) -> None:
    """An abort inside the block is the application's decision."""
    async with producer_of(cluster) as producer:
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send("out", b"1", partition=0)
            await producer.abort_transaction()
        await one(producer, b"2")

    assert only_log(cluster) == [b"2"]


async def test_closing_aborts_what_is_open(cluster: ToyCluster) -> None:
    """After the close the application could not end the transaction."""
    async with producer_of(cluster) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        await (await producer.send("out", b"1", partition=0))

    assert control(cluster)[-1] is ApiKey.END_TXN
    assert only_log(cluster) == []
    assert not cluster.transactions.by_id["id"].is_open
    with pytest.raises(ClientClosed):
        await producer.commit_transaction()


async def test_closing_waits_for_a_commit_that_is_under_way(cluster: ToyCluster) -> None:
    """EndTxn has been sent and cannot be taken back."""
    producer = producer_of(cluster)
    await producer.start()
    await producer.init_transactions()
    await producer.begin_transaction()
    await producer.send("out", b"1", partition=0)
    commit = asyncio.ensure_future(producer.commit_transaction())
    await asyncio.sleep(0)
    await producer.close()
    await commit

    assert only_log(cluster) == [b"1"]


async def test_a_record_that_waits_for_room_does_not_slip_into_the_next_transaction(
    cluster: ToyCluster,
) -> None:
    """The record belongs to a transaction that has ended meanwhile."""
    settings = {"batch_bytes": 200, "memory_bytes_max": 400, "linger_ms": 10_000}
    async with producer_of(cluster, **settings) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        cluster.judge = lambda seen: Fate.SWALLOW if seen.api_key is ApiKey.PRODUCE else None
        await producer.send("out", b"1" * 150, partition=0)
        waiting = asyncio.ensure_future(producer.send("out", b"2" * 350, partition=0))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        for node in cluster.nodes.values():
            node.drop_connections()
        cluster.judge = lambda _: None
        await producer.abort_transaction()
        await producer.begin_transaction()
        with pytest.raises(TransactionMisuse):
            await waiting
        await producer.commit_transaction()


def test_a_state_is_named_so_that_a_person_understands_it() -> None:
    """Messages put it behind "the producer is"."""
    assert all(state.value.islower() for state in ProducerTransactionState)


@pytest.mark.requirement("TXN-10")
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"idempotent": False}, "needs an idempotent producer"),
        ({"acks": 1}, "needs an idempotent producer"),
        ({"in_flight_max": 6}, "needs an idempotent producer"),
        ({"transactional_id": ""}, "at least one character"),
        ({"transaction_timeout_ms": 0}, "at least 1"),
    ],
)
def test_a_transactional_id_implies_idempotence(changes: dict[str, Any], expected: str) -> None:
    """Setting the id alone turns it on, and nothing may turn it off."""
    assert ProducerConfig(transactional_id="id").is_idempotent
    with pytest.raises(ValueError, match=expected):
        ProducerConfig(**{"transactional_id": "id", **changes})


async def test_a_producer_without_the_id_has_no_transactions(toy: ToyCluster) -> None:
    """With an id, by keyword or settings, the same producer has transactions."""
    async with Producer(toy.bootstrap) as producer:
        with pytest.raises(TransactionMisuse, match="no transactional_id"):
            await producer.init_transactions()
    made = Producer(toy.bootstrap, transactional_id="other", transaction_timeout_ms=5)
    assert (made.config.transactional_id, made.config.transaction_timeout_ms) == ("other", 5)


def test_a_dropped_record_has_an_error_of_its_own() -> None:
    """Neither the record nor the cluster is the cause of the failure."""
    assert not TransactionAborted("x").retriable
    assert TransactionTimedOut("x").retriable
