"""WriteTxnMarkers and DescribeProducers over the wire, and what readers see of the ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from ottla.protocol.records.batch import iterate_batches
from ottla.protocol.records.control import ControlType, read_marker
from tests.broker.handlers.transactions.test_transactional_produce import scene
from tests.broker.support.followers import replicated
from tests.broker.support.requests import TOPIC, batch, create, fetch, fetched, listed, produce
from tests.broker.support.transactions import (
    PRODUCER,
    in_transaction,
    marked,
    marker_request,
    produced,
    producers,
)

if TYPE_CHECKING:
    from tests.support.raw_client import RawClient

NONE = ErrorCode.NONE


@pytest.mark.requirement("TXN-24", "TXN-28", "FMT-31")
@pytest.mark.parametrize("version", [0, 1, 2])
async def test_every_version_ends_a_transaction(version: int) -> None:
    """0 for older brokers, 1 for tools, 2 for this one."""
    async with scene() as (_running, client, _coordinator):
        await produced(client, in_transaction())
        answer = await client.call(version, marker_request(coordinator_epoch=5))
        records = (await fetched(client, 1)).records

        (marker,) = answer.markers
        assert marker.producer_id == PRODUCER
        assert marker.topics[0].partitions[0].error_code == NONE
        written = read_marker(list(iterate_batches(records))[-1])
        assert written is not None
        assert written == (PRODUCER, 0, ControlType.COMMIT, 5)


@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, -1), (-1, 0), (5, -1), (-7, -9)])
async def test_an_end_of_nobodys_transaction_is_not_written(producer_id: int, epoch: int) -> None:
    """-1 is what producers without an id have; a marker of them would be kept for ever."""
    async with scene() as (_running, client, _coordinator):
        answered = await marked(client, producer_id=producer_id, epoch=epoch)

        assert answered == [ErrorCode.INVALID_PRODUCER_EPOCH]
        assert (await fetched(client, 0)).high_watermark == 0


@pytest.mark.requirement("TXN-29", "TXN-30")
@pytest.mark.parametrize("commit", [True, False])
async def test_readers_of_committed_records_wait_and_are_told_what_to_skip(commit: bool) -> None:
    """Before the end nothing, after it all of it or none; the others see everything at once."""
    async with scene() as (_running, client, _coordinator):
        await produced(client, batch(b"before"))
        await produced(client, in_transaction(value=b"inside"))
        await produced(client, batch(b"after"))
        open_view = await fetched(client, 0, isolation_level=1)
        uncommitted = await fetched(client, 0)
        latest = await listed(client, -1, isolation_level=1)
        await marked(client, commit=commit)
        view = await fetched(client, 0, isolation_level=1)

        assert (open_view.high_watermark, open_view.last_stable_offset) == (3, 1)
        assert [one.base_offset for one in iterate_batches(open_view.records)] == [0]
        assert len(list(iterate_batches(uncommitted.records))) == 3
        assert uncommitted.aborted_transactions is None
        assert latest.offset == 1
        assert (view.high_watermark, view.last_stable_offset) == (4, 4)
        aborted = [(one.producer_id, one.first_offset) for one in view.aborted_transactions]
        assert aborted == ([] if commit else [(PRODUCER, 1)])


async def test_a_reader_is_told_of_what_touches_its_records_and_no_more() -> None:
    """A log may have a million aborted transactions; each fetch would name all that follow."""
    async with scene() as (_running, client, _coordinator):
        for sequence in range(5):
            await produced(client, in_transaction(sequence))
            await marked(client, commit=False)

        async def told(offset: int, partition_bytes: int) -> list[int]:
            view = await fetched(client, offset, partition_bytes=partition_bytes, isolation_level=1)
            return [one.first_offset for one in view.aborted_transactions]

        assert await told(0, 1) == [0]
        assert await told(4, 1) == [4]
        assert await told(4, 1 << 20) == [4, 6, 8]
        assert await told(10, 1 << 20) == []


@pytest.mark.parametrize("commit", [True, False])
async def test_a_reader_that_waits_is_told_when_the_transaction_ends(commit: bool) -> None:
    """Not at the end of its patience; and what it gets is known to be decided (T-17)."""
    async with scene() as (running, client, _coordinator), running.connect() as reader:
        await produced(client, in_transaction())
        patient = fetch(0, isolation_level=1, max_wait_ms=30_000)
        reader.send(12, patient)
        await asyncio.sleep(0.05)
        await marked(client, commit=commit)
        answer = (await reader.answer(12, patient)).responses[0].partitions[0]

        assert answer.last_stable_offset == 2
        assert [one.base_offset for one in iterate_batches(answer.records)][:1] == [0]
        assert len(answer.aborted_transactions) == (0 if commit else 1)


async def test_each_partition_has_its_own_answer() -> None:
    """One that is gone must not keep the others' transaction open (TXN-33)."""
    async with scene() as (_running, client, _coordinator):
        await produced(client, {0: in_transaction(), 1: in_transaction()})
        places = {TOPIC: [1, 7, 0], "nowhere": [0]}

        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await marked(client, places=places) == [NONE, unknown, NONE, unknown]
        answer = await fetched(client, 0)
        assert answer.last_stable_offset == answer.high_watermark == 2


async def test_no_markers_are_answered_at_once() -> None:
    """Nothing would ever complete an empty answer."""
    async with scene() as (_running, client, _coordinator):
        assert (await client.call(1, WriteTxnMarkersRequest())).markers == []


async def test_several_markers_of_one_request_end_several_transactions() -> None:
    """A coordinator sends all that it owes to a broker at once."""
    async with scene() as (_running, client, _coordinator):
        await produced(client, in_transaction(producer_id=1))
        await produced(client, in_transaction(producer_id=2))
        request = WriteTxnMarkersRequest(
            [marker_request(producer_id=number).markers[0] for number in (1, 2)]
        )
        answer = await client.call(2, request)

        assert [one.producer_id for one in answer.markers] == [1, 2]
        assert (await fetched(client, 0)).last_stable_offset == 4


@pytest.mark.requirement("TXN-51")
async def test_markers_that_come_twice_and_late_do_no_harm() -> None:
    """Of version 2, where late ones can be told from timely ones (T-16)."""
    async with scene() as (_running, client, _coordinator):
        await produced(client, in_transaction(), 12)
        both = [await marked(client, epoch=1, version=2, commit=False) for _ in range(2)]
        await produced(client, in_transaction(epoch=1), 12)
        late = await marked(client, epoch=1, version=2, commit=False)
        view = await fetched(client, 0, isolation_level=1)

        assert both == [[NONE]] * 2
        assert late == [ErrorCode.INVALID_PRODUCER_EPOCH]
        assert (view.high_watermark, view.last_stable_offset) == (3, 2)


@pytest.mark.parametrize(
    ("epoch", "coordinator_epoch", "error"),
    [
        (0, -1, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
        (-1, 0, ErrorCode.INVALID_PRODUCER_EPOCH),
        (0, 0, NONE),
    ],
)
async def test_markers_of_the_replaced_are_refused(
    epoch: int, coordinator_epoch: int, error: ErrorCode
) -> None:
    """An old coordinator aborts what the new one has committed (T-15)."""
    async with scene() as (_running, client, _coordinator):
        await produced(client, in_transaction())
        await marked(client, coordinator_epoch=0)
        assert (await produced(client, in_transaction(1))).error_code == NONE

        answer = await marked(client, epoch=epoch, coordinator_epoch=coordinator_epoch)
        assert answer == [error]


async def test_sequences_go_on_across_transactions_of_one_epoch() -> None:
    """Producers of version 1 count on; what they repeat within the open one is recognised."""
    async with scene() as (_running, client, _coordinator):
        await produced(client, in_transaction())
        await marked(client)
        second = [await produced(client, in_transaction(1)) for _ in range(2)]
        stale = await produced(client, in_transaction(0))

        assert [(one.error_code, one.base_offset) for one in second] == [(NONE, 2)] * 2
        assert stale.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


# ---- DescribeProducers ----


async def test_a_follower_describes_the_producers_of_its_own_log() -> None:
    """kafka-transactions find-hanging asks one broker about every partition that it has."""
    async with replicated(fetching=True) as site:
        async with site.connect() as leader:
            records = batch(b"x", producer_id=PRODUCER, producer_epoch=0, base_sequence=0)
            await leader.call(11, produce(records, -1))
            led = await producers(leader)
        async with site.connect(site.first) as follower:
            followed = await producers(follower)

        assert [one.producer_id for one in led.active_producers] == [PRODUCER]
        assert followed == led


async def test_producers_are_described_to_who_looks_for_a_hanging_transaction() -> None:
    """An operator can write the missing marker from this description (T-25)."""
    async with scene() as (_running, client, _coordinator):
        await produced(client, batch(b"x", producer_id=1, producer_epoch=3, base_sequence=0))
        await produced(client, in_transaction(producer_id=2))
        await marked(client, producer_id=2, coordinator_epoch=0)
        await produced(client, in_transaction(1, producer_id=2))
        described = (await producers(client)).active_producers
        last = described[-1]
        ended = await marked(
            client,
            commit=False,
            producer_id=last.producer_id,
            epoch=last.producer_epoch,
            coordinator_epoch=last.coordinator_epoch,
        )
        after = (await producers(client)).active_producers[-1]

        rows = [
            (one.producer_id, one.producer_epoch, one.last_sequence, one.coordinator_epoch)
            for one in described
        ]
        assert rows == [(1, 3, 0, -1), (2, 0, 1, 0)]
        assert [one.current_txn_start_offset for one in described] == [-1, 3]
        assert ended == [NONE]
        assert after.current_txn_start_offset == -1
        assert (await fetched(client, 0)).last_stable_offset == 5


@pytest.mark.parametrize(("topic", "index"), [(TOPIC, 7), ("nowhere", 0)])
async def test_unknown_partitions_have_no_producers(topic: str, index: int) -> None:
    """Each has its own error."""
    async with scene() as (_running, client, _coordinator):
        answer = await producers(client, topic, index)

        assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert answer.error_message


@pytest.mark.requirement("TXN-07")
async def test_the_transaction_log_is_not_for_clients(client: RawClient) -> None:
    """One stray record would keep a coordinator from loading, or make up a transaction."""
    await create(client)
    answer = await produced(client, batch(b"x"), transactional_id=None, topic="__transaction_state")

    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
