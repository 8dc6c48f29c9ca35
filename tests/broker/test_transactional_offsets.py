"""Positions in transactions, and the coordinators of their groups that die before and after."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ottla.broker.coordinating.internal_topics import OFFSETS_TOPIC
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.broker.support import groups
from tests.broker.support.brokers import Brokers
from tests.broker.support.requests import TOPIC
from tests.broker.support.transactional_log import (
    PATIENT,
    at,
    is_replicated,
    make_topic,
    others,
    stop_fetching,
)
from tests.broker.support.transactions import PRODUCER, marked, marker_request, offsets_sent
from tests.support.transactions import admit

if TYPE_CHECKING:
    from collections.abc import Mapping

NONE = ErrorCode.NONE


@pytest.fixture
def broker_settings() -> Mapping[str, str]:
    return PATIENT


async def coordinator_of_group(brokers: Brokers) -> int:
    """Who coordinates the group, once it does."""
    async with asyncio.timeout(60):
        while True:
            leader = brokers.leader(OFFSETS_TOPIC)
            if leader in brokers.alive:
                async with at(brokers, leader) as client:
                    if (await groups.positions(client)).error_code == NONE:
                        return leader
            await asyncio.sleep(0.05)


async def open_group(brokers: Brokers) -> int:
    """A group that has committed 3."""
    await make_topic(brokers, 3)
    async with at(brokers, next(iter(brokers.alive))) as client:
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[groups.GROUP])
        await client.call(4, request)
    coordinator = await coordinator_of_group(brokers)
    async with at(brokers, coordinator) as client:
        assert await groups.commit(client, {(TOPIC, 0): 3}) == {(TOPIC, 0): NONE}
    return coordinator


async def send_offset(brokers: Brokers, coordinator: int, offset: int) -> None:
    """In a transaction that its coordinator would vouch for."""
    admit(brokers.partition(coordinator, OFFSETS_TOPIC), PRODUCER)
    async with at(brokers, coordinator) as client:
        assert await offsets_sent(client, offset) is NONE


async def standing(brokers: Brokers, coordinator: int) -> tuple[ErrorCode, int]:
    """Returns the error and the position that a client with require_stable sees."""
    wanted = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])]
    group = OffsetFetchRequestGroup(groups.GROUP, topics=wanted)
    async with at(brokers, coordinator) as client:
        request = OffsetFetchRequest(groups=[group], require_stable=True)
        (answer,) = (await client.call(8, request)).groups
        part = answer.topics[0].partitions[0]
        return ErrorCode(part.error_code), part.committed_offset


async def end_offsets(brokers: Brokers, coordinator: int, *, commit: bool) -> None:
    async with at(brokers, coordinator) as client:
        assert await marked(client, commit=commit, places={OFFSETS_TOPIC: [0]}) == [NONE]


@pytest.mark.requirement("TXN-20", "TXN-21", "GRP-16")
@pytest.mark.parametrize("commit", [True, False])
async def test_pending_positions_outlive_the_coordinator_of_their_group(
    brokers: Brokers, commit: bool
) -> None:
    """The next one reads them from its log, waits for the end, and hears of it (T-23)."""
    first = await open_group(brokers)
    await send_offset(brokers, first, 10)
    await brokers.kill(first)
    second = await coordinator_of_group(brokers)
    pending = await standing(brokers, second)
    await end_offsets(brokers, second, commit=commit)

    assert pending[0] is ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert await standing(brokers, second) == (NONE, 10 if commit else 3)


async def test_an_end_that_only_the_dead_coordinator_had_ends_nothing() -> None:
    """The marker is not on the other replica: the positions stay pending until it is repeated,
    and count once (T-17, T-23)."""
    brokers = Brokers(3, PATIENT | {"offsets.topic.replication.factor": "2"})
    await brokers.start()
    first = await open_group(brokers)
    await send_offset(brokers, first, 10)
    await brokers.until(lambda: is_replicated(brokers, OFFSETS_TOPIC))
    await stop_fetching(brokers, *others(brokers, first))
    async with at(brokers, first) as client:
        replica = brokers.partition(first, OFFSETS_TOPIC).replica
        end_offset = replica.log_end_offset
        client.send(2, marker_request(places={OFFSETS_TOPIC: [0]}))
        await brokers.until(lambda: replica.log_end_offset == end_offset + 1)
        unreplicated = await standing(brokers, first)
    await brokers.kill(first)
    second = await coordinator_of_group(brokers)
    after = await standing(brokers, second)
    await end_offsets(brokers, second, commit=True)
    await end_offsets(brokers, second, commit=True)
    counted = await standing(brokers, second)
    await brokers.stop()

    assert [one[0] for one in (unreplicated, after)] == [ErrorCode.UNSTABLE_OFFSET_COMMIT] * 2
    assert counted == (NONE, 10)


async def test_a_later_plain_commit_is_not_undone_by_an_earlier_transaction(
    brokers: Brokers,
) -> None:
    """What counts is where the commits stand in the log, not where the marker does (T-23)."""
    first = await open_group(brokers)
    await send_offset(brokers, first, 10)
    async with at(brokers, first) as client:
        await groups.commit(client, {(TOPIC, 0): 20})
    await brokers.kill(first)
    second = await coordinator_of_group(brokers)
    await end_offsets(brokers, second, commit=True)
    live = await standing(brokers, second)
    await brokers.kill(second)
    third = await coordinator_of_group(brokers)

    assert live == (NONE, 20)
    assert await standing(brokers, third) == (NONE, 20)
