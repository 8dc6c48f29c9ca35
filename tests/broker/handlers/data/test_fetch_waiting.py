"""How long a fetch waits: the specification's own limits, measured in virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.broker.support.requests import TOPIC, batch, create, fetch, produced
from tests.support.virtual_time import elapsed_ms, in_virtual_time, virtual_broker

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ottla.protocol.ports import Ports
    from tests.support.raw_client import RawClient

# A wait that nothing ends, and what the specification calls "at once".
LONG_MS, AT_ONCE_MS = 60_000, 50.0
# A fetch that waits is answered this much after its time at the latest (NET-26).
SLACK_MS = 100.0
# With a client id a request may take the short way, without one it takes the long way.
BOTH_WAYS = pytest.mark.parametrize("client_id", ["raw", None])


def asked(story: Callable[[RawClient], Coroutine[Any, Any, Any]]) -> Any:
    """What the story returns, told to a broker with the topic ``t`` of two partitions."""

    async def with_broker(ports: Ports) -> Any:
        async with virtual_broker(ports) as brokers, brokers.connect() as client:
            await create(client, partitions=2)
            return await story(client)

    return in_virtual_time(with_broker)


async def timed(
    client: RawClient, request: FetchRequest, client_id: str | None = "raw"
) -> tuple[Any, float]:
    """The second of two equal fetches, for the first one of a version prepares the short way; and
    how long it took, in milliseconds."""
    client.send(12, fetch(0, max_wait_ms=0), client_id)
    await client.answer(12, request)
    started = elapsed_ms()
    client.send(12, request, client_id)
    return await client.answer(12, request), elapsed_ms() - started


def of_partitions(*indexes: int, **more: Any) -> FetchRequest:
    """A fetch from offset 0 of these partitions."""
    wanted = [
        FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
        for index in indexes
    ]
    return FetchRequest(
        topics=[FetchTopic(topic=TOPIC, partitions=wanted)], max_bytes=1 << 20, **more
    )


@pytest.mark.requirement("NET-22")
@BOTH_WAYS
def test_without_a_wait_it_answers_at_once(client_id: str | None) -> None:
    """max_wait=0 is how a client asks whether there is anything."""

    async def story(client: RawClient) -> tuple[Any, float]:
        return await timed(client, fetch(0, max_wait_ms=0), client_id)

    answer, waited_ms = asked(story)

    part = answer.responses[0].partitions[0]
    assert (part.error_code, bytes(part.records)) == (ErrorCode.NONE, b"")
    assert waited_ms < AT_ONCE_MS


@pytest.mark.requirement("NET-23")
def test_without_partitions_it_answers_at_once() -> None:
    """There is nothing to wait for."""

    async def story(client: RawClient) -> tuple[Any, float]:
        return await timed(client, FetchRequest(max_wait_ms=LONG_MS, min_bytes=1))

    answer, waited_ms = asked(story)

    assert answer.responses == []
    assert waited_ms < AT_ONCE_MS


@pytest.mark.requirement("NET-24")
@BOTH_WAYS
def test_with_one_record_and_a_minimum_of_one_byte_it_answers_at_once(
    client_id: str | None,
) -> None:
    """Whatever max_wait says."""

    async def story(client: RawClient) -> tuple[Any, float]:
        await produced(client, batch(b"x"))
        return await timed(client, fetch(0, max_wait_ms=LONG_MS, min_bytes=1), client_id)

    answer, waited_ms = asked(story)

    assert b"x" in bytes(answer.responses[0].partitions[0].records)
    assert waited_ms < AT_ONCE_MS


@pytest.mark.requirement("NET-25", "LOG-16")
@BOTH_WAYS
def test_with_an_error_it_answers_at_once(client_id: str | None) -> None:
    """The client must reset its position now, not when the wait is over."""

    async def story(client: RawClient) -> tuple[Any, float]:
        return await timed(client, fetch(100, max_wait_ms=LONG_MS, min_bytes=1), client_id)

    answer, waited_ms = asked(story)

    assert answer.responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert waited_ms < AT_ONCE_MS


@pytest.mark.requirement("NET-25")
def test_an_error_of_one_partition_answers_for_the_others_at_once() -> None:
    """The other partition has nothing, and would wait for a minute by itself."""

    async def story(client: RawClient) -> tuple[Any, float]:
        request = of_partitions(0, max_wait_ms=LONG_MS, min_bytes=1)
        request.topics += fetch(0, topic="missing").topics
        return await timed(client, request)

    answer, waited_ms = asked(story)

    assert [topic.partitions[0].error_code for topic in answer.responses] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert waited_ms < AT_ONCE_MS


@pytest.mark.requirement("NET-19")
@pytest.mark.parametrize("min_bytes", [1, 1_000_000])
def test_every_partition_is_read_before_it_is_decided_whether_to_wait(min_bytes: int) -> None:
    """The first partition alone would be enough for a byte, and the last one's error ends the wait
    for a million: either way the answer has the records of all."""

    async def story(client: RawClient) -> tuple[Any, float]:
        await produced(client, batch(b"first"))
        await produced(client, batch(b"second"), partition=1)
        request = of_partitions(0, 1, max_wait_ms=LONG_MS, min_bytes=min_bytes)
        request.topics += fetch(0, topic="missing").topics
        return await timed(client, request)

    answer, waited_ms = asked(story)

    there, missing = answer.responses
    assert b"first" in bytes(there.partitions[0].records)
    assert b"second" in bytes(there.partitions[1].records)
    assert [one.high_watermark for one in there.partitions] == [1, 1]
    assert missing.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert waited_ms < AT_ONCE_MS


@pytest.mark.requirement("NET-26")
@BOTH_WAYS
def test_otherwise_it_waits_for_its_time(client_id: str | None) -> None:
    """Never less, or clients would poll; not much more, or they would take the broker for dead."""

    async def story(client: RawClient) -> tuple[Any, float]:
        await produced(client, batch(b"x"))
        return await timed(client, fetch(0, max_wait_ms=500, min_bytes=1_000_000), client_id)

    answer, waited_ms = asked(story)

    assert 500 <= waited_ms <= 500 + SLACK_MS
    assert b"x" in bytes(answer.responses[0].partitions[0].records)


@pytest.mark.requirement("NET-26")
@BOTH_WAYS
def test_enough_bytes_end_the_wait(client_id: str | None) -> None:
    """A first record is not enough, the second one is: the answer comes with it."""

    async def story(ports: Ports) -> tuple[Any, float]:
        async with (
            virtual_broker(ports) as brokers,
            brokers.connect() as reader,
            brokers.connect() as writer,
        ):
            await create(writer)
            one = batch(b"x" * 1_000)
            request = fetch(0, max_wait_ms=LONG_MS, min_bytes=len(one) + 1)
            reader.send(12, request, client_id)
            await ports.clock.sleep(300)
            await produced(writer, one)
            await ports.clock.sleep(300)
            waiting = brokers[1].parts.shared.waiting.count
            started = elapsed_ms()
            await produced(writer, one)
            answer = await reader.answer(12, request)
            assert waiting == 1
            return answer, elapsed_ms() - started

    answer, waited_ms = in_virtual_time(story)

    assert len(bytes(answer.responses[0].partitions[0].records)) > 2_000
    assert waited_ms < AT_ONCE_MS


@pytest.mark.requirement("NET-21")
def test_the_minimum_counts_the_bytes_of_all_partitions() -> None:
    """Two partitions with half of it each are enough; one of them alone is not."""

    async def story(client: RawClient) -> tuple[float, float]:
        one = batch(b"x" * 500)
        for index in (0, 1):
            await produced(client, one, partition=index)
        limits = {"max_wait_ms": 2_000, "min_bytes": len(one) + 1}
        _, both_ms = await timed(client, of_partitions(0, 1, **limits))
        _, alone_ms = await timed(client, of_partitions(0, **limits))
        return both_ms, alone_ms

    both_ms, alone_ms = asked(story)

    assert both_ms < AT_ONCE_MS
    assert 2_000 <= alone_ms <= 2_000 + SLACK_MS
