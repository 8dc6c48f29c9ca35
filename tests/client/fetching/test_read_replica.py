"""Reading from a replica that is nearer than the leader (KIP-392)."""

from __future__ import annotations

import pytest

from ottla.client.consumer import Consumer
from ottla.client.fetching.positions import Positions
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from tests.client.support.toy_broker import Fate, Seen, ToyCluster, ToyTopic
from tests.client.test_consumer import FIRST, config, fill, read
from tests.client.test_late_answers import Delay, until

LEADER, FOLLOWER = 1, 2


@pytest.fixture
async def near(toy: ToyCluster) -> ToyTopic:
    """A topic whose leader sends consumers to its follower, and gives them nothing."""
    toy.start(2)
    topic = toy.add_topic("t")
    topic.partitions[0].read_replica = FOLLOWER
    fill(topic, [b"0", b"1"])
    return topic


def asked(toy: ToyCluster) -> list[int]:
    """Ids of the nodes that were fetched from, in order."""
    return [seen.node_id for seen in toy.seen if seen.api_key is ApiKey.FETCH]


async def test_the_replica_that_the_leader_names_is_read_from(
    toy: ToyCluster, near: ToyTopic
) -> None:
    """A consumer that kept asking the leader would wait for ever."""
    async with Consumer(toy.bootstrap, config(), rack="b") as consumer:
        consumer.assign([FIRST])
        assert [record.value for record in await read(consumer, 2)] == [b"0", b"1"]
        fill(near, [b"2"])
        assert [record.value for record in await read(consumer, 1)] == [b"2"]

    assert asked(toy)[0] == LEADER
    assert set(asked(toy)[1:]) == {FOLLOWER}


@pytest.mark.parametrize(
    "fate", [Fate.DROP_BEFORE, ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.NOT_LEADER_OR_FOLLOWER]
)
async def test_where_the_replica_fails_the_leader_is_asked(
    toy: ToyCluster, near: ToyTopic, fate: Fate | ErrorCode
) -> None:
    """A follower that lags does not hold an offset yet, which is no reason to begin elsewhere."""

    def judge(seen: Seen) -> Fate | ErrorCode | None:
        if seen.api_key is not ApiKey.FETCH or seen.node_id != FOLLOWER:
            return None
        near.partitions[0].read_replica = None
        return fate

    toy.judge = judge
    async with Consumer(toy.bootstrap, config(offset_reset="latest"), rack="b") as consumer:
        consumer.assign([FIRST])
        consumer.seek(FIRST, 0)

        assert [record.value for record in await read(consumer, 2)] == [b"0", b"1"]

    assert asked(toy)[:3] == [LEADER, FOLLOWER, LEADER]


@pytest.mark.parametrize(
    "fate", [Fate.DROP_BEFORE, ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.NOT_LEADER_OR_FOLLOWER]
)
async def test_a_leader_that_insists_on_a_broken_replica_is_read_itself(
    toy: ToyCluster, near: ToyTopic, fate: Fate | ErrorCode
) -> None:
    """The leader may notice the defect late; the consumer must not return to the replica for
    ever."""

    def judge(seen: Seen) -> Fate | ErrorCode | None:
        is_of_replica = seen.api_key is ApiKey.FETCH and seen.node_id == FOLLOWER
        return fate if is_of_replica else None

    toy.judge = judge
    async with Consumer(toy.bootstrap, config(offset_reset="latest"), rack="b") as consumer:
        consumer.assign([FIRST])
        consumer.seek(FIRST, 0)
        assert [record.value for record in await read(consumer, 2)] == [b"0", b"1"]
        fill(near, [b"2"])
        assert [record.value for record in await read(consumer, 1)] == [b"2"]

    assert asked(toy)[:3] == [LEADER, FOLLOWER, LEADER]
    assert asked(toy).count(FOLLOWER) == 1


async def test_a_replica_that_cannot_be_reached_is_done_without(
    toy: ToyCluster, near: ToyTopic
) -> None:
    """The replica is alive for its leader and unreachable for the consumer."""
    toy.nodes[FOLLOWER].close()
    async with Consumer(toy.bootstrap, config(), rack="b") as consumer:
        consumer.assign([FIRST])
        assert [record.value for record in await read(consumer, 2)] == [b"0", b"1"]

    assert set(asked(toy)) == {LEADER}


async def test_an_unknown_replica_is_done_without(toy: ToyCluster, near: ToyTopic) -> None:
    """An immediate retry would get the same answer from the leader, in a busy loop."""
    near.partitions[0].read_replica = 9
    async with Consumer(toy.bootstrap, config(), rack="b") as consumer:
        consumer.assign([FIRST])
        assert [record.value for record in await read(consumer, 2)] == [b"0", b"1"]


async def test_a_replica_that_is_late_does_not_reset_the_position(
    toy: ToyCluster, near: ToyTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The replica lags; the leader, which is asked next, has all records."""

    def judge(seen: Seen) -> ErrorCode | None:
        is_of_replica = seen.api_key is ApiKey.FETCH and seen.node_id == FOLLOWER
        return ErrorCode.OFFSET_OUT_OF_RANGE if is_of_replica and not delay.then else None

    delay = Delay(monkeypatch, toy, FOLLOWER)
    async with Consumer(toy.bootstrap, config(), rack="b") as consumer:
        consumer.assign([FIRST])
        await read(consumer, 2)
        toy.judge = judge
        delay.is_on, delay.then = True, lambda: None
        await until(lambda: delay.count > 0)
        near.partitions[0].read_replica = None
        consumer._fetcher.positions[FIRST].read_replica_until_ms = 0.0
        consumer._fetcher.wake()
        await until(lambda: asked(toy)[-1] == LEADER)

        await delay.release()
        fill(near, [b"2"])

        assert [record.value for record in await read(consumer, 1)] == [b"2"]


def test_what_the_leader_said_ages() -> None:
    """Only the leader knows whether the replica is still in step, and near."""
    positions = Positions(100, 1_000)
    positions.assign([FIRST])
    place = positions[FIRST]
    place.read_replica, place.read_replica_until_ms = FOLLOWER, 500.0

    assert place.source(LEADER, {LEADER, FOLLOWER}, 499.0) == FOLLOWER
    assert place.source(LEADER, {LEADER, FOLLOWER}, 500.0) == LEADER
    place.read_replica, place.read_replica_until_ms = FOLLOWER, 900.0
    assert place.source(LEADER, {LEADER}, 501.0) == LEADER
    assert place.read_replica is None
