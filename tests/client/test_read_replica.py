"""Reading from a replica that is nearer than the leader (KIP-392)."""

from __future__ import annotations

import pytest

from ottla.client.consumer import Consumer
from ottla.client.state.positions import Positions
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from tests.client.test_consumer import FIRST, config, fill, read
from tests.client.toy_broker import Fate, Seen, ToyCluster, ToyTopic

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
    """Who was fetched from, in order."""
    return [seen.node_id for seen in toy.seen if seen.api_key is ApiKey.FETCH]


async def test_the_replica_that_the_leader_names_is_read_from(
    toy: ToyCluster, near: ToyTopic
) -> None:
    """Whoever went on asking the leader would wait for ever."""
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
