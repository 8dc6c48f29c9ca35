"""How transactions end: by their producer, by a repeated request, by time, over a restart."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ottla.broker.system.memory_disk import MemoryDisk
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from tests.broker.support.requests import create, fetched
from tests.broker.support.transactional import (
    ID,
    Producer,
    committed_values,
    coordinator_of,
    state_labels,
    state_log,
)
from tests.support.in_process import running_broker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.in_process import RunningBroker
    from tests.support.raw_client import RawClient

NONE = ErrorCode.NONE
FENCED = ErrorCode.PRODUCER_FENCED
INVALID_EPOCH = ErrorCode.INVALID_PRODUCER_EPOCH
INVALID_STATE = ErrorCode.INVALID_TXN_STATE


@pytest.fixture
async def running() -> AsyncIterator[RunningBroker]:
    async with running_broker({"transaction.state.log.num.partitions": "3"}) as made:
        yield made


@pytest.fixture
async def client(running: RunningBroker) -> AsyncIterator[RawClient]:
    async with running.connect() as connected:
        await create(connected)
        await coordinator_of(connected)
        yield connected


@pytest.fixture
async def producer(client: RawClient) -> Producer:
    """Ready to begin."""
    return await Producer(client).init()


# ---- the end ----


@pytest.mark.requirement("TXN-22", "TXN-23", "TXN-25", "TXN-35")
@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("version", [1, 2])
async def test_a_transaction_passes_through_its_states_in_order(
    client: RawClient, running: RunningBroker, version: int, committed: bool
) -> None:
    """What is prepared is decided; what is complete has its markers everywhere."""
    producer = await Producer(client, version=version).init()
    epoch = producer.epoch
    await producer.produce(b"x")
    await producer.end(committed=committed)
    verdict = "Commit" if committed else "Abort"
    await producer.reaches(f"Complete{verdict}")

    expected = ["Empty", "Ongoing", f"Prepare{verdict}", f"Complete{verdict}"]
    assert state_labels(running.broker) == expected
    assert producer.epoch == epoch + (version == 2)


@pytest.mark.requirement("TXN-29", "TXN-30")
@pytest.mark.parametrize("version", [1, 2])
async def test_what_is_committed_shows_and_what_is_aborted_does_not(
    client: RawClient, version: int
) -> None:
    """All of a transaction at once, or nothing of it ever."""
    producer = await Producer(client, version=version).init()
    for value, committed in ((b"a", True), (b"b", False), (b"c", True)):
        await producer.produce(value, value)
        await producer.end(committed=committed)
    await producer.reaches("CompleteCommit")

    assert await committed_values(client) == [b"a", b"a", b"c", b"c"]
    assert (await fetched(client, 0, isolation_level=1)).last_stable_offset == 9


@pytest.mark.requirement("TXN-44")
async def test_an_end_without_a_beginning_is_refused(producer: Producer) -> None:
    """It is a fault of the client, which has to hear of it."""
    assert await producer.try_end(committed=True) == INVALID_STATE
    await producer.add(0)
    await producer.end(committed=True)
    await producer.reaches("CompleteCommit")
    assert await producer.try_end(committed=False) == INVALID_STATE


@pytest.mark.requirement("TXN-52")
@pytest.mark.parametrize("version", [1, 2])
async def test_an_end_that_is_repeated_succeeds_again(client: RawClient, version: int) -> None:
    """The first answer may have been lost with the connection."""
    producer = await Producer(client, version=version).init()
    await producer.produce(b"x")
    before = (producer.producer_id, producer.epoch)
    await producer.end(committed=True)
    after = (producer.producer_id, producer.epoch)
    await producer.reaches("CompleteCommit")
    producer.producer_id, producer.epoch = before

    assert await producer.try_end(committed=True) == NONE
    assert (producer.producer_id, producer.epoch) == after


@pytest.mark.requirement("TXN-42")
async def test_an_id_without_a_producer_has_no_mapping(client: RawClient) -> None:
    """The producer starts over with InitProducerId."""
    stranger = Producer(client, "nobody")
    stranger.producer_id, stranger.epoch = 77, 0

    expected = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert await stranger.try_add(0) == [expected]
    assert await stranger.try_end(committed=True) == expected


async def test_a_wrong_coordinator_says_so(client: RawClient, running: RunningBroker) -> None:
    """The producer looks for the right one (TXN-43)."""
    partition = state_log(running.broker)
    partition.stop()
    await asyncio.sleep(0)

    assert await Producer(client).try_init() == ErrorCode.NOT_COORDINATOR


# ---- a broker that comes back ----


@pytest.mark.requirement("TXN-06", "TXN-11")
@pytest.mark.parametrize("version", [1, 2])
async def test_an_open_transaction_goes_on_after_a_restart(version: int) -> None:
    """The coordinator keeps nothing but its log."""
    disk = MemoryDisk()
    async with running_broker(disk=disk) as made, made.connect() as connected:
        await create(connected)
        await coordinator_of(connected)
        first = await Producer(connected, version=version).init()
        await first.produce(b"before")
    async with running_broker(disk=disk) as made, made.connect() as connected:
        first.client = first.leader = connected
        await coordinator_of(connected)
        await first.produce(b"after")
        await first.end(committed=True)
        await first.reaches("CompleteCommit")

        assert await committed_values(connected) == [b"before", b"after"]


# ---- time ----


@pytest.mark.requirement("TXN-53", "TXN-57", "TXN-58")
async def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced() -> None:
    """Readers behind it would wait for a producer that may never come back."""
    settings = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "50"}
    async with running_broker(settings) as made, made.connect() as connected:
        await create(connected)
        await coordinator_of(connected)
        producer = await Producer(connected).init(timeout_ms=100)
        await producer.produce(b"late")
        await producer.reaches("CompleteAbort")

        assert await committed_values(connected) == []
        assert (await fetched(connected, 0, isolation_level=1)).last_stable_offset == 2
        assert await producer.try_end(committed=True) == FENCED
        assert await producer.try_produce(b"zombie") == INVALID_EPOCH


# ---- looking at them ----


async def test_transactions_are_listed_and_described(client: RawClient, producer: Producer) -> None:
    """An operator looks here first for the transaction that holds readers back (T-25, KIP-664)."""
    await Producer(client, "idle").init()
    await producer.add(0)

    async def listed(**more: object) -> list[str]:
        answer = await client.call(2, ListTransactionsRequest(**more))  # type: ignore[arg-type]
        assert answer.error_code == NONE
        return sorted(one.transactional_id for one in answer.transaction_states)

    assert await listed() == ["idle", ID]
    assert await listed(state_filters=["Ongoing"]) == [ID]
    assert await listed(producer_id_filters=[producer.producer_id]) == [ID]
    assert await listed(duration_filter=60_000) == []
    # Longer than 0 ms: the transaction may have begun in this millisecond.
    await asyncio.sleep(0.01)
    assert await listed(duration_filter=0) == [ID]
    assert await listed(transactional_id_pattern="id.*") == ["idle"]
    unknown = await client.call(0, ListTransactionsRequest(state_filters=["Confused"]))
    assert (unknown.unknown_state_filters, unknown.transaction_states) == (["Confused"], [])
    wrong = await client.call(2, ListTransactionsRequest(transactional_id_pattern="("))
    assert wrong.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    described = await Producer(client, "nobody").describe()
    assert described.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
