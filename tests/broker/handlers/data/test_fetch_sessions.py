"""Fetch sessions over the wire: consumers of many partitions, and followers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.partitions.fetch_session import CONSUMER_SESSION_MIN
from ottla.broker.partitions.partition_read import PartitionRead
from ottla.broker.partitions.reads import Reads
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from tests.broker.support.followers import VERSION, replicated
from tests.broker.support.requests import batch, create, fetch, name_by_id, produced
from tests.support.in_process import running_broker

if TYPE_CHECKING:
    import pytest

    from tests.support.raw_client import RawClient

COUNT = CONSUMER_SESSION_MIN


async def many(client: RawClient, session_id: int = 0, epoch: int = 0) -> FetchRequest:
    """A full request for all partitions."""
    parts = [
        FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
        for index in range(COUNT)
    ]
    request = FetchRequest(
        session_id=session_id, session_epoch=epoch, topics=[FetchTopic("t", partitions=parts)]
    )
    await name_by_id(client, request)
    return request


def next_of(answer: Any, epoch: int, **more: Any) -> FetchRequest:
    """Nothing has changed for the client."""
    return FetchRequest(session_id=answer.session_id, session_epoch=epoch, **more)


def told(answer: Any) -> list[int]:
    return [part.partition_index for topic in answer.responses for part in topic.partitions]


async def test_a_session_leaves_out_what_has_no_news(client: RawClient) -> None:
    """Of sixteen partitions one has a record: the answer has that one, with it."""
    await create(client, partitions=COUNT)
    full = await client.call(VERSION, await many(client))
    await produced(client, batch(b"x"), partition=3)
    first = await client.call(VERSION, next_of(full, 1))
    moved = FetchPartition(partition=3, fetch_offset=1, partition_max_bytes=1 << 20)
    topics = [FetchTopic("t", full.responses[0].topic_id, [moved])]
    second = await client.call(VERSION, next_of(full, 2, topics=topics))

    assert full.session_id > 0
    assert told(full) == list(range(COUNT))
    assert (first.session_id, told(first)) == (full.session_id, [3])
    assert len(bytes(first.responses[0].partitions[0].records)) > 0
    assert told(second) == []


async def test_partitions_are_forgotten_and_added(client: RawClient) -> None:
    """A consumer's assignment changes during its session."""
    await create(client, partitions=COUNT)
    full = await client.call(VERSION, await many(client))
    topic_id = full.responses[0].topic_id
    forget = [ForgottenTopic("t", topic_id, [3, 4])]
    await client.call(VERSION, next_of(full, 1, forgotten_topics_data=forget))
    for partition in (3, 5):
        await produced(client, batch(b"x"), partition=partition)
    after = await client.call(VERSION, next_of(full, 2))
    back = FetchPartition(partition=4, fetch_offset=0, partition_max_bytes=1 << 20)
    added = await client.call(VERSION, next_of(full, 3, topics=[FetchTopic("t", topic_id, [back])]))

    assert told(after) == [5]
    assert sorted(told(added)) == [4, 5]


async def test_who_lost_count_begins_again(client: RawClient) -> None:
    """And so does who was evicted, or never had a session."""
    await create(client, partitions=COUNT)
    full = await client.call(VERSION, await many(client))
    early = await client.call(VERSION, next_of(full, 2))
    again = await client.call(VERSION, await many(client, full.session_id))
    gone = await client.call(VERSION, next_of(full, 1))

    assert early.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert again.session_id not in (0, full.session_id)
    assert gone.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_a_consumer_of_few_partitions_gets_none(client: RawClient) -> None:
    """Its full requests are the cheaper ones; every client accepts that (KIP-227)."""
    await create(client)

    answer = await client.call(12, fetch(0, session_id=0, session_epoch=0))
    unknown = await client.call(12, fetch(0, session_id=5, session_epoch=3))

    assert (answer.error_code, answer.session_id) == (ErrorCode.NONE, 0)
    assert unknown.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_more_clients_than_slots_are_all_served() -> None:
    """A client without a slot sends full requests, and every client gets its records (N-11)."""
    slots = {"max.incremental.fetch.session.cache.slots": "2"}
    async with running_broker(slots) as running, running.connect() as client:
        await create(client, partitions=COUNT)
        answers = [await client.call(VERSION, await many(client)) for _ in range(10)]

        assert sum(answer.session_id > 0 for answer in answers) == 2
        assert {len(told(answer)) for answer in answers} == {COUNT}
        for index in range(COUNT):
            await produced(client, batch(b"x"), partition=index)
        for answer in answers[:2]:
            assert len(told(await client.call(VERSION, next_of(answer, 1)))) == COUNT
        last = await client.call(VERSION, await many(client))
        assert all(len(bytes(one.records)) > 0 for one in last.responses[0].partitions)


async def test_a_topic_that_goes_is_news_in_a_session(client: RawClient) -> None:
    """The consumer would wait for it for ever."""
    await create(client, partitions=COUNT)
    full = await client.call(VERSION, await many(client))
    await client.call(6, DeleteTopicsRequest(topics=[DeleteTopicState("t")], timeout_ms=5000))
    answer = await client.call(VERSION, next_of(full, 1))

    errors = {part.error_code for topic in answer.responses for part in topic.partitions}
    assert errors == {ErrorCode.UNKNOWN_TOPIC_ID}
    assert len(told(answer)) == COUNT


async def test_a_follower_that_says_nothing_new_acknowledges_nothing_new() -> None:
    """A quiet partition costs a glance; what is appended wakes it."""
    async with replicated() as site, site.connect() as first:
        await site.fetched(site.second, 0)
        asked = site.fetch(site.first, 0, session_epoch=0)
        full = await first.call(VERSION, asked)
        idle = await first.call(VERSION, _follow(site.fetch(site.first, 0), full, 1))
        older = _follow(site.fetch(site.first, 0, broker_epoch=0), full, 2)
        refused = await first.call(VERSION, older)
        well = await first.call(VERSION, _follow(site.fetch(site.first, 0), full, 3))
        waiting = _follow(site.fetch(site.first, 0, max_wait_ms=5_000), full, 4)
        first.send(VERSION, waiting)
        await site.produced()
        woken = await first.answer(VERSION, waiting)
        acknowledged = site.fetch(site.first, 1)
        acknowledged.session_id, acknowledged.session_epoch = full.session_id, 5
        await first.call(VERSION, acknowledged)

        assert full.session_id > 0
        assert told(idle) == []
        assert told(woken) == [0]
        # Not even what is quiet is believed of an incarnation that is gone.
        errors = [part.error_code for part in refused.responses[0].partitions]
        assert errors == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        assert [part.error_code for part in well.responses[0].partitions] == [ErrorCode.NONE]
        assert site.leading.followers[site.first].log_end_offset == 1


async def test_a_quiet_follower_stays_in_sync_and_hears_of_the_watermark() -> None:
    """It asked for the log end each time, though it did not say so again."""
    settings = {"replica.lag.time.max.ms": "60000"}
    async with replicated(settings) as site, site.connect() as first:
        await site.produced()
        full = await first.call(VERSION, site.fetch(site.first, 1, session_epoch=0))
        follower = site.leading.followers[site.first]
        idle = await first.call(VERSION, _follow(site.fetch(site.first, 1), full, 1))
        caught_up = follower.last_caught_up_ms
        await first.call(VERSION, _follow(site.fetch(site.first, 1), full, 2))
        later = follower.last_caught_up_ms
        waiting = _follow(site.fetch(site.first, 1, max_wait_ms=5_000), full, 3)
        first.send(VERSION, waiting)
        await site.fetched(site.second, 1)
        answer = await first.answer(VERSION, waiting)

        assert told(idle) == []
        assert later > caught_up
        assert answer.responses[0].partitions[0].high_watermark == 1


async def test_a_watermark_that_moves_while_a_disk_is_waited_for_is_told_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The answer has the watermark of before; a follower at rest would never hear of the other,
    nor would the consumers that read from it (R-31)."""
    settings = {"replica.lag.time.max.ms": "60000"}
    async with replicated(settings) as site, site.connect() as first:
        await site.produced()
        full = await first.call(VERSION, site.fetch(site.first, 0, session_epoch=0))

        async def warm(_reads: Reads, _cold: Any, reads: Any, respond: Any) -> Any:
            monkeypatch.undo()
            await site.fetched(site.second, 1)
            return respond(reads)

        monkeypatch.setattr(Reads, "_warm", warm)
        monkeypatch.setattr(PartitionRead, "is_cold", True)
        more = {"session_id": full.session_id, "session_epoch": 1}
        await first.call(VERSION, site.fetch(site.first, 1, **more))
        assert site.high_watermark == 1
        waiting = _follow(site.fetch(site.first, 1, max_wait_ms=2_000), full, 2)
        answer = await first.call(VERSION, waiting)

        assert told(answer) == [0]
        assert answer.responses[0].partitions[0].high_watermark == 1


async def test_a_follower_that_was_told_to_cut_is_told_the_watermark_afterwards() -> None:
    """Of the answer before it has taken the cut alone (R-08)."""
    async with replicated() as site, site.connect() as first:
        await site.produced()
        last = {"last_fetched_epoch": site.partition.leader_epoch}
        full = await first.call(VERSION, site.fetch(site.first, 2, session_epoch=0, **last))
        more = {"session_id": full.session_id, "session_epoch": 1, **last}
        cut = await first.call(VERSION, site.fetch(site.first, 1, **more))

        assert full.responses[0].partitions[0].diverging_epoch.end_offset == 1
        assert told(cut) == [0]


def _follow(request: FetchRequest, answer: Any, epoch: int) -> FetchRequest:
    """The same request, continued: nothing has changed for the follower."""
    request.session_id, request.session_epoch = answer.session_id, epoch
    request.topics = []
    return request
