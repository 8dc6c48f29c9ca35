"""What users found broken in other brokers that speak this protocol; each finding is a test here,
or where it is about one API alone, beside the tests of that API."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from ottla.broker.system.memory_disk import MemoryDisk
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.protocol.records.batch import iterate_batches
from ottla.protocol.records.control import ControlType, TransactionMarker, encode_marker
from tests.broker.support.groups import (
    GROUP,
    QUICK,
    Member,
    commit,
    coordinated,
    join_request,
    positions,
)
from tests.broker.support.requests import NOW, create, fetched, listed
from tests.broker.test_compaction import append, fill, partition_of
from tests.support.in_process import running_broker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ottla.protocol.messages.join_group import JoinGroupRequest
    from tests.support.in_process import RunningBroker
    from tests.support.raw_client import RawClient

MEMBERS_ASSIGNMENT = bytes(range(200)) * 7


@pytest.fixture
async def running() -> AsyncIterator[RunningBroker]:
    """A broker that does not wait for more members."""
    async with running_broker(QUICK) as broker:
        yield broker


@pytest.fixture
async def client(running: RunningBroker) -> AsyncIterator[RawClient]:
    """A connection to it; topic t has four partitions, the group a coordinator."""
    async with running.connect() as connected:
        await create(connected, "t", 4)
        await coordinated(connected)
        yield connected


# ---- groups ----


def _join(member: Member, version: int) -> JoinGroupRequest:
    request = join_request(member.member_id, member.group_id)
    if version == 0:
        # It has no such field: the session timeout counts.
        request.rebalance_timeout_ms = -1
    return request


async def _join_at(member: Member, version: int) -> Any:
    answer = await member.client.call(version, _join(member, version))
    member.member_id = answer.member_id
    if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        answer = await member.client.call(version, _join(member, version))
    member.generation_id = answer.generation_id
    return answer


@pytest.mark.parametrize("version", range(10))
async def test_the_second_member_of_a_group_gets_its_share(
    running: RunningBroker, client: RawClient, version: int
) -> None:
    """It was UNKNOWN_MEMBER_ID for ever in one broker: the id that it was given was forgotten."""
    async with running.connect() as connected:
        first, second = Member(client), Member(connected)
        assert (await _join_at(first, version)).error_code == ErrorCode.NONE
        assert (await first.sync({first.member_id: b"all"})).assignment == b"all"
        joining = asyncio.ensure_future(_join_at(second, version))
        while await first.heartbeat() != ErrorCode.REBALANCE_IN_PROGRESS:
            await asyncio.sleep(0.01)

        again, joined = await asyncio.gather(_join_at(first, version), joining)

        assert (again.error_code, joined.error_code) == (ErrorCode.NONE, ErrorCode.NONE)
        assert again.generation_id == joined.generation_id
        assert [one.member_id for one in joined.members] == []
        assert {one.member_id for one in again.members} == {first.member_id, second.member_id}
        shares = {first.member_id: b"0 and 1", second.member_id: b"2 and 3"}
        told = await asyncio.gather(first.sync(shares), second.sync())
        assert [one.assignment for one in told] == [b"0 and 1", b"2 and 3"]
        assert [await first.heartbeat(), await second.heartbeat()] == [ErrorCode.NONE] * 2
        assert set((await commit(client, {("t", 0): 1}, member=second)).values()) == {0}


def _laid_out(version: int, assignment: bytes) -> bytes:
    """SyncGroup's answer by hand: throttle time, error, protocol type and name, assignment."""
    body = (b"" if version == 0 else bytes(4)) + bytes(2)
    if version < 4:
        return body + len(assignment).to_bytes(4) + assignment
    if version == 5:
        body += b"\x09consumer" + b"\x06range"
    length = len(assignment) + 1
    assert 128 <= length < 1 << 14
    # The header's tagged fields stand before, the body's behind.
    return b"\0" + body + bytes([length & 0x7F | 0x80, length >> 7]) + assignment + b"\0"


@pytest.mark.parametrize("version", range(6))
async def test_an_answer_to_sync_group_has_every_byte(client: RawClient, version: int) -> None:
    """One that was shorter than its schema kept a whole library of clients waiting."""
    member = Member(client)
    await member.join()
    assignments = [SyncGroupRequestAssignment(member.member_id, MEMBERS_ASSIGNMENT)]
    request = SyncGroupRequest(
        group_id=GROUP,
        generation_id=member.generation_id,
        member_id=member.member_id,
        protocol_type="consumer" if version >= 5 else None,
        protocol_name="range" if version >= 5 else None,
        assignments=assignments,
    )

    correlation_id = client.send(version, request)
    frame = await client.frame()

    assert frame == correlation_id.to_bytes(4) + _laid_out(version, MEMBERS_ASSIGNMENT)


async def _beat(client: RawClient, member_id: str, member_epoch: int, **fields: Any) -> Any:
    request = ConsumerGroupHeartbeatRequest(
        group_id="new", member_id=member_id, member_epoch=member_epoch, **fields
    )
    answer = await client.call(1, request)
    assert answer.error_code == ErrorCode.NONE, answer.error_message
    return answer


def _owned(answer: Any) -> set[int]:
    return {index for entry in answer.assignment.topic_partitions for index in entry.partitions}


async def test_no_two_members_are_given_the_same_records(client: RawClient) -> None:
    """Early versions of one broker gave every record to every member."""
    await coordinated(client, "new")
    fields = {
        "rebalance_timeout_ms": 10_000,
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
    }
    first = await _beat(client, "a", 0, **fields)
    assert _owned(first) == {0, 1, 2, 3}
    second = await _beat(client, "b", 0, **fields)
    assert _owned(second) == set()

    told = await _beat(client, "a", first.member_epoch)
    kept = told.assignment.topic_partitions
    assert _owned(await _beat(client, "b", second.member_epoch, **fields)) == set()
    owned = [TopicPartitions(entry.topic_id, entry.partitions) for entry in kept]
    await _beat(client, "a", told.member_epoch, topic_partitions=owned)
    given = await _beat(client, "b", second.member_epoch)

    assert len(_owned(told)) == len(_owned(given)) == 2
    assert _owned(told) | _owned(given) == {0, 1, 2, 3}


async def test_what_was_noted_with_a_commit_is_there_after_a_restart() -> None:
    """Frameworks keep their own state in that text; one broker stored the offset alone."""
    disk = MemoryDisk()
    async with running_broker(QUICK, disk) as running, running.connect() as client:
        await create(client, "t", 4)
        await coordinated(client)
        await commit(client, {("t", 3): 7})

    async with running_broker(QUICK, disk) as running, running.connect() as client:
        await coordinated(client)
        (topic,) = (await positions(client, topics={"t": [3]})).topics

    (found,) = topic.partitions
    assert (found.committed_offset, found.metadata, found.committed_leader_epoch) == (7, "note", -1)


@pytest.mark.parametrize("version", range(1, 5))
@pytest.mark.parametrize(
    ("kind", "name", "key"), [(2, "t", "max.message.bytes"), (4, "1", "message.max.bytes")]
)
async def test_settings_are_described_and_not_an_empty_list(
    client: RawClient, version: int, kind: int, name: str, key: str
) -> None:
    """Tools that find no settings conclude that there are none."""
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=None
    )

    response = await client.call(version, DescribeConfigsRequest(resources=[resource]))

    (result,) = response.results
    found = {one.name: one.value for one in result.configs}
    assert result.error_code == ErrorCode.NONE
    assert found[key] == "1048588"


# ---- compaction ----


async def _walk(client: RawClient, offset: int, end: int, isolation_level: int) -> int:
    """Fetch as little as possible again and again; where a reader comes to that stops there."""
    while offset < end:
        answer = await fetched(
            client, offset, partition_bytes=1, max_bytes=1, isolation_level=isolation_level
        )
        assert answer.error_code == ErrorCode.NONE
        batches = list(iterate_batches(answer.records))
        assert batches, f"nothing at {offset}, and the end is {end}"
        assert batches[0].base_offset <= batches[0].last_offset >= offset
        offset = batches[-1].next_offset
    return offset


@pytest.mark.parametrize("isolation_level", [0, 1])
async def test_a_reader_comes_exactly_to_the_end_that_it_was_told(isolation_level: int) -> None:
    """The end was off by one where a transaction's marker was the last thing in a compacted log: a
    reader that counts up to it waits for ever. Nor is any answer on the way without a batch, which
    some clients take for the end of a segment that never ends."""
    async with running_broker() as running, running.connect() as client:
        await create(client, "t", 1, cleanup_policy="compact", segment_bytes="2000")
        one = partition_of(running)
        await fill(client, one, 12)
        append(one, encode_marker(TransactionMarker(78, 0, ControlType.ABORT, 0), NOW))
        # So that the end itself is compacted, and once more what is left of it.
        one.log.roll(one.log.log_end_offset, 0)
        for _ in range(2):
            assert await running.broker.parts.cleaning.clean(one)
            end = (await listed(client, -1, isolation_level=isolation_level)).offset
            assert end == one.log.log_end_offset

            for offset in range(end):
                assert await _walk(client, offset, end, isolation_level) == end

            rest = await fetched(client, end, isolation_level=isolation_level)
            assert (rest.error_code, bytes(rest.records)) == (ErrorCode.NONE, b"")
