"""Answers that need the agreement of several brokers, since one may be out of date."""

from __future__ import annotations

import asyncio
import copy
from typing import TYPE_CHECKING

import pytest

from ottla import Consumer, RequestRefused, TopicPartition, TransportError
from ottla.client.cluster.all_brokers import agreed_ids, ask_all
from ottla.client.cluster.cluster import ClusterClient
from ottla.client.mirror.notebook import read_notes
from ottla.client.mirror.selection import NOTES_TOPIC
from ottla.client.mirror.translation import OffsetNote, Run, note_key, note_value
from ottla.client.process.environment import real_environment
from ottla.client.settings.config import ClientConfig, parse_addresses
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import ZERO_UUID
from ottla.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
from ottla.protocol.records.builder import encode_batch
from ottla.wire.backoff import Backoff

if TYPE_CHECKING:
    from tests.client.support.toy_broker import ToyCluster

QUICK = Backoff(1, 5)
WHERE = TopicPartition("t", 0)
OLD, YOUNG = b"o" * 16, b"y" * 16


def answer(topic_id: bytes | None) -> MetadataResponse:
    """Of a broker that knows the topic under that id, or not at all."""
    code = 3 if topic_id is None else 0
    return MetadataResponse(topics=[MetadataResponseTopic(code, "t", topic_id or ZERO_UUID)])


@pytest.mark.parametrize(
    ("ids", "silent", "expected"),
    [
        ([YOUNG], 0, YOUNG),
        ([YOUNG, OLD, YOUNG], 0, YOUNG),
        ([OLD, YOUNG], 0, None),
        ([YOUNG, None], 0, None),
        ([YOUNG, None, YOUNG], 0, YOUNG),
        ([None, None], 0, None),
        ([ZERO_UUID, ZERO_UUID], 0, ZERO_UUID),
        ([YOUNG, YOUNG], 1, YOUNG),
        ([OLD], 1, None),
        ([OLD], 2, None),
        ([OLD, OLD], 2, None),
    ],
)
def test_a_topic_is_what_most_brokers_say(
    ids: list[bytes | None], silent: int, expected: bytes | None
) -> None:
    """Half of the brokers is not enough: either half may be behind."""
    answers = [answer(one) for one in ids]
    assert agreed_ids(answers, len(ids) + silent, ["t"]) == {"t": expected}


def cluster_of(toy: ToyCluster) -> ClusterClient:
    config = ClientConfig(retry_backoff=QUICK, reconnect_backoff=QUICK)
    return ClusterClient(real_environment(), parse_addresses(toy.bootstrap), config)


async def test_all_that_can_be_reached_are_asked_and_the_newest_leader_counts(
    toy: ToyCluster,
) -> None:
    """Whichever of them answers last."""
    toy.start(3)
    toy.add_topic("t")
    toy.behind[1] = toy.behind[3] = copy.deepcopy(toy.topics)
    log = toy.topics["t"].partitions[0]
    log.leader_id, log.leader_epoch = 2, 1
    cluster = cluster_of(toy)

    ids = [await ask_all(cluster, ["t"])]
    toy.nodes[3].close()
    ids.append(await ask_all(cluster, ["t"]))

    asked = {seen.node_id for seen in toy.seen if seen.api_key is ApiKey.METADATA}
    assert asked == {1, 2, 3}
    assert ids == [{"t": toy.topics["t"].topic_id}] * 2
    assert cluster.metadata.leader_of(WHERE) == 2
    assert set(cluster.metadata.brokers) == {1, 2, 3}
    cluster.close()


async def test_the_one_that_can_be_reached_is_not_believed_if_it_is_behind(
    toy: ToyCluster,
) -> None:
    """The broker is one of three, and the only one that answers."""
    toy.start(3)
    toy.add_topic("t")
    toy.behind[1] = copy.deepcopy(toy.topics)
    toy.topics["t"].topic_id = YOUNG
    cluster = cluster_of(toy)
    everybody = await ask_all(cluster, ["t"])
    for node_id in (2, 3):
        toy.nodes[node_id].close()

    alone = await ask_all(cluster, ["t"])
    assert (everybody, alone) == ({"t": YOUNG}, {"t": None})
    cluster.close()


async def test_leaders_of_the_topic_before_are_not_taken_over(toy: ToyCluster) -> None:
    """Epochs are compared for one topic only, so the last to answer would have the leaders."""
    toy.start(3)
    toy.add_topic("t")
    toy.behind[3] = copy.deepcopy(toy.topics)
    toy.behind[3]["t"].partitions[0].leader_id = 3
    toy.topics["t"].topic_id = YOUNG
    log = toy.topics["t"].partitions[0]
    log.leader_id, log.leader_epoch = 2, 5
    cluster = cluster_of(toy)

    await ask_all(cluster, ["t"])

    assert cluster.metadata.topics["t"].topic_id == YOUNG
    assert cluster.metadata.leader_of(WHERE) == 2
    cluster.close()


async def test_a_broker_that_leaves_while_all_are_asked_is_one_that_does_not_answer(
    toy: ToyCluster,
) -> None:
    """Another call of the same client removes the broker from the metadata meanwhile."""
    toy.start(3)
    toy.add_topic("t")
    cluster = cluster_of(toy)
    await cluster.refresh()
    asking = asyncio.ensure_future(ask_all(cluster, ["t"]))
    asyncio.get_running_loop().call_soon(cluster.pool.forget, 3)

    assert await asking == {"t": toy.topics["t"].topic_id}
    assert not cluster.pool.knows(3)
    cluster.close()


async def test_an_unreachable_cluster_is_an_error_and_no_empty_answer(toy: ToyCluster) -> None:
    """Missing answers prove nothing."""
    cluster = cluster_of(toy)
    await cluster.refresh()
    toy.nodes[1].close()

    with pytest.raises(TransportError):
        await ask_all(cluster, ["t"])
    cluster.close()


async def test_notes_are_read_to_their_end_behind_a_leader_that_was_replaced(
    toy: ToyCluster,
) -> None:
    """A former leader reports an old end; a mirror would miss the last notes."""
    toy.start(2)
    notes = [
        OffsetNote("west", "id", WHERE, "t", number, Run(number, number + 1, number, number + 1))
        for number in (1, 2)
    ]
    first, second = (encode_batch([(1, note_key(one), note_value(one), ())]) for one in notes)
    toy.add_topic(NOTES_TOPIC).partitions[0].append(first)
    toy.behind[1] = copy.deepcopy(toy.topics)
    log = toy.topics[NOTES_TOPIC].partitions[0]
    log.leader_id, log.leader_epoch = 2, 1
    log.append(second)

    assert await read_notes(toy.bootstrap, real_environment()) == notes


async def test_notes_are_not_read_as_long_as_it_is_unknown_which_topic_has_them(
    toy: ToyCluster,
) -> None:
    """The notes of a former topic would be taken for all notes."""
    toy.start(2)
    toy.add_topic(NOTES_TOPIC)
    toy.behind[2] = copy.deepcopy(toy.topics)
    toy.topics[NOTES_TOPIC].topic_id = YOUNG

    with pytest.raises(RequestRefused) as refused:
        await read_notes(toy.bootstrap, real_environment())
    assert refused.value.code is ErrorCode.INCONSISTENT_TOPIC_ID
    assert refused.value.retriable


async def test_a_pinned_position_is_read_of_its_own_topic_only(toy: ToyCluster) -> None:
    """One lagging broker used to make the consumer start over, twice."""
    toy.start(2)
    log = toy.add_topic("t").partitions[0]
    log.leader_id = 2
    for value in (b"0", b"1"):
        log.append(encode_batch([(1, None, value, ())]))
    young = toy.topics["t"].topic_id
    found: list[bytes | None] = []
    bootstrap = str(toy.nodes[2].address)
    settings = {"metadata_max_age_ms": 1, "retry_backoff": QUICK, "fetch_wait_ms": 10}
    async with Consumer(bootstrap, offset_reset="earliest", **settings) as consumer:  # type: ignore[arg-type]
        consumer.assign([WHERE])
        consumer._positions[WHERE].pinned_id = young
        while len(found) < 2:
            found += [record.value for record in await consumer.poll(1_000)]
        toy.behind[1] = toy.behind[2] = copy.deepcopy(toy.topics)
        toy.behind[1]["t"].topic_id = toy.behind[2]["t"].topic_id = OLD
        asked = toy.counts()[ApiKey.METADATA]
        while toy.counts()[ApiKey.METADATA] < asked + 5:
            found += [record.value for record in await consumer.poll(5)]
        toy.behind.clear()
        log.append(encode_batch([(1, None, b"2", ())]))
        while len(found) < 3:
            found += [record.value for record in await consumer.poll(1_000)]

    assert found == [b"0", b"1", b"2"]
