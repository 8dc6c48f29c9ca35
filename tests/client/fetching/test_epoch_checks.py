"""How a consumer checks its position with OffsetForLeaderEpoch after an election (KIP-320)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.client.consumer import Consumer
from ottla.client.process.errors import LogTruncated, NoOffset
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from tests.client.support.toy_broker import Fate, ToyCluster, ToyTopic
from tests.client.test_consumer import FIRST, config, fill, read
from tests.client.test_late_answers import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.client.support.toy_broker import Seen


@pytest.fixture
async def topic(toy: ToyCluster) -> ToyTopic:
    """A topic with two records."""
    topic = toy.add_topic("t")
    fill(topic, [b"0", b"1"])
    return topic


def elect(topic: ToyTopic, consumer: Consumer) -> None:
    """Raise the leader epoch and make the consumer refresh its metadata."""
    topic.partitions[0].leader_epoch += 1
    consumer._cluster.mark_stale()
    consumer._fetcher.wake()


def first_answers(*fates: Fate | ErrorCode) -> Callable[[Seen], Fate | ErrorCode | None]:
    """Answers to the first epoch requests; later ones are answered correctly."""
    left = list(fates)

    def judge(seen: Seen) -> Fate | ErrorCode | None:
        if seen.api_key is ApiKey.OFFSET_FOR_LEADER_EPOCH and left:
            return left.pop(0)
        return None

    return judge


@pytest.mark.parametrize(
    "fate",
    [
        Fate.DROP_BEFORE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        # The request is not allowed, or fails: the fetch will report the error.
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.UNSUPPORTED_VERSION,
    ],
)
async def test_a_question_that_fails_holds_nothing_up_for_good(
    toy: ToyCluster, topic: ToyTopic, fate: Fate | ErrorCode
) -> None:
    """Fetching waits for the answer, so the request is retried or skipped."""
    async with Consumer(toy.bootstrap, config(offset_reset="none")) as consumer:
        consumer.assign([FIRST])
        consumer.seek(FIRST, 0)
        await read(consumer, 2)
        toy.judge = first_answers(fate, fate)
        elect(topic, consumer)
        fill(topic, [b"2"])

        assert [record.value for record in await read(consumer, 1)] == [b"2"]


async def test_a_broker_that_cannot_be_asked_is_fetched_from(
    toy: ToyCluster, topic: ToyTopic
) -> None:
    """Before version 3 only brokers may ask."""
    toy.versions[ApiKey.OFFSET_FOR_LEADER_EPOCH] = (0, 2)
    async with Consumer(toy.bootstrap, config(offset_reset="none")) as consumer:
        consumer.assign([FIRST])
        consumer.seek(FIRST, 0)
        await read(consumer, 2)
        elect(topic, consumer)
        fill(topic, [b"2"])

        assert [record.value for record in await read(consumer, 1)] == [b"2"]

    assert toy.counts()[ApiKey.OFFSET_FOR_LEADER_EPOCH] == 0


async def test_a_partition_that_was_left_meanwhile_hears_nothing_of_the_answer(
    toy: ToyCluster, topic: ToyTopic
) -> None:
    """After a seek or a new assignment, an answer to the earlier request must not count."""
    topic.partitions[0].epoch_ends[0] = 1
    async with Consumer(toy.bootstrap, config(offset_reset="none")) as consumer:
        consumer.assign([FIRST])
        consumer.seek(FIRST, 0)
        await read(consumer, 2)
        toy.judge = first_answers(Fate.SWALLOW)
        elect(topic, consumer)
        await until(lambda: toy.counts()[ApiKey.OFFSET_FOR_LEADER_EPOCH] > 0)
        consumer.assign([])
        consumer.assign([FIRST])
        consumer.seek(FIRST, 1)
        toy.nodes[1].drop_connections()

        assert [record.value for record in await read(consumer, 1)] == [b"1"]


async def test_a_paused_partition_is_checked_when_it_is_resumed(
    toy: ToyCluster, topic: ToyTopic
) -> None:
    """A paused partition is not fetched, and none of its records may be skipped after the
    resume."""
    async with Consumer(toy.bootstrap, config(offset_reset="none")) as consumer:
        consumer.assign([FIRST])
        consumer.seek(FIRST, 0)
        await read(consumer, 2)
        consumer.pause(FIRST)
        topic.partitions[0].epoch_ends[0] = 1
        elect(topic, consumer)
        assert await consumer.poll(50) == []

        consumer.resume(FIRST)
        with pytest.raises(LogTruncated):
            await read(consumer, 1)


@pytest.mark.parametrize("policy", ["earliest", "none"])
async def test_a_topic_that_was_made_again_is_not_read_from_the_middle(
    toy: ToyCluster, topic: ToyTopic, policy: str
) -> None:
    """Its epochs start over, so they prove nothing; an old offset is meaningless in the new
    topic."""
    topic.partitions[0].leader_epoch = 3
    async with Consumer(toy.bootstrap, config(offset_reset=policy)) as consumer:
        consumer.assign([FIRST])
        consumer.seek(FIRST, 0)
        await read(consumer, 2)
        new = toy.add_topic("t")
        new.topic_id = b"another topic id"
        fill(new, [b"a", b"b", b"c", b"d"])
        elect(new, consumer)

        if policy == "none":
            with pytest.raises(NoOffset):
                await read(consumer, 1)
            consumer.seek(FIRST, 3)
            assert [record.value for record in await read(consumer, 1)] == [b"d"]
        else:
            values = [record.value for record in await read(consumer, 4)]
            assert values == [b"a", b"b", b"c", b"d"]
