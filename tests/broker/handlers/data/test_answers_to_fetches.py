"""Answers to unusual fetches, as Apache Kafka 3.9 and 4.1 give them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.broker.support.requests import (
    batch,
    create,
    fetch,
    fetched,
    list_offsets,
    name_by_id,
    produced,
)

if TYPE_CHECKING:
    from tests.support.raw_client import RawClient

_INVALID = ErrorCode.INVALID_REQUEST


async def _filled(client: RawClient, version: int = 12) -> None:
    """Two partitions, one record; the first request of a version never goes the short way."""
    await create(client, partitions=2)
    await produced(client, batch(b"x"))
    assert (await fetched(client, 0, version)).records


def _parts(response: Any) -> list[Any]:
    return [part for topic in response.responses for part in topic.partitions]


@pytest.mark.parametrize("version", [4, 11, 12, 17])
@pytest.mark.parametrize("level", [-1, 2, 77])
async def test_an_unknown_isolation_level_is_refused_on_both_ways(
    client: RawClient, version: int, level: int
) -> None:
    """Taken for read_uncommitted, it would show what was aborted."""
    await _filled(client, version)
    request = fetch(0, isolation_level=level)
    if version >= 13:
        await name_by_id(client, request)

    response = await client.call(version, request)

    assert response.error_code == (_INVALID if version >= 7 else ErrorCode.NONE)
    assert _parts(response)[0].error_code == _INVALID
    looked_up = await client.call(5, list_offsets(-1, isolation_level=level))
    assert looked_up.topics[0].partitions[0].error_code == _INVALID


@pytest.mark.parametrize("version", [7, 11, 12, 17])
@pytest.mark.parametrize("epoch", [1, 5, -2])
async def test_an_epoch_without_a_session_is_refused_on_both_ways(
    client: RawClient, version: int, epoch: int
) -> None:
    """The client believes in a session that it does not have; its partitions are not all named."""
    await _filled(client, version)
    request = fetch(0, session_id=0, session_epoch=epoch)
    if version >= 13:
        await name_by_id(client, request)

    response = await client.call(version, request)

    assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize("version", [4, 12, 17])
async def test_an_error_comes_without_offsets(client: RawClient, version: int) -> None:
    """A client that takes them as known would show a lag of a partition that it cannot read."""
    await _filled(client, version)
    request = fetch(77)
    if version >= 13:
        await name_by_id(client, request)

    (part,) = _parts(await client.call(version, request))

    assert part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (part.high_watermark, part.last_stable_offset, part.log_start_offset) == (-1, -1, -1)


async def test_a_negative_size_is_refused(client: RawClient) -> None:
    """Of one partition it spoils that one, of the request all of them."""
    await _filled(client)
    good = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000)
    bad = FetchPartition(partition=1, fetch_offset=0, partition_max_bytes=-1)
    topics = [FetchTopic(topic="t", partitions=[bad, good])]

    of_one = await client.call(12, FetchRequest(topics=topics, max_bytes=1_000))
    of_all = await client.call(12, FetchRequest(topics=topics, max_bytes=-1))

    assert [part.error_code for part in _parts(of_one)] == [_INVALID, ErrorCode.NONE]
    assert [part.error_code for part in _parts(of_all)] == [_INVALID, _INVALID]


async def test_a_partition_asked_for_twice_is_answered_once_as_it_was_asked_last(
    client: RawClient,
) -> None:
    """Clients keep the parts of an answer by partition."""
    await _filled(client)
    twice = [
        FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1_000)
        for offset in (77, 0)
    ]

    response = await client.call(
        12, FetchRequest(topics=[FetchTopic(topic="t", partitions=twice)], max_bytes=1_000)
    )

    assert [part.error_code for part in _parts(response)] == [ErrorCode.NONE]


async def test_an_offset_looked_up_twice_is_refused_once(client: RawClient) -> None:
    """The request does not say which of the two times it means; 3.9 refused it twice."""
    await _filled(client)
    request = list_offsets(-1)
    request.topics *= 2

    (topic,) = (await client.call(9, request)).topics

    assert [part.error_code for part in topic.partitions] == [_INVALID]


@pytest.mark.parametrize("epoch", [-2, -7])
async def test_any_negative_leader_epoch_is_none(client: RawClient, epoch: int) -> None:
    """It is not older than the leader's: the client does not know any."""
    await _filled(client)
    request = fetch(0)
    part = request.topics[0].partitions[0]
    part.current_leader_epoch = part.last_fetched_epoch = epoch

    (answered,) = _parts(await client.call(12, request))

    assert answered.error_code == ErrorCode.NONE
    assert answered.records


@pytest.mark.parametrize("offset", [0, 77])
async def test_a_stranger_that_asks_as_a_replica_is_not_answered(
    client: RawClient, offset: int
) -> None:
    """Whatever it asks for: offsets of a partition are for its replicas."""
    await _filled(client)

    (part,) = _parts(await client.call(12, fetch(offset, replica_id=5)))

    assert part.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("version", [16, 18])
async def test_a_follower_gets_no_addresses_of_leaders(client: RawClient, version: int) -> None:
    """It follows the controller's word, as the followers of Kafka 4.1 do."""
    await _filled(client, version)
    request = fetch(0)
    await name_by_id(client, request)
    request.replica_state.replica_id = 1

    response = await client.call(version, request)

    assert _parts(response)[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert response.node_endpoints == []
