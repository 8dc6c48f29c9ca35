"""ListOffsets and OffsetForLeaderEpoch: offsets by name, by time and by epoch, in every version."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.broker.support.requests import NOW, batch, create, listed, produced

if TYPE_CHECKING:
    from tests.support.raw_client import RawClient


@pytest.mark.requirement("LOG-15")
@pytest.mark.parametrize("version", range(1, 11))
async def test_every_version_finds_offsets_by_name_and_time(
    client: RawClient, version: int
) -> None:
    """Versions below 4 have no place for a leader epoch, and must still be answered."""
    await create(client)
    await produced(client, batch(b"a", b"b", b"c"))

    latest = await listed(client, -1, version)
    earliest = await listed(client, -2, version)
    middle = await listed(client, NOW + 1, version)
    beyond = await listed(client, NOW + 10**9, version)

    assert [one.error_code for one in (latest, earliest, middle, beyond)] == [0, 0, 0, 0]
    assert (latest.offset, earliest.offset) == (3, 0)
    assert (middle.offset, middle.timestamp) == (1, NOW + 1)
    assert (beyond.offset, beyond.timestamp) == (-1, -1)


async def test_the_special_names_of_later_versions(client: RawClient) -> None:
    """Largest timestamp (7), earliest local (8), latest tiered (9): nothing is tiered here."""
    await create(client)
    await produced(client, batch(b"a", b"b", b"c"))

    assert (await listed(client, -3, 7)).offset == 2
    assert (await listed(client, -4, 8)).offset == 0
    assert (await listed(client, -5, 9)).offset == -1


@pytest.mark.parametrize(("timestamp", "version"), [(-3, 6), (-4, 7), (-5, 8), (-9, 9), (-6, 10)])
async def test_names_of_the_future_are_refused(
    client: RawClient, timestamp: int, version: int
) -> None:
    """One version early is not served: the client would misread the answer."""
    await create(client)

    assert (await listed(client, timestamp, version)).error_code == ErrorCode.UNSUPPORTED_VERSION


async def test_an_unknown_partition_is_said(client: RawClient) -> None:
    """Retriable with fresh metadata."""
    answer = await listed(client, -1, topic="missing")

    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", [2, 3, 4])
async def test_the_end_of_an_epoch_is_told(client: RawClient, version: int) -> None:
    """The current epoch ends at the log's end; one that never was has no end."""
    await create(client)
    await produced(client, batch(b"a", b"b"))
    epoch = (await listed(client, -1)).leader_epoch

    async def end_of(asked: int) -> tuple[int, int, int]:
        wanted = OffsetForLeaderPartition(partition=0, leader_epoch=asked)
        topics = [OffsetForLeaderTopic(topic="t", partitions=[wanted])]
        answer = await client.call(version, OffsetForLeaderEpochRequest(topics=topics))
        found = answer.topics[0].partitions[0]
        return found.error_code, found.leader_epoch, found.end_offset

    assert await end_of(epoch) == (ErrorCode.NONE, epoch, 2)
    assert await end_of(epoch + 5) == (ErrorCode.NONE, -1, -1)


@pytest.mark.requirement("IDM-02", "IDM-13")
@pytest.mark.parametrize("version", range(6))
async def test_every_version_gets_a_fresh_producer_id(client: RawClient, version: int) -> None:
    """Two requests get two ids, both with epoch 0."""
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)

    answers = [await client.call(version, request) for _ in range(2)]

    assert [(one.error_code, one.producer_epoch) for one in answers] == [(0, 0), (0, 0)]
    assert answers[0].producer_id != answers[1].producer_id
