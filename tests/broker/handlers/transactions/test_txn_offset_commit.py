"""TxnOffsetCommit: positions that wait for the end of their transaction."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.broker.handlers.transactions.test_transactional_produce import scene
from tests.broker.support import groups
from tests.broker.support.requests import TOPIC
from tests.broker.support.transactions import (
    ID,
    PRODUCER,
    marked,
    offsets_request,
    offsets_sent,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.broker.support.transactions import StandIn
    from tests.support.in_process import RunningBroker
    from tests.support.raw_client import RawClient

NONE = ErrorCode.NONE
OFFSETS = {"__consumer_offsets": [0]}


@asynccontextmanager
async def group_scene() -> AsyncIterator[tuple[RunningBroker, RawClient, StandIn]]:
    """A broker whose groups are there, and a transaction coordinator that the test plays."""
    async with scene() as (running, client, coordinator):
        await groups.coordinated(client)
        yield running, client, coordinator


async def position(client: RawClient) -> int:
    """The position that the group has committed, or -1."""
    return (await groups.committed(client)).get((TOPIC, 0), -1)


async def stable(client: RawClient) -> Any:
    """Returns the committed position as a client with require_stable sees it."""
    wanted = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])]
    group = OffsetFetchRequestGroup(groups.GROUP, topics=wanted)
    request = OffsetFetchRequest(groups=[group], require_stable=True)
    return (await client.call(8, request)).groups[0].topics[0].partitions[0]


@pytest.mark.requirement("TXN-20", "TXN-21", "GRP-16")
@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("commit", [True, False])
async def test_positions_count_when_their_transaction_is_committed(
    version: int, commit: bool
) -> None:
    """Neither before nor after an abort; who wants stable ones is sent away meanwhile (KIP-447)."""
    async with group_scene() as (_running, client, coordinator):
        await groups.commit(client, {(TOPIC, 0): 3})
        sent = await offsets_sent(client, 10, version)
        pending = (await position(client), (await stable(client)).error_code)
        ended = await marked(client, commit=commit, places=OFFSETS)
        settled = await stable(client)

        assert sent is NONE
        assert pending == (3, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        assert ended == [NONE]
        assert (settled.error_code, settled.committed_offset) == (NONE, 10 if commit else 3)
        (asked,) = coordinator.asked
        assert asked.partitions == (TopicPartition("__consumer_offsets", 0),)
        assert (asked.transactional_id, asked.producer_id) == (ID, PRODUCER)
        assert asked.is_verification == (version < 5)


async def test_an_open_transaction_is_asked_for_once() -> None:
    """Later positions in the same transaction replace earlier ones, and cost no question."""
    async with group_scene() as (_running, client, coordinator):
        for offset in (10, 20, 30):
            assert await offsets_sent(client, offset) is NONE
        await marked(client, places=OFFSETS)

        assert len(coordinator.asked) == 1
        assert await position(client) == 30


async def test_a_transaction_that_ends_during_the_question_gets_no_positions() -> None:
    """Such positions would stay pending for ever and hold up every restart of the group (T-13).

    A producer that has begun its next transaction meanwhile retries and is verified for that
    one."""
    async with group_scene() as (running, client, coordinator), running.connect() as other:
        coordinator.is_holding = True
        client.send(4, offsets_request(10))
        await coordinator.until_asked()
        await marked(other, commit=False, places=OFFSETS)
        coordinator.release()
        late = await client.answer(4, offsets_request(10))

        told = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert late.topics[0].partitions[0].error_code == told
        assert (await stable(client)).error_code == NONE


@pytest.mark.parametrize(
    ("verdict", "told"),
    [
        (ErrorCode.INVALID_TXN_STATE, [ErrorCode.INVALID_TXN_STATE] * 4),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 4),
        (ErrorCode.PRODUCER_FENCED, [ErrorCode.INVALID_PRODUCER_EPOCH] * 4),
        (
            ErrorCode.TRANSACTION_ABORTABLE,
            [ErrorCode.INVALID_TXN_STATE] * 2 + [ErrorCode.TRANSACTION_ABORTABLE] * 2,
        ),
        (
            ErrorCode.NOT_COORDINATOR,
            [ErrorCode.COORDINATOR_NOT_AVAILABLE] + [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 3,
        ),
        (
            ErrorCode.CONCURRENT_TRANSACTIONS,
            [
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                ErrorCode.CONCURRENT_TRANSACTIONS,
            ],
        ),
    ],
)
async def test_verdicts_are_told_in_words_that_the_version_knows(
    verdict: ErrorCode, told: list[ErrorCode]
) -> None:
    """Producers before version 2 end when they hear of loading (KAFKA-7296)."""
    async with group_scene() as (_running, client, coordinator):
        coordinator.error = verdict

        assert [await offsets_sent(client, 1, version) for version in (1, 3, 4, 5)] == told
        assert await position(client) == -1


async def test_unknown_topics_are_refused_each_for_itself() -> None:
    """One that was deleted must not keep the others' positions from being stored."""
    async with group_scene() as (_running, client, coordinator):
        request = offsets_request(10)
        request.topics.append(offsets_request(20).topics[0])
        request.topics[1].name = "nowhere"
        answer = await client.call(4, request)
        request.topics = request.topics[1:]
        alone = await client.call(4, request)

        codes = [topic.partitions[0].error_code for topic in (*answer.topics, *alone.topics)]
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert codes == [NONE, unknown, unknown]
        assert len(coordinator.asked) == 1


@pytest.mark.requirement("TXN-20")
@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"epoch": 0, "generation_id_or_member_epoch": 5}, ErrorCode.ILLEGAL_GENERATION),
        ({"epoch": 0, "member_id": "nobody"}, NONE),
    ],
)
async def test_members_of_another_generation_are_fenced(
    more: dict[str, Any], error: ErrorCode
) -> None:
    """A consumer that was taken its partitions away must not commit them (KIP-447, T-22)."""
    async with group_scene() as (_running, client, _coordinator):
        assert await offsets_sent(client, 10, 3, **more) is error


async def test_a_fenced_producer_stores_no_positions() -> None:
    """The partition remembers the epoch of the marker that fenced it (TXN-57)."""
    async with group_scene() as (_running, client, coordinator):
        await offsets_sent(client, 10)
        await marked(client, commit=False, epoch=1, places=OFFSETS)

        assert await offsets_sent(client, 20) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert len(coordinator.asked) == 1


async def test_positions_belong_to_a_group() -> None:
    """As in Kafka; with the empty name all such producers would share one group."""
    async with group_scene() as (_running, client, coordinator):
        assert await offsets_sent(client, 10, group_id="") is ErrorCode.INVALID_GROUP_ID
        assert coordinator.asked == []


async def test_without_the_groups_coordinator_no_transaction_coordinator_is_asked() -> None:
    """The producer looks for it again."""
    async with scene() as (_running, client, coordinator):
        assert await offsets_sent(client, 10) is ErrorCode.NOT_COORDINATOR
        assert coordinator.asked == []
