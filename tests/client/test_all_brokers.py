"""What no single broker is believed."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import pytest

from ottla import Consumer, TopicPartition, TransportError
from ottla.client.all_brokers import agreed_ids, ask_all
from ottla.client.cluster import Cluster
from ottla.client.config import ClientConfig, parse_addresses
from ottla.client.environment import real_environment
from ottla.client.mirror.notebook import read_notes
from ottla.client.mirror.selection import NOTES_TOPIC
from ottla.client.mirror.translation import Note, Run, note_key, note_value
from ottla.client.state.backoff import Backoff
from ottla.protocol.apis import ApiKey
from ottla.protocol.ids import ZERO_UUID
from ottla.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
from ottla.protocol.records.builder import encode_batch

if TYPE_CHECKING:
    from tests.client.toy_broker import ToyCluster

QUICK = Backoff(1, 5)
WHERE = TopicPartition("t", 0)
OLD, YOUNG = b"o" * 16, b"y" * 16


def answer(topic_id: bytes | None) -> MetadataResponse:
    """Of a broker that knows the topic under that id, or not at all."""
    code = 3 if topic_id is None else 0
    return MetadataResponse(topics=[MetadataResponseTopic(code, "t", topic_id or ZERO_UUID)])


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([YOUNG], YOUNG),
        ([YOUNG, OLD, YOUNG], YOUNG),
        ([OLD, YOUNG], None),
        ([YOUNG, None], None),
        ([YOUNG, None, YOUNG], YOUNG),
        ([None, None], None),
        ([ZERO_UUID, ZERO_UUID], ZERO_UUID),
    ],
)
def test_a_topic_is_what_most_brokers_say(ids: list[bytes | None], expected: bytes | None) -> None:
    """Half of them is not enough: either half may be behind."""
    assert agreed_ids([answer(one) for one in ids], ["t"]) == {"t": expected}


def cluster_of(toy: ToyCluster) -> Cluster:
    config = ClientConfig(retry_backoff=QUICK, reconnect_backoff=QUICK)
    return Cluster(real_environment(), parse_addresses(toy.bootstrap), config)


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

    answers = await ask_all(cluster, ["t"])
    toy.nodes[3].close()
    fewer = await ask_all(cluster, ["t"])

    assert (len(answers), len(fewer)) == (3, 2)
    assert cluster.metadata.leader_of(WHERE) == 2
    assert set(cluster.metadata.brokers) == {1, 2, 3}
    cluster.close()


async def test_nobody_there_is_an_error_and_no_empty_answer(toy: ToyCluster) -> None:
    """Nothing can be concluded from silence."""
    cluster = cluster_of(toy)
    await cluster.refresh()
    toy.nodes[1].close()

    with pytest.raises(TransportError):
        await ask_all(cluster, ["t"])
    cluster.close()


async def test_notes_are_read_to_their_end_behind_a_leader_that_was_replaced(
    toy: ToyCluster,
) -> None:
    """It answers the end of long ago; a mirror would go on with notes that lack the last ones."""
    toy.start(2)
    notes = [
        Note("west", "id", WHERE, "t", number, Run(number, number + 1, number, number + 1))
        for number in (1, 2)
    ]
    first, second = (encode_batch([(1, note_key(one), note_value(one), ())]) for one in notes)
    toy.add_topic(NOTES_TOPIC).partitions[0].append(first)
    toy.behind[1] = copy.deepcopy(toy.topics)
    log = toy.topics[NOTES_TOPIC].partitions[0]
    log.leader_id, log.leader_epoch = 2, 1
    log.append(second)

    assert await read_notes(toy.bootstrap, real_environment()) == notes


async def test_a_pinned_position_is_read_of_its_own_topic_only(toy: ToyCluster) -> None:
    """One broker that is behind had the consumer begin anew, and then once more."""
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
