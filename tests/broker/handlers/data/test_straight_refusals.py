"""What the short paths of produce and fetch must not let through: both paths answer alike.

A request with a client id takes the short path from the second one of its version on, if it can;
one without takes the long path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ottla.broker.authorization.authorizer import Authorizer
from ottla.broker.coordinating.internal_topics import OFFSETS_TOPIC
from ottla.protocol.acls import AclResourceType, Operation
from ottla.protocol.errors import ErrorCode
from tests.broker.handlers.data.test_disk_faults import COLD, with_faults
from tests.broker.support.groups import coordinated
from tests.broker.support.requests import batch, create, fetch, name_by_id, produce
from tests.support.in_process import running_broker
from tests.support.virtual_time import in_virtual_time, virtual_broker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ottla.broker.engine.context import RequestCaller
    from ottla.broker.server.broker import Broker
    from ottla.protocol.ports import Ports
    from tests.support.raw_client import RawClient

    Story = Callable[[RawClient, Broker], Awaitable[Any]]

BOTH_WAYS = pytest.mark.parametrize("client_id", ["raw", None])


class ClosedTo(Authorizer):
    """Allows everything but one operation on topics."""

    def __init__(self, closed: Operation) -> None:
        self._closed = closed

    def is_allowed(
        self, caller: RequestCaller, operation: Operation, resource: AclResourceType, name: str
    ) -> bool:
        return operation is not self._closed


def told(story: Story, settings: dict[str, str] | None = None) -> Any:
    """What the story returns, told to a broker with the topic ``t``, which has one record."""

    async def with_broker(ports: Ports) -> Any:
        async with virtual_broker(ports, settings) as brokers, brokers.connect() as client:
            await create(client)
            await put(client, produce(batch(b"x" * 600)))
            return await story(client, brokers[1])

    return in_virtual_time(with_broker)


async def put(client: RawClient, request: Any, client_id: str | None = "raw") -> Any:
    """Produce, and return the partition's answer."""
    client.send(9, request, client_id)
    return (await client.answer(9, request)).responses[0].partition_responses[0]


async def got(
    client: RawClient, request: Any, client_id: str | None = "raw", version: int = 12
) -> Any:
    """Fetch, and return the partition's answer."""
    client.send(version, request, client_id)
    return (await client.answer(version, request)).responses[0].partitions[0]


def close_door(broker: Broker, closed: Operation) -> None:
    """Refuses this operation on all topics from now on."""
    broker.requests.dispatcher._services.authorizer = ClosedTo(closed)


@BOTH_WAYS
def test_acks_other_than_the_three_are_refused(client_id: str | None) -> None:
    """Two acknowledgements is nothing that a broker could promise."""

    async def story(client: RawClient, _: Broker) -> tuple[Any, Any]:
        refused = await put(client, produce(batch(b"y"), acks=2), client_id)
        return refused, await got(client, fetch(0))

    refused, read = told(story)

    assert (refused.error_code, refused.base_offset) == (ErrorCode.INVALID_REQUIRED_ACKS, -1)
    assert read.high_watermark == 1


@BOTH_WAYS
def test_a_producer_that_may_not_write_is_refused(client_id: str | None) -> None:
    """The short path must authorize the producer too, not only check its client id."""

    async def story(client: RawClient, broker: Broker) -> tuple[Any, Any]:
        close_door(broker, Operation.WRITE)
        refused = await put(client, produce(batch(b"y")), client_id)
        return refused, await got(client, fetch(0))

    refused, read = told(story)

    assert refused.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert read.high_watermark == 1


@BOTH_WAYS
def test_no_client_writes_into_an_internal_topic(client_id: str | None) -> None:
    """A record that no coordinator wrote would be read as a commit at the next start."""

    async def story(client: RawClient, broker: Broker) -> tuple[Any, int]:
        await coordinated(client)
        found = [one for one in broker.partitions if one.partition.topic == OFFSETS_TOPIC]
        request = produce(batch(b"y"), topic=OFFSETS_TOPIC, partition=found[0].partition.partition)
        refused = await put(client, request, client_id)
        return refused, found[0].log.log_end_offset

    refused, log_end_offset = told(story, {"offsets.topic.num.partitions": "1"})

    assert refused.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert log_end_offset == 0


@BOTH_WAYS
def test_a_consumer_that_may_not_read_is_refused(client_id: str | None) -> None:
    """The short path must authorize the consumer too, not only check its client id."""

    async def story(client: RawClient, broker: Broker) -> Any:
        await got(client, fetch(0))
        close_door(broker, Operation.READ)
        return await got(client, fetch(0), client_id)

    refused = told(story)

    assert refused.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert bytes(refused.records) == b""


@BOTH_WAYS
def test_the_broker_limits_what_a_fetch_returns(client_id: str | None) -> None:
    """``fetch.max.bytes`` is the operator's: a client that asks for a gigabyte gets no more."""

    async def story(client: RawClient, _: Broker) -> Any:
        await put(client, produce(batch(b"y" * 600)))
        await got(client, fetch(0, max_bytes=1))
        return await got(client, fetch(0, max_bytes=1 << 30, partition_bytes=1 << 30), client_id)

    read = told(story, {"fetch.max.bytes": "1024"})

    assert read.high_watermark == 2
    assert 600 < len(bytes(read.records)) <= 1024


@BOTH_WAYS
async def test_a_topic_that_took_over_the_name_is_not_read(client_id: str | None) -> None:
    """A client that asks by id must never read what was written under the name later."""
    async with running_broker() as running, running.connect() as client:
        await create(client)
        await put(client, produce(batch(b"x")))
        request = fetch(0)
        await name_by_id(client, request)
        before = await got(client, request, version=17)
        partition = running.broker.partitions.find("t", 0)
        assert partition is not None
        partition.log.topic_id = b"another topic id"
        after = await got(client, request, client_id, version=17)

    assert b"x" in bytes(before.records)
    assert after.error_code == ErrorCode.INCONSISTENT_TOPIC_ID
    assert bytes(after.records) == b""


@BOTH_WAYS
async def test_records_that_are_not_in_memory_are_read_by_a_worker(client_id: str | None) -> None:
    """The event loop would stop for as long as the disk takes, and all connections with it."""
    async with with_faults() as (running, client, plan):
        await create(client, segment_bytes="400")
        for _ in range(3):
            await put(client, produce(batch(b"x" * 150)))
        await got(client, fetch(0))
        reads = running.broker.requests.dispatcher._services.reads
        warm = reads.cold_read_count
        plan.add(COLD)
        read = await got(client, fetch(0), client_id)

    assert len(bytes(read.records)) > 150
    assert (warm, reads.cold_read_count) == (0, 1)
