"""OffsetCommit 0 and OffsetFetch 0 keep positions where consumers of Kafka 0.8 have them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from tests.broker.support.requests import create
from tests.support.in_process import RunningBroker, running_broker

if TYPE_CHECKING:
    from ottla.coordinator.store.store import MetadataSession
    from tests.support.raw_client import RawClient

PATH = "/consumers/g/offsets/t/0"
LOADING = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)


def _session(running: RunningBroker) -> MetadataSession:
    lifecycle = running.broker.state.lifecycle
    assert lifecycle is not None
    return lifecycle.session


async def _commit(
    client: RawClient, offset: int, group: str = "g", metadata: str | None = None, **more: Any
) -> int:
    part = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=metadata
    )
    topic = OffsetCommitRequestTopic(name=more.pop("topic", "t"), partitions=[part])
    request = OffsetCommitRequest(group_id=group, topics=[topic])
    answer = await client.call(more.pop("version", 0), request)
    return int(answer.topics[0].partitions[0].error_code)


async def _fetch(client: RawClient, group: str = "g", version: int = 0) -> tuple[int, int]:
    topic = OffsetFetchRequestTopic(name="t", partition_indexes=[0])
    request = OffsetFetchRequest(group_id=group, topics=[topic])
    (part,) = (await client.call(version, request)).topics[0].partitions
    return int(part.error_code), int(part.committed_offset)


async def test_positions_are_in_the_store_as_digits() -> None:
    """Consumers that know no brokers write and read the same znode."""
    async with running_broker() as running, running.connect() as client:
        await create(client)
        assert await _fetch(client) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
        assert await _commit(client, 41) == ErrorCode.NONE
        assert await _commit(client, 42) == ErrorCode.NONE

        assert await _fetch(client) == (ErrorCode.NONE, 42)
        assert (await _session(running).get(PATH)).data == b"42"
        await _session(running).set(PATH, b"7")
        assert await _fetch(client) == (ErrorCode.NONE, 7)
        # What is in the store is not in __consumer_offsets, and the other way about.
        assert await _fetch(client, "other") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)


async def test_errors_are_those_of_kafka() -> None:
    """Each partition has its own."""
    async with running_broker() as running, running.connect() as client:
        await create(client)
        unknown = await _commit(client, 1, topic="missing")
        large = await _commit(client, 1, metadata="x" * 5_000)
        await _commit(client, 1)
        await _session(running).set(PATH, b"no digits")

        assert unknown == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert large == ErrorCode.OFFSET_METADATA_TOO_LARGE
        assert await _fetch(client) == (ErrorCode.UNKNOWN_SERVER_ERROR, -1)


@pytest.mark.parametrize("group", ["", "a/b", ".", ".."])
async def test_a_group_that_is_no_part_of_a_path_is_refused(client: RawClient, group: str) -> None:
    """A name with a slash would lead to other znodes."""
    await create(client)

    assert await _commit(client, 1, group) == ErrorCode.INVALID_GROUP_ID
    assert await _fetch(client, group) == (ErrorCode.INVALID_GROUP_ID, -1)


async def test_version_1_commits_to_the_broker(client: RawClient) -> None:
    """Where later versions find it."""
    await create(client)
    async with asyncio.timeout(60):
        while (await client.call(0, FindCoordinatorRequest(key="g"))).error_code:
            await asyncio.sleep(0.01)
        while (error := await _commit(client, 5, version=1)) in LOADING:
            await asyncio.sleep(0.01)

    assert error == ErrorCode.NONE
    assert await _fetch(client, version=1) == (ErrorCode.NONE, 5)
    assert await _fetch(client) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
