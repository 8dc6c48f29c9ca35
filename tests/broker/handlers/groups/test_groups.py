"""Groups through the whole broker: sockets, shards, the log, and a restart in between."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING

import pytest

from ottla.broker.handlers.groups import group_admin
from ottla.broker.system.memory_disk import MemoryDisk
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.broker.support.groups import (
    GROUP,
    QUICK,
    Member,
    commit,
    committed,
    coordinated,
    join_request,
    positions,
)
from tests.broker.support.requests import create, fetch
from tests.support.in_process import running_broker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.in_process import RunningBroker
    from tests.support.raw_client import RawClient

OTHERS = ("other-group", "third", "fourth")


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


@pytest.mark.requirement("GRP-02", "GRP-03", "GRP-10")
async def test_a_group_finds_its_positions_after_a_restart() -> None:
    """Members join, are assigned, commit; another process on the same disk knows all of it."""
    disk = MemoryDisk()
    async with running_broker(QUICK, disk) as running, running.connect() as client:
        await create(client, "t", 4)
        await coordinated(client)
        member = Member(client)
        await member.enter()
        assert await member.heartbeat() == ErrorCode.NONE
        assert await commit(client, {("t", 0): 5, ("t", 3): 7}, member=member) == {
            ("t", 0): ErrorCode.NONE,
            ("t", 3): ErrorCode.NONE,
        }

    async with running_broker(QUICK, disk) as running, running.connect() as client:
        await coordinated(client)

        assert await committed(client) == {("t", 0): 5, ("t", 3): 7}
        member.client = client
        # The member's session begins anew with the coordinator (G-08).
        assert await member.heartbeat() == ErrorCode.NONE


@pytest.mark.requirement("GRP-03")
async def test_a_commit_is_a_record_of_the_offsets_topic(client: RawClient) -> None:
    """With Kafka's own key, so that its tools can read it."""
    await commit(client, {("t", 1): 42})

    wanted = fetch(0, topic="__consumer_offsets")
    wanted.topics[0].partitions[0].partition = 12
    answer = (await client.call(12, wanted)).responses[0].partitions[0]

    key = b"\x00\x01" + b"\x00\x08my-group" + b"\x00\x01t" + b"\x00\x00\x00\x01"
    assert key in bytes(answer.records)


async def test_an_assignment_reaches_every_member(
    running: RunningBroker, client: RawClient
) -> None:
    """JoinGroup waits for all, SyncGroup for the leader, and neither stops other connections."""
    async with running.connect() as second:
        first_member, second_member = Member(client), Member(second)
        await first_member.enter()
        await second_member.take_id()
        joining = asyncio.ensure_future(second_member.join())
        while await first_member.heartbeat() != ErrorCode.REBALANCE_IN_PROGRESS:
            await asyncio.sleep(0.01)
        first, other = await asyncio.gather(first_member.join(), joining)

        waiting = asyncio.ensure_future(second_member.sync())
        own = await first_member.sync({first_member.member_id: b"a", second_member.member_id: b"b"})
        theirs = await waiting

        assert first.leader == other.leader == first_member.member_id
        assert len(first.members) == 2
        assert (own.assignment, theirs.assignment) == (b"a", b"b")


async def test_what_is_pipelined_behind_a_waiting_join_gets_its_turn(
    running: RunningBroker, client: RawClient
) -> None:
    """Answers leave in order, so a heartbeat's waits; but it is heard, and so is the leaving that
    ends the wait."""
    async with running.connect() as second:
        stays, goes = Member(client), Member(second)
        await stays.enter()
        await goes.take_id()
        second.send(9, join_request(goes.member_id))
        second.send(4, goes.heartbeat_request)
        second.send(5, goes.leave_request)

        joined = await second.answer(9, join_request())
        beaten = await second.answer(4, goes.heartbeat_request)
        left = await second.answer(5, goes.leave_request)

        assert joined.error_code != ErrorCode.NONE
        assert beaten.error_code != ErrorCode.REQUEST_TIMED_OUT
        assert left.error_code == ErrorCode.NONE


async def test_a_member_that_hangs_up_while_it_waits_holds_up_no_other(
    running: RunningBroker, client: RawClient
) -> None:
    """Its answer has nowhere to go; the group must come to its next generation all the same."""
    stays = Member(client)
    await stays.enter()
    async with running.connect() as second:
        goes = Member(second)
        await goes.take_id()
        second.send(9, join_request(goes.member_id))
        while await stays.heartbeat() != ErrorCode.REBALANCE_IN_PROGRESS:
            await asyncio.sleep(0.01)

    answer = await stays.join()

    assert answer.error_code == ErrorCode.NONE
    assert len(answer.members) == 2


async def test_a_blocked_loop_evicts_no_member_that_could_not_be_heard() -> None:
    """Heartbeats that come right after the stall find a member, not its ghost (G-09)."""
    settings = {**QUICK, "group.min.session.timeout.ms": "100"}
    async with running_broker(settings) as running, running.connect() as client:
        await coordinated(client)
        member = Member(client)
        member.session_timeout_ms = 2_000
        await member.enter()
        # The stall's clock has to have seen the loop run.
        await asyncio.sleep(0.3)

        time.sleep(3)  # noqa: ASYNC251
        for _ in range(3):
            await asyncio.sleep(0)
        after = await member.heartbeat()

        assert after == ErrorCode.NONE
        await asyncio.sleep(2.5)
        assert await member.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


async def test_unknown_topics_are_refused_each_for_itself(client: RawClient) -> None:
    """One wrong name must not cost the other positions (and is retried by clients)."""
    errors = await commit(client, {("t", 0): 1, ("nowhere", 0): 2, ("t", 9): 3})

    assert errors == {
        ("t", 0): ErrorCode.NONE,
        ("nowhere", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("t", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert await committed(client) == {("t", 0): 1}


async def test_only_unknown_topics_are_answered_without_the_group(client: RawClient) -> None:
    """Nothing is left to ask it."""
    errors = await commit(client, {("nowhere", 0): 2})

    assert errors == {("nowhere", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


@pytest.mark.requirement("GRP-08")
@pytest.mark.parametrize("version", range(1, 10))
async def test_every_version_of_offset_fetch_tells_what_is_there_and_what_not(
    client: RawClient, version: int
) -> None:
    """-1 without an error is how a client learns that it has to begin somewhere."""
    await commit(client, {("t", 0): 5})
    batched = version >= 8
    request = OffsetFetchRequest(
        group_id="" if batched else GROUP,
        topics=[] if batched else [OffsetFetchRequestTopic("t", [0, 1])],
        groups=[OffsetFetchRequestGroup(GROUP, topics=[OffsetFetchRequestTopics("t")])]
        if batched
        else [],
    )
    if batched:
        request.groups[0].topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0, 1])]

    response = await client.call(version, request)

    topics = response.groups[0].topics if batched else response.topics
    rows = [
        (part.partition_index, part.committed_offset, part.metadata, part.error_code)
        for part in topics[0].partitions
    ]
    assert rows == [(0, 5, "note", 0), (1, -1, "", 0)]


@pytest.mark.parametrize("version", range(2, 10))
async def test_every_version_of_offset_commit_stores(client: RawClient, version: int) -> None:
    """Clients of ten years commit in eight ways."""
    errors = await commit(client, {("t", 2): 9}, version=version)

    assert errors == {("t", 2): ErrorCode.NONE}
    assert await committed(client) == {("t", 2): 9}


async def test_groups_of_several_shards_are_fetched_at_once(client: RawClient) -> None:
    """Each group's answer comes from its own shard, in the order of the question (KIP-709)."""
    for number, group_id in enumerate(OTHERS):
        await commit(client, {("t", 0): number}, group_id)
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id, topics=None) for group_id in OTHERS]
    )

    response = await client.call(8, request)

    assert [group.group_id for group in response.groups] == list(OTHERS)
    offsets = [group.topics[0].partitions[0].committed_offset for group in response.groups]
    assert offsets == [0, 1, 2]


async def test_all_shards_are_listed_described_and_deleted_from(client: RawClient) -> None:
    """Admin tools see one coordinator, not its partitions."""
    for group_id in OTHERS:
        await commit(client, {("t", 0): 1}, group_id)

    listed = await client.call(5, ListGroupsRequest())
    described = await client.call(6, DescribeGroupsRequest(groups=[*OTHERS, "nobody"]))
    deleted = await client.call(2, DeleteGroupsRequest(groups_names=[OTHERS[0], "nobody"]))
    left = await client.call(5, ListGroupsRequest())

    assert sorted(group.group_id for group in listed.groups) == sorted(OTHERS)
    assert [group.group_id for group in described.groups] == [*OTHERS, "nobody"]
    assert described.groups[-1].error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert [result.error_code for result in deleted.results] == [
        ErrorCode.NONE,
        ErrorCode.GROUP_ID_NOT_FOUND,
    ]
    assert sorted(group.group_id for group in left.groups) == sorted(OTHERS[1:])


async def test_a_list_made_of_many_slices_is_whole(
    client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other requests come in between, but nothing of the list gets lost."""
    monkeypatch.setattr(group_admin, "LISTED_PER_SLICE_MAX", 1)
    for group_id in OTHERS:
        await commit(client, {("t", 0): 1}, group_id)

    listed = await client.call(5, ListGroupsRequest())

    assert sorted(group.group_id for group in listed.groups) == sorted(OTHERS)


@pytest.mark.parametrize("version", range(7))
async def test_every_version_describes_a_group_and_one_that_is_not(
    client: RawClient, version: int
) -> None:
    """Operations are told from version 3 on, a missing group is dead before 6."""
    member = Member(client)
    await member.enter()
    request = DescribeGroupsRequest(
        groups=[GROUP, "nobody"], include_authorized_operations=version >= 3
    )

    response = await client.call(version, request)

    group, nobody = response.groups
    assert (group.group_state, group.protocol_data) == ("Stable", "range")
    assert group.members[0].client_host == "/127.0.0.1"
    assert group.members[0].member_assignment == b"all of it"
    assert nobody.group_state == "Dead"
    # READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS and ALTER_CONFIGS.
    bits = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11
    assert group.authorized_operations == (bits if version >= 3 else -(2**31))


async def test_offsets_can_be_deleted_one_by_one(client: RawClient) -> None:
    """How an administrator gets rid of a topic that is not read any more (KIP-496)."""
    await commit(client, {("t", 0): 1, ("t", 1): 2})
    gone = [OffsetDeleteRequestPartition(partition_index=0)]

    response = await client.call(
        0, OffsetDeleteRequest(GROUP, [OffsetDeleteRequestTopic(name="t", partitions=gone)])
    )

    assert response.error_code == ErrorCode.NONE
    assert response.topics[0].partitions[0].error_code == ErrorCode.NONE
    assert await committed(client) == {("t", 1): 2}


async def test_a_deleted_topic_takes_its_offsets_along(client: RawClient) -> None:
    """One made again under the name would otherwise be read from the middle."""
    await commit(client, {("t", 0): 5})
    await client.call(6, DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=5000))

    assert await committed(client) == {}


async def test_a_groups_story_is_told_to_those_who_ask_for_it(client: RawClient) -> None:
    """The answer to "why does my consumer hang"; tools that ask for all settings do not."""
    await Member(client).enter()
    resource = DescribeConfigsResource(
        resource_type=32, resource_name=GROUP, configuration_keys=["ottla.timeline"]
    )
    unnamed = DescribeConfigsResource(
        resource_type=32, resource_name=GROUP, configuration_keys=None
    )
    missing = DescribeConfigsResource(
        resource_type=32, resource_name="nobody", configuration_keys=["ottla.timeline"]
    )

    response = await client.call(4, DescribeConfigsRequest([resource, unnamed, missing]))

    story, settings, nobody = response.results
    rows = json.loads(story.configs[0].value)
    assert any(row["event"] == "JOINED" for row in rows)
    assert all(row["time_ms"] > 0 and row["text"] for row in rows)
    assert "ottla.timeline" not in [config.name for config in settings.configs]
    assert nobody.error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_a_deleted_offsets_topic_leaves_a_working_coordinator(client: RawClient) -> None:
    """Kafka lets an administrator do it: positions are gone, groups begin anew."""
    await commit(client, {("t", 0): 5})
    await client.call(
        6,
        DeleteTopicsRequest(topics=[DeleteTopicState(name="__consumer_offsets")], timeout_ms=5000),
    )
    gone = await positions(client)

    await coordinated(client)

    assert gone.error_code == ErrorCode.NOT_COORDINATOR
    assert await committed(client) == {}
    assert await commit(client, {("t", 0): 6}) == {("t", 0): ErrorCode.NONE}
