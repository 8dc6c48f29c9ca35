"""A call's timeout holds whatever it waits for: unresponsive hosts and unanswered requests."""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from ottla import Admin, Consumer, Producer, TopicPartition
from ottla.client.cluster.cluster import ClusterClient
from ottla.client.cluster.routing import Router
from ottla.client.process.environment import real_environment
from ottla.client.sending.transaction_requests import INIT_PRODUCER_ID
from ottla.client.settings.config import ClientConfig, parse_addresses
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.backoff import Backoff
from ottla.wire.clock import RealClock
from ottla.wire.errors import (
    BrokerUnreachable,
    ClientClosed,
    ClientError,
    RequestRefused,
    RequestTimedOut,
    TransportError,
)
from ottla.wire.pool import Pool
from ottla.wire.real import RealNet, RealRandom
from tests.client.support.silent import SilentNode
from tests.client.support.toy_broker import Fate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.client.support.toy_broker import Seen, ToyCluster

# Enough on a busy machine for those who answer.
CALL_MS = 1_000
# Far below what a connection or a request may take by itself, far above what a machine needs.
PATIENCE_MS = 5_000
KINDS = pytest.mark.parametrize("is_deaf", [True, False], ids=["deaf", "mute"])
QUICK = Backoff(1, 5)
WHERE = TopicPartition("t", 0)
CLIENTS = pytest.mark.parametrize("client", [Producer, Consumer, Admin])


@contextmanager
def in_time() -> Iterator[None]:
    began = time.monotonic()
    yield
    assert (time.monotonic() - began) * 1000 < PATIENCE_MS


@contextmanager
def silent(*, is_deaf: bool) -> Iterator[SilentNode]:
    node = SilentNode(is_deaf=is_deaf)
    yield node
    node.close()


def mute_leader(toy: ToyCluster, *, is_deaf: bool) -> SilentNode:
    """The first broker, which leads a topic, is silent; the second one is where clients begin."""
    toy.start(2)
    toy.add_topic("t", 2)
    toy.nodes[1].close()
    node = SilentNode(is_deaf=is_deaf)
    toy.nodes[1] = node  # type: ignore[assignment]
    return node


def settings(**changes: Any) -> dict[str, Any]:
    return {"call_timeout_ms": CALL_MS, "retry_backoff": QUICK, **changes}


@CLIENTS
@KINDS
async def test_a_client_starts_in_time_or_names_the_silent_host(
    client: type[Producer[Any, Any] | Consumer[Any, Any] | Admin], *, is_deaf: bool
) -> None:
    """The start used to take the connection timeout, and then that long again for the first
    answer."""
    with silent(is_deaf=is_deaf) as node, in_time():
        with pytest.raises(BrokerUnreachable, match="within the 1000 ms of the call") as failure:
            await client(str(node.address), **settings()).start()
        assert failure.value.address == node.address


@KINDS
async def test_what_a_silent_leader_is_asked_for_fails_in_time(
    toy: ToyCluster, *, is_deaf: bool
) -> None:
    """Answers of the other brokers are kept."""
    node = mute_leader(toy, is_deaf=is_deaf)
    async with Admin(str(toy.nodes[2].address), **settings()) as admin:
        with in_time():
            found = await admin.list_offsets({WHERE: -1, TopicPartition("t", 1): -1})
        with in_time():
            brokers = (await admin.describe_cluster()).brokers
            assert await admin.unreachable(brokers) == {1}
        with in_time():
            versions = await admin.brokers.api_versions()

    failure = found[WHERE]
    assert isinstance(failure, BrokerUnreachable)
    assert (failure.address, failure.was_sent) == (node.address, False)
    assert not isinstance(found[TopicPartition("t", 1)], ClientError)
    assert isinstance(versions[1], BrokerUnreachable)
    assert not isinstance(versions[2], ClientError)


@KINDS
async def test_a_consumer_of_a_silent_leader_waits_no_longer_than_it_is_told(
    toy: ToyCluster, *, is_deaf: bool
) -> None:
    """Polls, look-ups and the end."""
    mute_leader(toy, is_deaf=is_deaf)
    consumer = Consumer(str(toy.nodes[2].address), **settings(offset_reset="earliest"))
    await consumer.start()
    consumer.assign([WHERE])
    with in_time():
        assert await consumer.poll(50) == []
    with in_time(), pytest.raises(BrokerUnreachable):
        await consumer.end_offsets([WHERE])
    with in_time():
        await consumer.close()


@KINDS
async def test_a_group_with_a_silent_coordinator_is_left_in_time(
    toy: ToyCluster, *, is_deaf: bool
) -> None:
    """Neither a commit nor a look at the group holds the application up."""
    mute_leader(toy, is_deaf=is_deaf)
    more = settings(group_id="g", request_timeout_ms=1_000, fetch_wait_ms=100)
    consumer = Consumer(str(toy.nodes[2].address), **more)
    await consumer.start()
    with in_time(), pytest.raises(RequestRefused, match="Not done in time"):
        await consumer.commit({WHERE: 1})
    with in_time(), pytest.raises(TransportError):
        await consumer.committed(partitions=[WHERE])
    with in_time():
        await consumer.close()


@KINDS
async def test_a_silent_coordinator_is_not_asked_again_for_ever(
    toy: ToyCluster, *, is_deaf: bool
) -> None:
    """Calls shorter than a connection attempt would each begin a new one, though the group has
    moved long ago."""
    mute_leader(toy, is_deaf=is_deaf)
    toy.transactions.node_id = 1
    async with Admin(str(toy.nodes[2].address), **settings()) as admin:
        with in_time(), pytest.raises(TransportError):
            await admin.groups.offsets("g")
        toy.transactions.node_id = 2
        with in_time():
            assert await admin.groups.offsets("g") == {}


async def test_records_for_an_unknown_topic_fail_in_time(toy: ToyCluster) -> None:
    """The broker takes the question and says nothing."""
    async with Producer(toy.bootstrap, **settings()) as producer:
        toy.judge = lambda _: Fate.SWALLOW
        with in_time(), pytest.raises(RequestTimedOut, match="no answer to Metadata within 1000"):
            await producer.send("new", b"value")


@KINDS
async def test_a_producer_gives_a_silent_leader_its_delivery_time(
    toy: ToyCluster, *, is_deaf: bool
) -> None:
    """Flushing and closing wait for deliveries, which have an end of their own."""
    mute_leader(toy, is_deaf=is_deaf)
    more = settings(delivery_timeout_ms=400, request_timeout_ms=300, idempotent=False)
    producer = Producer(str(toy.nodes[2].address), **more)
    await producer.start()
    delivery = await producer.send("t", b"value", partition=0)
    with in_time():
        await producer.flush()
    with pytest.raises(ClientError):
        await delivery
    await producer.send("t", b"value", partition=0)
    with in_time():
        await producer.close()


# Changes, which must not be repeated.


def cluster_of(toy: ToyCluster, **changes: Any) -> ClusterClient:
    config = ClientConfig(**settings(**changes))
    return ClusterClient(real_environment(), parse_addresses(str(toy.nodes[2].address)), config)


async def change(cluster: ClusterClient) -> None:
    request = InitProducerIdRequest(None, 1000)

    def check(response: Any, _: object) -> None:
        if response.error_code:
            raise RequestRefused(ErrorCode(response.error_code))

    await Router(cluster).to_controller(INIT_PRODUCER_ID, request, check)


@KINDS
async def test_a_change_that_never_reached_the_controller_was_not_sent(
    toy: ToyCluster, *, is_deaf: bool
) -> None:
    """The error allows the caller to repeat the change."""
    node = mute_leader(toy, is_deaf=is_deaf)
    cluster = cluster_of(toy)
    await cluster.refresh()

    with in_time(), pytest.raises(BrokerUnreachable) as failure:
        await change(cluster)

    assert failure.value.address == node.address
    cluster.close()


async def test_a_change_without_an_answer_in_time_may_have_been_made(toy: ToyCluster) -> None:
    """The same holds after a refused first try; and the connection stays usable for other calls."""
    toy.start(2)
    tries: list[Seen] = []

    def judge(seen: Seen) -> Fate | ErrorCode | None:
        if seen.api_key is not ApiKey.INIT_PRODUCER_ID:
            return None
        tries.append(seen)
        return ErrorCode.NOT_CONTROLLER if len(tries) == 1 else Fate.SILENCE

    toy.judge = judge
    cluster = cluster_of(toy)
    await cluster.refresh()
    with in_time(), pytest.raises(RequestTimedOut) as failure:
        await change(cluster)

    assert (len(tries), failure.value.was_sent) == (2, True)
    connection = cluster.pool.ready(1)
    assert connection is not None
    cluster.close()


async def test_the_last_refusal_is_told_when_the_time_is_over(toy: ToyCluster) -> None:
    """Why it was tried again says more than how long."""
    toy.start(2)
    toy.judge = lambda seen: (
        ErrorCode.NOT_CONTROLLER if seen.api_key is ApiKey.INIT_PRODUCER_ID else None
    )
    # The time ends in the pause, not while the next try is under way.
    cluster = cluster_of(toy, retry_backoff=Backoff(60_000, 60_000))
    await cluster.refresh()

    with in_time(), pytest.raises(RequestRefused) as failure:
        await change(cluster)

    assert failure.value.code is ErrorCode.NOT_CONTROLLER
    cluster.close()


# What is shared.


async def test_a_caller_without_time_left_leaves_the_attempt_to_the_others(toy: ToyCluster) -> None:
    """Cancelled with its first caller it would never succeed where calls are short."""
    pool = Pool(RealNet(), RealClock(), RealRandom(), ClientConfig(reconnect_backoff=QUICK))
    pool.set_address(1, toy.nodes[1].address)
    first = asyncio.ensure_future(pool.connection(1))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])

    while pool.ready(1) is None:
        await asyncio.sleep(0.001)
    assert len(toy.nodes[1].connections) == 1
    pool.close()


async def test_all_who_wait_for_a_silent_host_fail_together() -> None:
    """The attempts used to be serial: the tenth caller waited for ten of them."""
    config = ClientConfig(connect_timeout_ms=300, reconnect_backoff=QUICK)
    pool = Pool(RealNet(), RealClock(), RealRandom(), config)
    with silent(is_deaf=False) as node, in_time():
        pool.set_address(1, node.address)
        failures = await asyncio.gather(
            *(pool.connection(1) for _ in range(50)), return_exceptions=True
        )

    assert {type(failure) for failure in failures} == {BrokerUnreachable}
    assert len({id(failure) for failure in failures}) == 50
    pool.close()


async def test_a_pool_that_is_closed_leaves_no_caller_waiting() -> None:
    """A closed pool cancels its pending connection attempts."""
    pool = Pool(RealNet(), RealClock(), RealRandom(), ClientConfig())
    with silent(is_deaf=False) as node, in_time():
        pool.set_address(1, node.address)
        waiting = asyncio.ensure_future(pool.connection(1))
        await asyncio.sleep(0.01)
        pool.close()
        with pytest.raises(ClientClosed):
            await waiting
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("ottla")]
