"""Bootstrap, metadata and who is asked."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from ottla.client.cluster.cluster import ClusterClient
from ottla.client.cluster.routing import Router
from ottla.client.fetching.offsets import LIST_OFFSETS, list_offsets
from ottla.client.process.environment import real_environment
from ottla.client.settings.config import ClientConfig, Isolation, parse_address, parse_addresses
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages.list_offsets import ListOffsetsRequest
from ottla.protocol.ports import Address
from ottla.wire.backoff import Backoff
from ottla.wire.errors import BrokerUnreachable, ConnectionLost, RequestRefused, UnsupportedByBroker
from tests.client.support.toy_broker import Fate, Seen, ToyBroker, ToyTopic

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.client.support.toy_broker import ToyCluster

QUICK = Backoff(1, 5)


def cluster_of(toy: ToyCluster, **changes: Any) -> ClusterClient:
    """A client's view that has not looked yet."""
    settings = {"call_timeout_ms": 300, **changes}
    config = ClientConfig(retry_backoff=QUICK, reconnect_backoff=QUICK, **settings)
    return ClusterClient(real_environment(), parse_addresses(toy.bootstrap), config)


@pytest.mark.requirement("NET-37")
async def test_any_live_bootstrap_address_is_enough(toy: ToyCluster) -> None:
    """Some of those in a configuration file are always down."""
    toy.start(3)
    toy.nodes[1].close()
    addresses = [toy.nodes[1].address, toy.nodes[2].address]
    del toy.nodes[1]
    toy.add_topic("t", 2)
    for _ in range(5):
        cluster = cluster_of_addresses(addresses)
        cluster.follow(["t"])
        await cluster.refresh()
        assert set(cluster.metadata.brokers) == {2, 3}
        assert cluster.metadata.leader_of(TopicPartition("t", 1)) == 3
        cluster.close()


def cluster_of_addresses(addresses: list[Address]) -> ClusterClient:
    """A client that was given several addresses."""
    return ClusterClient(real_environment(), addresses, ClientConfig(reconnect_backoff=QUICK))


async def test_the_bootstrap_connection_is_kept_if_it_is_a_brokers_own(toy: ToyCluster) -> None:
    """A command line tool would otherwise connect twice for every call."""
    cluster = cluster_of(toy)
    await cluster.refresh()
    await cluster.any_connection()

    assert len(toy.nodes[1].connections) == 1
    cluster.close()


async def test_wishes_at_the_same_time_share_a_request(toy: ToyCluster) -> None:
    """A hundred producers' errors after one failover are one question."""
    toy.add_topic("t")
    cluster = cluster_of(toy)
    cluster.follow(["t"])

    await asyncio.gather(*(cluster.refresh() for _ in range(10)))

    assert toy.counts()[ApiKey.METADATA] <= 2
    cluster.close()


async def test_the_client_comes_back_after_all_brokers_have_moved(toy: ToyCluster) -> None:
    """The addresses it learnt are dead; those it was given lead to the new ones."""
    toy.start(2)
    cluster = cluster_of(toy)
    cluster.pool.set_address(7, Address("127.0.0.1", 1))
    cluster.metadata.brokers = {}
    await cluster.refresh()
    for node_id in cluster.metadata.brokers:
        cluster.pool.set_address(node_id, Address("127.0.0.1", 1))

    await cluster.refresh()

    assert cluster.pool.address_of(1) == toy.nodes[1].address
    cluster.close()


async def test_a_broker_that_goes_while_it_is_asked_costs_one_more_question(
    toy: ToyCluster,
) -> None:
    """The first contact of a client must not depend on one moment of one broker."""
    cluster = cluster_of(toy)
    toy.judge = once(Fate.DROP_BEFORE, ApiKey.METADATA)

    await cluster.refresh()

    assert set(cluster.metadata.brokers) == {1}
    cluster.close()


async def test_a_broker_that_has_left_meanwhile_is_passed_over(toy: ToyCluster) -> None:
    """While one broker fails to answer, a metadata refresh may show that the next has left."""
    toy.start(3)
    cluster = cluster_of(toy)
    await cluster.refresh()
    for node_id in (1, 2):
        toy.nodes[node_id].close()
        cluster.pool.forget(node_id)
    for _ in range(5):
        connection = await cluster.any_connection()
        assert connection.address == toy.nodes[3].address
        connection.close()
    cluster.close()


async def test_an_unknown_topic_is_refused_and_not_asked_for_again(toy: ToyCluster) -> None:
    """A mistyped name must not stay in every later request."""
    cluster = cluster_of(toy)

    with pytest.raises(RequestRefused, match="UNKNOWN_TOPIC_OR_PARTITION"):
        await cluster.topic("nothere")

    await cluster.refresh()
    assert toy.seen[-1].request.topics == []
    cluster.close()


class Late(dict[str, ToyTopic]):
    """Topics that are not known at first."""

    def get(self, name: str, default: object = None) -> Any:
        return super().get(name, default) if self.pop("unknown", None) is None else default


async def test_a_topic_that_was_just_made_becomes_known(toy: ToyCluster) -> None:
    """The topic may have been created through another broker, and metadata takes time to spread."""
    topic = toy.add_topic("young")
    toy.topics = Late(toy.topics, unknown=topic)
    cluster = cluster_of(toy, call_timeout_ms=60_000)

    assert (await cluster.topic("young")).partition_count == 1
    assert toy.counts()[ApiKey.METADATA] == 2
    cluster.close()


async def test_a_topic_that_is_being_created_is_waited_for(toy: ToyCluster) -> None:
    """With auto-creation the first answers say that it is unknown."""
    cluster = cluster_of(toy, allow_auto_create=True)
    waiting = asyncio.ensure_future(cluster.topic("t"))
    await asyncio.sleep(0.02)
    toy.add_topic("t")

    assert (await waiting).partition_count == 1
    assert all(
        seen.request.allow_auto_topic_creation
        for seen in toy.seen
        if seen.api_key is ApiKey.METADATA
    )
    cluster.close()


async def test_a_topic_is_found_when_a_broker_is_back(toy: ToyCluster) -> None:
    """A send must not fail because its topic is the first one of that name in a bad moment."""
    toy.add_topic("t")
    cluster = cluster_of(toy, call_timeout_ms=20_000)
    await cluster.refresh()
    address = toy.nodes[1].address
    toy.nodes[1].close()
    asked = asyncio.ensure_future(cluster.topic("t"))
    await asyncio.sleep(0.02)
    assert not asked.done()
    toy.nodes[1] = ToyBroker(toy, 1, address.port)

    assert (await asked).partition_count == 1
    cluster.close()


async def test_nothing_is_created_by_asking(toy: ToyCluster) -> None:
    """A typing slip in a consumer must not make a topic."""
    cluster = cluster_of(toy)
    await cluster.describe(["nothere"])

    assert not toy.seen[-1].request.allow_auto_topic_creation
    cluster.close()


FIRST = TopicPartition("t", 0)


def once(fate: Fate | ErrorCode, key: ApiKey) -> Callable[[Seen], Fate | ErrorCode | None]:
    """Give that fate to the first request of an API."""
    left = [fate]

    def judge(seen: Seen) -> Fate | ErrorCode | None:
        return left.pop() if seen.api_key is key and left else None

    return judge


@pytest.mark.parametrize(
    "fate", [Fate.DROP_BEFORE, Fate.DROP_AFTER, ErrorCode.NOT_LEADER_OR_FOLLOWER]
)
async def test_a_question_is_asked_again_after_a_loss(
    toy: ToyCluster, fate: Fate | ErrorCode
) -> None:
    """Asking twice is the same as asking once."""
    toy.add_topic("t")
    cluster = cluster_of(toy)
    toy.judge = once(fate, ApiKey.LIST_OFFSETS)

    found = await list_offsets(Router(cluster), {FIRST: -1}, Isolation.READ_UNCOMMITTED)

    assert found == {FIRST: (0, -1)}
    assert toy.counts()[ApiKey.LIST_OFFSETS] == 2
    cluster.close()


async def test_a_change_is_not_repeated_when_its_outcome_is_unknown(toy: ToyCluster) -> None:
    """The change may have been applied; only the caller can decide whether to repeat it."""
    toy.add_topic("t")
    cluster = cluster_of(toy)
    await cluster.refresh()
    toy.judge = once(Fate.DROP_AFTER, ApiKey.LIST_OFFSETS)

    with pytest.raises(ConnectionLost, match="unknown"):
        await Router(cluster).to_controller(
            LIST_OFFSETS, ListOffsetsRequest(), lambda response, connection: None
        )

    assert toy.counts()[ApiKey.LIST_OFFSETS] == 1
    cluster.close()


async def test_one_partition_that_fails_does_not_hide_the_others(toy: ToyCluster) -> None:
    """Each partition has its own result."""
    toy.add_topic("t")
    wrong = TopicPartition("t", 9)
    cluster = cluster_of(toy)

    found = await list_offsets(Router(cluster), {FIRST: -1, wrong: -1}, Isolation.READ_UNCOMMITTED)

    assert found[FIRST] == (0, -1)
    refused = found[wrong]
    assert isinstance(refused, RequestRefused)
    assert refused.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    cluster.close()


async def test_what_stands_for_no_time_is_not_asked_of_who_takes_it_for_one(
    toy: ToyCluster,
) -> None:
    """Brokers before KIP-734 answered the first record for the one of the highest timestamp."""
    toy.add_topic("t", 2)
    toy.versions[ApiKey.LIST_OFFSETS] = (1, 6)
    cluster = cluster_of(toy)

    second = TopicPartition("t", 1)
    found = await list_offsets(Router(cluster), {FIRST: -3, second: -1}, Isolation.READ_UNCOMMITTED)

    assert isinstance(found[FIRST], UnsupportedByBroker)
    assert found[second] == (0, -1)
    cluster.close()


async def test_a_cluster_that_was_never_reached_fails_at_once(toy: ToyCluster) -> None:
    """Its address is wrong, more likely than all of its brokers being down."""
    cluster = cluster_of(toy, call_timeout_ms=60_000)
    toy.close()

    with pytest.raises(BrokerUnreachable):
        await list_offsets(Router(cluster), {FIRST: -1}, Isolation.READ_UNCOMMITTED)
    cluster.close()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:9093", Address("127.0.0.1", 9093)),
        ("localhost", Address("localhost", 9092)),
        ("[::1]:9093", Address("::1", 9093)),
        ("[::1]", Address("::1", 9092)),
    ],
)
def test_addresses_are_read_as_people_write_them(text: str, expected: Address) -> None:
    """A missing port is Kafka's."""
    assert parse_address(text) == expected


@pytest.mark.parametrize("text", ["", ":9092", "host:port", "host:0", "host:65536", "::1:9092"])
def test_what_is_no_address_is_refused_with_a_sentence(text: str) -> None:
    """A connection error would name a host that the user has not typed."""
    with pytest.raises(ValueError, match="broker address"):
        parse_addresses(text)
