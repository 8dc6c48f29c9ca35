"""Produces that come after the end of their transaction, with the real coordinator (T-13)."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from ottla.broker.coordinating.txn_partition import begin_verification, conclude
from ottla.broker.replica.verification import Guard
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.records.batch import parse_batch
from tests.broker.support.requests import TOPIC, create
from tests.broker.support.transactions import ID, SMALL, coordinated, in_transaction, produced
from tests.support.in_process import running_broker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.in_process import RunningBroker
    from tests.support.raw_client import RawClient

NONE = ErrorCode.NONE


class Writer:
    """A producer, step by step; ``version`` is that of its transactions."""

    def __init__(self, client: RawClient, version: int) -> None:
        self.client = client
        self.version = version
        self.producer_id = self.epoch = -1

    async def begin(self) -> None:
        request = InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000)
        async with asyncio.timeout(60):
            while (answer := await self.client.call(4, request)).error_code != NONE:
                # The transaction before is being aborted.
                assert answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
                await asyncio.sleep(0.01)
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    async def add(self, index: int) -> None:
        """Needed in version 1."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=ID,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(TOPIC, [index])],
        )
        answer = await self.client.call(3, request)
        (result,) = answer.results_by_topic_v3_and_below[0].results_by_partition
        assert result.partition_error_code == NONE

    async def write(self, index: int, sequence: int, epoch: int, api_version: int) -> ErrorCode:
        records = {index: in_transaction(sequence, b"x", self.producer_id, epoch)}
        return ErrorCode((await produced(self.client, records, api_version)).error_code)

    async def end(self, *, commit: bool) -> None:
        request = EndTxnRequest(
            transactional_id=ID,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        answer = await self.client.call(5 if self.version >= 2 else 4, request)
        assert answer.error_code == NONE
        if self.version >= 2:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch


@asynccontextmanager
async def scene(version: int) -> AsyncIterator[tuple[RunningBroker, Writer]]:
    async with running_broker(SMALL) as running, running.connect() as client:
        await create(client, partitions=2)
        await coordinated(client)
        writer = Writer(client, version)
        await writer.begin()
        yield running, writer


def open_count(running: RunningBroker) -> int:
    """Open transactions of both partitions."""
    found = [running.broker.partitions.find(TOPIC, index) for index in range(2)]
    return sum(
        len(one.replica.history.producers.transactions.open_transactions)
        for one in found
        if one is not None
    )


async def until_ended(running: RunningBroker) -> None:
    """The markers are written soon after the answer."""
    async with asyncio.timeout(60):
        while open_count(running):
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("commit", [True, False])
async def test_in_version_2_a_late_batch_is_known_by_its_epoch(commit: bool) -> None:
    """In the partition that has the marker, and in one that never heard of the transaction."""
    async with scene(2) as (running, writer):
        epoch = writer.epoch
        assert await writer.write(0, 0, epoch, 12) is NONE
        await writer.end(commit=commit)
        await until_ended(running)
        late = [await writer.write(index, 1 - index, epoch, 12) for index in (0, 1)]

        assert late == [ErrorCode.INVALID_PRODUCER_EPOCH] * 2
        assert open_count(running) == 0


@pytest.mark.parametrize(
    ("api_version", "told"),
    [(10, ErrorCode.INVALID_TXN_STATE), (11, ErrorCode.TRANSACTION_ABORTABLE)],
)
async def test_in_version_1_a_late_batch_opens_nothing(api_version: int, told: ErrorCode) -> None:
    """Its epoch is still the current one: only the coordinator knows that it is late."""
    async with scene(1) as (running, writer):
        epoch = writer.epoch
        await writer.add(0)
        assert await writer.write(0, 0, epoch, api_version) is NONE
        await writer.end(commit=False)
        await until_ended(running)
        late = await writer.write(0, 1, epoch, api_version)

        assert late is told
        assert open_count(running) == 0


async def test_a_yes_to_a_guard_that_a_marker_took_away_means_to_come_again() -> None:
    """The producer began right after it had ended: the marker of the last transaction overtakes
    the answer about the next. Refused for good, every such transaction would be aborted."""
    async with scene(2) as (running, writer):
        partition = running.broker.partitions.find(TOPIC, 0)
        assert partition is not None
        assert partition.replica.leading is not None
        data = in_transaction(0, b"x", writer.producer_id, writer.epoch)
        batch = parse_batch(memoryview(data))
        ask = (partition, writer.producer_id, writer.epoch, 0.0)
        guard = begin_verification(*ask, base_sequence=0, adds=True)
        assert isinstance(guard, Guard)
        partition.replica.leading.verifications.drop(writer.producer_id)

        assert conclude(partition, batch, guard, NONE) is ErrorCode.CONCURRENT_TRANSACTIONS
        assert await writer.write(0, 0, writer.epoch, 12) is NONE
        # Open by now: another batch has taken the guard away, and the answer is as good as any.
        assert conclude(partition, batch, guard, NONE) is NONE


async def test_in_version_1_a_batch_for_a_partition_outside_the_transaction_is_refused() -> None:
    """Once written it would survive an abort of the others: the coordinator sends no marker to
    it."""
    async with scene(1) as (running, writer):
        await writer.add(0)
        outside = await writer.write(1, 0, writer.epoch, 11)
        inside = await writer.write(0, 0, writer.epoch, 11)
        await writer.end(commit=True)
        await until_ended(running)

        assert (outside, inside) == (ErrorCode.TRANSACTION_ABORTABLE, NONE)


@pytest.mark.requirement("TXN-02", "TXN-03", "TXN-18")
async def test_a_zombie_writes_nothing_once_its_successor_is_there() -> None:
    """Not even to partitions that have never seen either of them."""
    async with scene(2) as (running, writer):
        old = writer.epoch
        assert await writer.write(0, 0, old, 12) is NONE
        await writer.begin()
        await until_ended(running)
        zombie = [await writer.write(index, 1 - index, old, 12) for index in (0, 1)]

        assert writer.epoch > old
        assert zombie == [ErrorCode.INVALID_PRODUCER_EPOCH] * 2
        assert await writer.write(0, 0, writer.epoch, 12) is NONE
        assert open_count(running) == 1
