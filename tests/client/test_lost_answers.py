"""What becomes of records whose acknowledgement is lost, at each level of promise."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import pytest

import ottla
from ottla import TopicPartition
from tests.client.support.sites import read_all

if TYPE_CHECKING:
    from collections.abc import Iterator

COUNT = 100


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.Cluster]:
    """One broker for all of them."""
    with ottla.Cluster() as made:
        yield made


async def write(cluster: ottla.Cluster, topic: str, producer: ottla.Producer) -> set[bytes]:
    """Send one record after the other; the answer to every tenth request is lost. Returns the
    records that were acknowledged."""
    cluster.create_topic(topic, 1)
    await (await producer.send(topic, b"first", partition=0))
    acknowledged = {b"first"}
    for number in range(COUNT):
        value = b"%d" % number
        if number % 10 == 9:
            await asyncio.to_thread(cluster.faults.lose_reply, "PRODUCE")
        try:
            await (await producer.send(topic, value, partition=0))
        except ottla.ClientError:
            continue
        acknowledged.add(value)
    return acknowledged


@pytest.mark.requirement("ARC-14", "ARC-17")
async def test_idempotent_records_are_stored_once_though_every_tenth_answer_is_lost(
    cluster: ottla.Cluster,
) -> None:
    """The producer repeats the batch, and the broker knows it by its sequence number."""
    async with ottla.Producer(cluster.bootstrap_servers, linger_ms=0) as producer:
        acknowledged = await write(cluster, "once", producer)
    found = await read_all(cluster.bootstrap_servers, TopicPartition("once", 0))

    assert found == [b"first", *(b"%d" % number for number in range(COUNT))]
    assert acknowledged == {*found}


@pytest.mark.requirement("ARC-14")
async def test_acknowledged_records_are_stored_at_least_once_without_idempotence(
    cluster: ottla.Cluster,
) -> None:
    """A repetition after a lost answer is a second record, which is the price."""
    async with ottla.Producer(
        cluster.bootstrap_servers, linger_ms=0, acks="all", idempotent=False
    ) as producer:
        acknowledged = await write(cluster, "at-least", producer)
    found = Counter(await read_all(cluster.bootstrap_servers, TopicPartition("at-least", 0)))

    assert acknowledged == {b"first", *(b"%d" % number for number in range(COUNT))}
    assert {*found} == acknowledged
    assert {value for value, count in found.items() if count > 1} == {
        b"%d" % number for number in range(9, COUNT, 10)
    }


@pytest.mark.requirement("ARC-14", "PRD-26")
async def test_records_without_acknowledgement_are_stored_at_most_once(
    cluster: ottla.Cluster,
) -> None:
    """No answer is owed, so the producer does not notice the connections that end: it repeats
    nothing, and what was on its way may be missing."""
    async with ottla.Producer(cluster.bootstrap_servers, linger_ms=0, acks=0) as producer:
        await write(cluster, "at-most", producer)
        await producer.flush()
    async with ottla.Producer(cluster.bootstrap_servers) as last:
        await (await last.send("at-most", b"last", partition=0))
    found = Counter(await read_all(cluster.bootstrap_servers, TopicPartition("at-most", 0)))

    assert {*found.values()} == {1}
    assert len(found) > COUNT // 2
