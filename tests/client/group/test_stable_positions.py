"""Committed offsets are fetched when no open transaction is about to move them (KIP-447)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.client.consumer import Consumer
from ottla.client.group.requests import GroupRefused
from ottla.client.records.committed import Committed
from ottla.client.settings.config import Isolation
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from ottla.wire.backoff import Backoff

if TYPE_CHECKING:
    from tests.client.support.toy_broker import Seen, ToyCluster

WHERE = TopicPartition("t", 0)


def consumer_of(toy: ToyCluster, isolation: Isolation, call_timeout_ms: float = 60_000) -> Consumer:
    """A consumer of group g, which has committed the beginning of an empty log."""
    toy.add_topic("t")
    toy.offsets.stored[WHERE] = Committed(0)
    return Consumer(
        toy.bootstrap,
        group_id="g",
        offset_reset="none",
        isolation=isolation,
        retry_backoff=Backoff(1, 5),
        call_timeout_ms=call_timeout_ms,
    )


def asked(toy: ToyCluster) -> list[bool]:
    """For stable positions or not, request by request."""
    return [seen.request.require_stable for seen in toy.seen if seen.api_key is ApiKey.OFFSET_FETCH]


def unstable(toy: ToyCluster, count: int) -> None:
    """A transaction is about to move the position, for that many requests."""
    left = [ErrorCode.UNSTABLE_OFFSET_COMMIT] * count

    def judge(seen: Seen) -> ErrorCode | None:
        return left.pop() if seen.api_key is ApiKey.OFFSET_FETCH and left else None

    toy.judge = judge


@pytest.mark.parametrize("isolation", list(Isolation))
async def test_a_consumer_begins_after_what_a_transaction_is_about_to_store(
    toy: ToyCluster, isolation: Isolation
) -> None:
    """Otherwise records of the open transaction would be read again, at any isolation level."""
    async with consumer_of(toy, isolation) as consumer:
        unstable(toy, 2)
        consumer.assign([WHERE])
        while consumer.position(WHERE) is None:
            await consumer.poll(20)

        assert consumer.position(WHERE) == 0
    assert asked(toy) == [True] * 3


@pytest.mark.parametrize("isolation", list(Isolation))
async def test_who_asks_where_the_group_stands_waits_for_transactions(
    toy: ToyCluster, isolation: Isolation
) -> None:
    """``committed`` waits as Java's does."""
    async with consumer_of(toy, isolation) as consumer:
        unstable(toy, 2)

        assert await consumer.committed(partitions=[WHERE]) == {WHERE: Committed(0)}
    assert asked(toy) == [True] * 3


async def test_waiting_for_a_transaction_ends_with_the_time_of_the_call(toy: ToyCluster) -> None:
    """A transaction may hang, and the error says so."""
    async with consumer_of(toy, Isolation.READ_UNCOMMITTED, call_timeout_ms=30) as consumer:
        unstable(toy, 10_000)
        with pytest.raises(GroupRefused, match="transaction still holds these offsets") as failure:
            await consumer.committed(partitions=[WHERE])

    assert failure.value.code is ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert failure.value.retriable


async def test_brokers_that_do_not_know_of_stable_positions_are_asked_for_any(
    toy: ToyCluster,
) -> None:
    """Brokers before 2.5 cannot report stable positions only."""
    toy.versions[ApiKey.OFFSET_FETCH] = (1, 6)
    async with consumer_of(toy, Isolation.READ_COMMITTED) as consumer:
        assert await consumer.committed(partitions=[WHERE]) == {WHERE: Committed(0)}
    assert asked(toy) == [False]
