"""A coordinator that is stopped for longer than its session, and gets requests as soon as it wakes.

Requests queue in its sockets while it is stopped and are the first that it reads, before it can
know that its groups and transactional ids have moved. It may refuse them, or know better by then;
it must not serve stale state.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from ottla.coordinator.hashing import partition_for
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.broker.support.groups import commit
from tests.broker.support.transactional import Producer
from tests.cluster.support.pipeline import OFFSETS_TOPIC, STATE_TOPIC
from tests.cluster.support.real import RealCluster
from tests.cluster.support.wire import SILENCE, raw, spoken
from tests.zookeeper.shared import fresh_place

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from tests.support.raw_client import RawClient

TOPIC = "paid"
PLACE = (TOPIC, 0)
PARTITIONS = 3
OPTIONS = {
    "offsets.topic.num.partitions": str(PARTITIONS),
    "transaction.state.log.num.partitions": str(PARTITIONS),
    # The frozen one gets nothing back before it is asked.
    "auto.leader.rebalance.enable": "false",
}
GROUPS, TRANSACTIONS = 0, 1
OLD_OFFSET, NEW_OFFSET = 1, 2
# What the frozen one knew of the transaction.
OLD_STATE = "Ongoing"
# How often it is asked once more, after what lay in its sockets.
ROUNDS = 3
PATIENCE_S = 120.0
REFUSALS = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    }
)

Told = ErrorCode | int | str


class Question(NamedTuple):
    """One that is asked in a fixed version, and what is looked at of its answer."""

    version: int
    request: Any
    read: Callable[[Any], Told]


class Place(NamedTuple):
    """A broker, and a group and a transactional id that it coordinates."""

    node_id: int
    group_id: str
    transactional_id: str


# ---- what is asked ----


def position_of_one(group_id: str) -> Question:
    """Fetch the committed offset with version 7."""
    request = OffsetFetchRequest(
        group_id=group_id, topics=[OffsetFetchRequestTopic(TOPIC, [0])], require_stable=True
    )

    def read(answer: Any) -> Told:
        if answer.error_code:
            return ErrorCode(answer.error_code)
        return int(answer.topics[0].partitions[0].committed_offset)

    return Question(7, request, read)


def position_of_many(group_id: str) -> Question:
    """Fetch the committed offset with version 8, of several groups."""
    one = OffsetFetchRequestGroup(
        group_id, topics=[OffsetFetchRequestTopics(TOPIC, partition_indexes=[0])]
    )
    request = OffsetFetchRequest(groups=[one], require_stable=True)

    def read(answer: Any) -> Told:
        (group,) = answer.groups
        if group.error_code:
            return ErrorCode(group.error_code)
        return int(group.topics[0].partitions[0].committed_offset)

    return Question(9, request, read)


def added_again(producer: Producer) -> Question:
    """Add a partition that is part of the transaction already: answered from memory."""
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=producer.transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(TOPIC, [0])],
    )

    def read(answer: Any) -> Told:
        (topic,) = answer.results_by_topic_v3_and_below
        return ErrorCode(topic.results_by_partition[0].partition_error_code)

    return Question(3, request, read)


def described(producer: Producer) -> Question:
    def read(answer: Any) -> Told:
        (state,) = answer.transaction_states
        if state.error_code:
            return ErrorCode(state.error_code)
        return str(state.transaction_state)

    return Question(0, DescribeTransactionsRequest([producer.transactional_id]), read)


# ---- what happens ----


async def coordinator(cluster: RealCluster, kind: int, key: str, but: int = -1) -> int:
    """Id of the current coordinator, as one of the running brokers reports it."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            for node_id, broker in cluster.brokers.items():
                if node_id == but:
                    continue
                async with raw(broker.address) as client:
                    request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
                    (found,) = (await client.call(4, request)).coordinators
                if found.error_code == ErrorCode.NONE and found.node_id != but:
                    assert isinstance(found.node_id, int)
                    return found.node_id
                await asyncio.sleep(0.1)


async def until_done(
    cluster: RealCluster,
    where: tuple[int, str, int],
    ask: Callable[[RawClient], Awaitable[ErrorCode]],
) -> None:
    """Repeat ``ask`` with the current coordinator until it succeeds."""

    async def once() -> ErrorCode:
        node_id = await coordinator(cluster, *where)
        async with raw(cluster.brokers[node_id].address) as client:
            return await ask(client)

    async with asyncio.timeout(PATIENCE_S):
        while (said := await spoken(once())) is not ErrorCode.NONE:
            cluster.tell(f"{where}: {said!r}")
            await asyncio.sleep(0.1)


async def place_of_both(cluster: RealCluster) -> Place:
    """Some broker coordinates both a group and a transactional id; all replicas are in sync."""
    await coordinator(cluster, GROUPS, "any")
    await coordinator(cluster, TRANSACTIONS, "any")
    for topic in (OFFSETS_TOPIC, STATE_TOPIC):
        await asyncio.to_thread(cluster.wait_until_whole, topic, PATIENCE_S)
    groups = await asyncio.to_thread(cluster.leaders, OFFSETS_TOPIC)
    transactions = await asyncio.to_thread(cluster.leaders, STATE_TOPIC)
    node_id = min(set(groups.values()) & set(transactions.values()))
    names = [f"name-{number}" for number in range(1_000)]
    return Place(
        node_id,
        next(name for name in names if groups[partition_for(name, PARTITIONS)] == node_id),
        next(name for name in names if transactions[partition_for(name, PARTITIONS)] == node_id),
    )


async def go_on_elsewhere(cluster: RealCluster, old: Place) -> None:
    """The group gets another position, and a new producer ends what the old one had begun."""

    async def commit_anew(client: RawClient) -> ErrorCode:
        return ErrorCode((await commit(client, {PLACE: NEW_OFFSET}, old.group_id))[PLACE])

    async def fence(client: RawClient) -> ErrorCode:
        return await Producer(client, old.transactional_id).try_init()

    await until_done(cluster, (GROUPS, old.group_id, old.node_id), commit_anew)
    await until_done(cluster, (TRANSACTIONS, old.transactional_id, old.node_id), fence)


async def asked_again(client: RawClient, question: Question) -> list[Told]:
    """The woken broker's answers to the earlier request and to a new one."""
    version, request, read = question
    told: list[Told] = []
    try:
        while len(told) <= ROUNDS:
            told.append(read(await client.answer(version, request)))
            client.send(version, request)
    except SILENCE as error:
        # It may as well hang up.
        told.append(repr(error))
    return told


async def story(cluster: RealCluster) -> dict[str, list[Told]]:
    """Everything that the broker says after its sleep, by question."""
    await asyncio.to_thread(cluster.create_topic, TOPIC, 1, limit_s=60)
    old = await place_of_both(cluster)
    address = cluster.brokers[old.node_id].address
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(raw(address)) for _ in range(4)]
        questions = await begin(clients, old)
        asked = list(zip(clients, questions.values(), strict=True))
        # Each connection is in use: the next requests need no accept.
        before = [one.read(await client.call(one.version, one.request)) for client, one in asked]
        assert before == [OLD_OFFSET, OLD_OFFSET, ErrorCode.NONE, OLD_STATE]
        cluster.freeze(old.node_id)
        for client, one in asked:
            client.send(one.version, one.request)
        await go_on_elsewhere(cluster, old)
        cluster.thaw(old.node_id)
        answers = await asyncio.gather(*(asked_again(client, one) for client, one in asked))
    found = dict(zip(questions, answers, strict=True))
    for what, told in found.items():
        cluster.tell(f"{what}: {told}")
    return found


async def begin(clients: list[RawClient], old: Place) -> dict[str, Question]:
    """A position and an open transaction, and what can be asked about them."""
    async with asyncio.timeout(PATIENCE_S):
        while (await commit(clients[0], {PLACE: OLD_OFFSET}, old.group_id))[PLACE]:
            await asyncio.sleep(0.1)
    producer = await Producer(clients[0], old.transactional_id).init()
    await producer.add(0, topic=TOPIC)
    return {
        "the group's position": position_of_one(old.group_id),
        "the position among others": position_of_many(old.group_id),
        "a partition of the transaction": added_again(producer),
        "the transaction": described(producer),
    }


@pytest.mark.timeout(600)
async def test_a_coordinator_that_wakes_up_tells_nothing_old(tmp_path: Path) -> None:
    """A member that starts at a stale position would repeat the work of its group (G-12); a fenced
    producer would continue a transaction that has ended (T-15)."""
    with RealCluster(tmp_path, fresh_place(), options=OPTIONS) as cluster:
        told = await story(cluster)

    positions = told["the group's position"] + told["the position among others"]
    assert {one for one in positions if not isinstance(one, str)} <= REFUSALS | {NEW_OFFSET}
    assert ErrorCode.NONE not in told["a partition of the transaction"]
    assert OLD_STATE not in told["the transaction"]
