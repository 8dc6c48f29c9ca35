"""Mistakes of an application are reported in a sentence, by the call that makes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ottla.client.admin import Admin
from ottla.client.administration.topic_requests import NewTopic
from ottla.client.cluster.config_requests import ResourceType
from ottla.client.consumer import Consumer
from ottla.client.frames import aread_arrow
from ottla.client.process.errors import TransactionMisuse
from ottla.client.producer import Producer
from ottla.protocol.apis import ApiKey
from ottla.protocol.ids import TopicPartition
from ottla.wire.backoff import Backoff
from ottla.wire.errors import ClientClosed, RequestRefused

if TYPE_CHECKING:
    from tests.client.support.toy_broker import ToyCluster


@pytest.mark.parametrize("kind", [Producer, Consumer])
async def test_a_client_starts_once(toy: ToyCluster, kind: type[Producer] | type[Consumer]) -> None:
    """One that was closed has no connections to come back to."""
    client = kind(toy.bootstrap)
    async with client:
        with pytest.raises(ClientClosed, match="starts once: make another"):
            await client.start()
    with pytest.raises(ClientClosed, match="starts once: make another"):
        await client.start()


async def test_a_client_that_is_not_started_says_how(toy: ToyCluster) -> None:
    """A closed client says that it is closed, started or not."""
    producer = Producer(toy.bootstrap)
    with pytest.raises(ClientClosed, match=r"not started: use it under .* or call start\(\)"):
        await producer.send("t", b"x")
    await producer.close()
    with pytest.raises(ClientClosed, match="the producer is closed"):
        await producer.send("t", b"x")


async def test_an_unknown_topic_says_what_to_do(toy: ToyCluster) -> None:
    """Users of other clients expect that sending makes a topic."""
    async with Producer(toy.bootstrap) as producer:
        with pytest.raises(
            RequestRefused, match=r"create it, or have .* by allow_auto_create=True"
        ):
            await producer.send("nowhere", b"x")


async def test_a_topic_is_called_by_a_text(toy: ToyCluster) -> None:
    """Bytes came out as a complaint about a request."""
    wrong: Any = b"t"
    async with Producer(toy.bootstrap) as producer, Consumer(toy.bootstrap, group_id="g") as reader:
        with pytest.raises(TypeError, match="a topic is called by a text, not b't'"):
            await producer.send(wrong, b"x")
        with pytest.raises(TypeError, match="a topic is called by a text, not b't'"):
            await reader.subscribe([wrong])


async def test_partitions_to_assign_are_pairs(toy: ToyCluster) -> None:
    """A topic of two letters was taken for topic and partition."""
    wrong: Any = ["ab"]
    async with Consumer(toy.bootstrap) as consumer:
        with pytest.raises(TypeError, match="a partition is a topic and a number, not 'ab'"):
            consumer.assign(wrong)


async def test_transactions_begin_with_their_initialization(toy: ToyCluster) -> None:
    """Kafka's clients need it as well, so it is forgotten as often."""
    async with Producer(toy.bootstrap, transactional_id="t") as producer:
        with pytest.raises(TransactionMisuse, match=r"call init_transactions\(\) first"):
            await producer.begin_transaction()


async def test_topics_to_create_are_new_topics(toy: ToyCluster) -> None:
    """Names alone, or one topic in place of a list of them, ended in an AttributeError."""
    wrong: Any = ["t"]
    async with Admin(toy.bootstrap) as admin:
        with pytest.raises(TypeError, match="a topic to create is a NewTopic, not 't'"):
            await admin.create_topics(wrong)
        wrong = NewTopic("t")
        with pytest.raises(TypeError, match="is a NewTopic, not 't'"):
            await admin.create_topics(wrong)


async def test_an_unknown_broker_is_named(toy: ToyCluster) -> None:
    """A KeyError would not help the caller."""
    async with Admin(toy.bootstrap) as admin:
        with pytest.raises(RequestRefused, match="there is no broker 9, only 1"):
            await admin.describe_configs(ResourceType.BROKER, "9")


@pytest.mark.parametrize("start", [1.5, True, b"earliest"])
async def test_a_place_in_a_topic_is_checked_before_it_is_asked_for(
    toy: ToyCluster, start: Any
) -> None:
    """A consumer stopped with a traceback when its first request could not be written."""
    toy.add_topic("t")
    with pytest.raises(TypeError, match="is no place in a topic"):
        await aread_arrow("t", bootstrap_servers=toy.bootstrap, start=start)


async def test_an_isolation_that_is_none_is_answered_with_those_that_are(toy: ToyCluster) -> None:
    """The same holds for functions that take the isolation as an argument."""
    wrong: Any = "read_commited"
    with pytest.raises(ValueError, match="did you mean 'read_committed'"):
        await aread_arrow("t", bootstrap_servers=toy.bootstrap, isolation=wrong)


async def test_a_topic_to_read_that_is_not_there_is_told_once(
    toy: ToyCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """A reader waits for a topic that may be created later; for a mistyped name it would wait for
    ever."""
    toy.add_topic("t")
    wanted = [TopicPartition("nowhere", 0), TopicPartition("t", 3)]
    async with Consumer(toy.bootstrap, retry_backoff=Backoff(1, 5)) as consumer:
        consumer.assign(wanted)
        while toy.counts()[ApiKey.METADATA] < 6:
            await consumer.poll(20)

    told = [record.getMessage() for record in caplog.records if "waits for it" in record.message]
    assert told == [
        "topic 'nowhere' does not exist; the consumer waits for it",
        "topic 't' has no partition 3, only 1 counted from 0; the consumer waits for it",
    ]
