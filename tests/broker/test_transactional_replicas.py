"""Transactions of a replicated partition: leaders die between a batch and its marker and after."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ottla.broker.coordinating.internal_topics import TRANSACTIONS_TOPIC
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.broker.support.brokers import Brokers
from tests.broker.support.requests import TOPIC, create, fetched
from tests.broker.support.transactional_log import (
    PATIENT,
    View,
    at,
    end,
    is_replicated,
    make_topic,
    others,
    stop_fetching,
    view,
    write,
)
from tests.broker.support.transactions import (
    ID,
    coordinated,
    in_transaction,
    marker_request,
    produced,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.support.raw_client import RawClient

NONE = ErrorCode.NONE


@pytest.fixture
def broker_settings() -> Mapping[str, str]:
    return PATIENT


async def fail_over(brokers: Brokers) -> int:
    """Kill the leader; who leads then."""
    leader = brokers.leader(TOPIC)
    await brokers.kill(leader)
    await brokers.until(lambda: brokers.leader(TOPIC) in brokers.alive)
    return brokers.leader(TOPIC)


@pytest.mark.parametrize("commit", [True, False])
async def test_a_marker_that_was_not_replicated_decides_nothing(
    brokers: Brokers, commit: bool
) -> None:
    """The leader dies after writing it: no consumer may have read what it ends (T-17)."""
    await make_topic(brokers, 2)
    await write(brokers, 0, b"x")
    await brokers.until(lambda: is_replicated(brokers, TOPIC))
    leader = brokers.leader(TOPIC)
    await stop_fetching(brokers, *others(brokers, leader))
    async with at(brokers, leader) as client:
        client.send(2, marker_request(commit=commit))
        replica = brokers.partition(leader, TOPIC).replica
        await brokers.until(lambda: replica.log_end_offset == 2)
        await asyncio.sleep(0.1)
        before = await view(brokers)
        uncommitted = await fetched_until(brokers, leader)
    successor = await fail_over(brokers)
    after = await view(brokers)
    is_open = brokers.partition(successor, TOPIC).replica.history.producers.get(4000)
    assert is_open is not None
    still_open = is_open.has_open_transaction
    repeated = await end(brokers, commit=commit, coordinator_epoch=1)

    assert before == after == View([], 0)
    assert uncommitted == 1
    assert still_open
    assert repeated is NONE
    assert await view(brokers) == View([b"x"] if commit else [], 2)


async def fetched_until(brokers: Brokers, node_id: int) -> int:
    """How far readers of anything come."""
    async with at(brokers, node_id) as client:
        return int((await fetched(client, 0)).high_watermark)


@pytest.mark.requirement("TXN-29", "TXN-30", "TXN-61", "IDM-14")
async def test_the_next_leader_knows_what_was_aborted_open_and_committed(brokers: Brokers) -> None:
    """By its own log alone, and so does the one after it. That all three replicas have a record
    does not commit it: the producer that aborted it has decided."""
    await make_topic(brokers, 3)
    await write(brokers, 0, b"aborted", 1)
    await write(brokers, 0, b"committed", 2)
    await end(brokers, commit=False, producer_id=1)
    await end(brokers, commit=True, producer_id=2)
    await write(brokers, 1, b"open", 1)
    await brokers.until_equal(TOPIC)
    first = await view(brokers)
    await fail_over(brokers)
    second = await view(brokers)
    continued = await write(brokers, 2, b"open, too", 1)
    repeated = await write(brokers, 2, b"open, too", 1)
    await brokers.until_equal(TOPIC)
    await fail_over(brokers)
    ended = await end(brokers, commit=True, producer_id=1)

    assert first == second == View([b"committed"], 4)
    assert (continued, repeated, ended) == (NONE, NONE, NONE)
    assert await view(brokers) == View([b"committed", b"open", b"open, too"], 7)


async def test_what_was_truncated_has_neither_begun_nor_ended(brokers: Brokers) -> None:
    """A returning leader truncates its unreplicated tail and rebuilds its table from the log
    (T-07)."""
    await make_topic(brokers, 2)
    await write(brokers, 0, b"kept", 1)
    await brokers.until(lambda: is_replicated(brokers, TOPIC))
    old = brokers.leader(TOPIC)
    await stop_fetching(brokers, *others(brokers, old))
    async with at(brokers, old) as client:
        client.send(2, marker_request(commit=False, producer_id=1))
        await write(brokers, 0, b"lost", 2)
        await brokers.until(lambda: brokers.partition(old, TOPIC).replica.log_end_offset == 3)
        await fail_over(brokers)
    assert await end(brokers, commit=True, producer_id=1, coordinator_epoch=2) is NONE
    await brokers.start_one(old)
    await brokers.until_in_sync(TOPIC, 2)
    history = brokers.partition(old, TOPIC).replica.history
    leader_history = brokers.partition(brokers.leader(TOPIC), TOPIC).replica.history

    assert history.producers.get(2) is None
    assert history.snapshot() == leader_history.snapshot()
    assert brokers.partition(old, TOPIC).replica.last_stable_offset == 2
    assert await view(brokers) == View([b"kept"], 2)


async def test_a_zombie_coordinator_is_fenced_by_the_next_leader_too(brokers: Brokers) -> None:
    """The next leader knows from its log which coordinator was the last (T-15)."""
    await make_topic(brokers, 3)
    await write(brokers, 0, b"x")
    assert await end(brokers, commit=True, coordinator_epoch=7) is NONE
    await write(brokers, 1, b"y")
    await brokers.until_equal(TOPIC)
    await fail_over(brokers)
    zombie = await end(brokers, commit=False, coordinator_epoch=6)

    assert zombie is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert await end(brokers, commit=True, coordinator_epoch=7) is NONE
    assert await view(brokers) == View([b"x", b"y"], 4)


@pytest.mark.requirement("TXN-51")
async def test_a_marker_is_repeated_over_a_failover_and_changes_nothing(brokers: Brokers) -> None:
    """The answer was lost with the leader, and the coordinator asks the next one (T-16)."""
    await make_topic(brokers, 3)
    await write(brokers, 0, b"x")
    assert await end(brokers, commit=True) is NONE
    await brokers.until_equal(TOPIC)
    await fail_over(brokers)

    assert await end(brokers, commit=True) is NONE
    assert await view(brokers) == View([b"x"], 2)


async def test_followers_serve_what_is_stable_and_what_to_skip() -> None:
    """A consumer in the follower's rack must not read more than at the leader (KIP-392)."""
    settings = PATIENT | {
        "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    }
    brokers = Brokers(3, settings)
    await brokers.start()
    await make_topic(brokers, 3)
    await write(brokers, 0, b"aborted", 1)
    await end(brokers, commit=False, producer_id=1)
    await write(brokers, 0, b"committed", 2)
    await end(brokers, commit=True, producer_id=2)
    await write(brokers, 1, b"open", 1)
    await brokers.until_equal(TOPIC)
    views = [await view(brokers, node_id) for node_id in brokers.alive]
    await brokers.stop()

    assert views == [View([b"committed"], 4)] * 3


# ---- with the real coordinator ----


@pytest.mark.requirement("TXN-16", "TXN-18", "TXN-24", "TXN-29")
@pytest.mark.parametrize("version", [11, 12])
async def test_partitions_of_every_broker_ask_the_coordinator_wherever_it_is(
    brokers: Brokers, version: int
) -> None:
    """One of them by a call, the others over the wire; its markers reach all of them."""
    async with at(brokers, next(iter(brokers.alive))) as client:
        await create(client, partitions=3)
        await coordinated(client)
    await brokers.until(
        lambda: sorted(brokers.leader(TOPIC, index) for index in range(3)) == [1, 2, 3]
    )
    await brokers.until(lambda: brokers.leader(TRANSACTIONS_TOPIC) > 0)
    coordinator = brokers.leader(TRANSACTIONS_TOPIC)
    async with at(brokers, coordinator) as client:
        producer = await initialised(client)
        refused = await write_to_all(brokers, producer, 11)
        if version < 12:
            await added(client, producer)
        allowed = await write_to_all(brokers, producer, version)
        request = EndTxnRequest(
            transactional_id=ID,
            producer_id=producer[0],
            producer_epoch=producer[1],
            committed=True,
        )
        ended = await client.call(5 if version >= 12 else 4, request)

    assert refused == [ErrorCode.TRANSACTION_ABORTABLE] * 3
    assert allowed == [NONE] * 3
    assert ended.error_code == NONE
    await brokers.until(lambda: all(is_ended(brokers, index) for index in range(3)))


def is_ended(brokers: Brokers, index: int) -> bool:
    replica = brokers.partition(brokers.leader(TOPIC, index), TOPIC, index).replica
    return replica.last_stable_offset == 2


async def initialised(client: RawClient) -> tuple[int, int]:
    """Producer id and epoch of the transactional id."""
    request = InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000)
    async with asyncio.timeout(60):
        while True:
            answer = await client.call(4, request)
            if answer.error_code == NONE:
                return answer.producer_id, answer.producer_epoch
            await asyncio.sleep(0.05)


async def added(client: RawClient, producer: tuple[int, int]) -> None:
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=ID,
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=[AddPartitionsToTxnTopic(TOPIC, [0, 1, 2])],
    )
    answer = await client.call(3, request)
    results = answer.results_by_topic_v3_and_below[0].results_by_partition
    assert {one.partition_error_code for one in results} == {NONE}


async def write_to_all(
    brokers: Brokers, producer: tuple[int, int], version: int
) -> list[ErrorCode]:
    """One record to each of three partitions; each leader's answer."""
    errors = []
    for index in range(3):
        async with at(brokers, brokers.leader(TOPIC, index)) as client:
            records = {index: in_transaction(0, b"x", *producer)}
            answer = await produced(client, records, version)
            errors.append(ErrorCode(answer.error_code))
    return errors
