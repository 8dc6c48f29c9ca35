"""Followers: byte by byte what the leader has, fairly, and again after whatever was lost."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import pytest

from ottla.broker.following.fetcher import ReplicaFetcher
from ottla.broker.following.fetchers import number_of
from ottla.broker.following.wire import FetchSettings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from tests.broker.support.node import quiet
from tests.broker.support.replica_site import Site, values
from tests.broker.support.replica_wire import TOPIC, TOPIC_ID

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ottla.protocol.messages.fetch import FetchResponse


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    made = Site()
    await made.start()
    yield made
    await made.stop()


@pytest.mark.requirement("REP-03", "REP-06")
async def test_followers_logs_are_the_leaders_byte_by_byte(site: Site) -> None:
    """Offsets, epochs and sequences are the leader's, or a failover would change them."""
    await site.lead(1)
    for number in range(20):
        site.nodes[1].produce(*values(3, number * 3))
    await site.settle()

    assert len(site.contents()) == 1
    assert site.contents() != {b""}
    for node in site.nodes.values():
        assert node.partition().replica.log_end_offset == 60
        assert node.partition().replica.high_watermark == 60


@pytest.mark.requirement("REP-07")
async def test_the_next_fetch_is_the_acknowledgement(site: Site) -> None:
    """REP-07: no fsync of a follower is waited for; asking for offset n says that n are there."""
    await site.lead(1)
    await site.settle(100)
    held: list[FetchResponse] = []
    door = asyncio.Event()

    async def hold(_source: int, _target: int, answer: FetchResponse) -> FetchResponse:
        held.append(answer)
        await door.wait()
        return answer

    site.on_answer = hold
    appended = site.nodes[1].produce(b"a", acks=-1)
    leader = site.nodes[1].partition()
    await site.settle(200)

    assert len(held) == 2
    # Both followers have been sent the record, and neither has said that it has it.
    assert leader.replication_state(1, appended.leader_epoch) is None
    door.set()
    await site.settle(100)
    assert leader.replication_state(1, appended.leader_epoch) is ErrorCode.NONE
    assert leader.log.recovery_point == 0


@pytest.mark.requirement("REP-26")
async def test_one_fetch_is_for_many_partitions(site: Site) -> None:
    """A request per partition would drown the brokers."""
    await site.lead(1, indexes=tuple(range(10)))
    for index in range(10):
        site.nodes[1].produce(*values(5), index=index)
    await site.settle(500)
    before = len(site.requests)
    for index in range(10):
        site.nodes[1].produce(*values(5), index=index)
    await site.settle(500)

    asked = [request for source, _, request in site.requests[before:] if source == 2]
    assert sum(len(topic.partitions) for topic in asked[0].topics) == 10
    assert len(asked) < 10
    for index in range(10):
        assert site.nodes[2].content(index) == site.nodes[1].content(index) != b""


async def test_no_partition_starves_when_answers_are_small(site: Site) -> None:
    """The leader fills an answer in the order of the request, up to its limit."""
    site.manner = FetchSettings(max_bytes=200, response_max_bytes=200)
    await site.stop()
    await site.start()
    await site.lead(1, indexes=tuple(range(8)))
    for index in range(8):
        for number in range(20):
            site.nodes[1].produce(*values(2, number), index=index)
    ends_in_between: list[list[int]] = []
    for _ in range(400):
        await site.clock.advance(1)
        ends_in_between.append(
            [site.nodes[2].partition(index).log.log_end_offset for index in range(8)]
        )

    assert ends_in_between[-1] == [40] * 8
    # Never is one far ahead while another one waits.
    assert all(max(ends) - min(ends) <= 4 for ends in ends_in_between)


async def test_partitions_are_dealt_out_to_several_fetchers() -> None:
    """num.replica.fetchers: one slow answer must not hold up everything of that leader."""
    site = Site(fetcher_count=3)
    await site.start()
    await site.lead(1, indexes=tuple(range(9)))
    for index in range(9):
        site.nodes[1].produce(*values(3), index=index)
    await site.settle(500)

    fetchers = list(site.nodes[2].fetchers)
    assert len(fetchers) == 3
    assert [len(fetcher.following) for fetcher in fetchers] == [3, 3, 3]
    assert len({number_of(TopicPartition(TOPIC, index), 3) for index in range(9)}) == 3
    for index in range(9):
        assert site.nodes[2].content(index) == site.nodes[1].content(index) != b""
    await site.stop()


async def test_a_fetcher_ends_with_the_last_partition_of_its_leader(site: Site) -> None:
    """Connections to brokers that lead nothing here are given back."""
    await site.lead(1)
    await site.settle(100)
    assert [fetcher.leader for fetcher in site.nodes[3].fetchers] == [1]
    await site.lead(2, 1)
    await site.settle(100)
    assert [fetcher.leader for fetcher in site.nodes[3].fetchers] == [2]
    assert list(site.nodes[2].fetchers) == []
    await site.lead(-1, 2)
    assert [list(node.fetchers) for node in site.nodes.values()] == [[], [], []]


async def test_a_leader_that_cannot_be_reached_is_tried_again(site: Site) -> None:
    """Also when its name or its port has not been known at first."""
    site.cut = {(2, 1)}
    await site.lead(1)
    site.nodes[1].produce(*values(3))
    await site.settle(1_000)
    assert site.nodes[2].content() == b""
    assert site.connection_count < 5
    site.cut.clear()
    await site.settle(200)
    assert len(site.contents()) == 1


async def test_a_broken_connection_costs_only_time(site: Site) -> None:
    """What was under way is asked for again from the log's end."""
    await site.lead(1)
    for number in range(30):
        site.nodes[1].produce(*values(2, number))
        site.cut = {(2, 1)} if number % 3 else set()
        await site.clock.advance(25)
    site.cut.clear()
    await site.settle(500)
    assert len(site.contents()) == 1


async def test_a_new_partition_does_not_wait_for_the_long_poll(site: Site) -> None:
    """No record of a new epoch is committed before its followers have fetched."""
    await site.lead(1)
    await site.settle(600)
    await site.lead(1, 0, indexes=(1,))
    site.nodes[1].produce(b"a", index=1)
    for _ in range(6):
        await site.clock.advance(10)

    assert site.nodes[2].content(1) == site.nodes[1].content(1) != b""


async def test_only_a_refusal_that_lasts_is_worth_a_warning(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """Brokers hear of each new topic and leader one after the other, thousands of times."""
    caplog.set_level(logging.INFO, "ottla.replication")
    await site.lead(1)
    await site.settle(100)
    await site.lead(3, 1, to=(2,))
    await site.settle(500)
    assert caplog.messages == []
    await site.settle(8_000)

    (told,) = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert f"{TOPIC}-0: broker 3 answers the fetch at offset 0 in epoch 1" in told


async def test_topics_without_an_id_are_asked_for_by_name(site: Site) -> None:
    """Logs from before topic ids; version 12 is the last that has names."""
    site.version = 17
    await site.lead(1)
    site.nodes[1].produce(*values(3))
    await site.settle(200)
    assert all(request.topics[0].topic == "" for *_, request in site.requests)
    for node in site.nodes.values():
        node.partition().log.topic_id = None
    site.requests.clear()
    await site.lead(1, 1)
    site.nodes[1].produce(*values(3))
    await site.settle(200)

    assert all(request.topics[0].topic == TOPIC for *_, request in site.requests)
    assert all(request.replica_id in (2, 3) for *_, request in site.requests)
    assert len(site.contents()) == 1


async def test_a_request_names_follower_and_broker_epoch(site: Site) -> None:
    """R-22: a leader must not take an earlier incarnation's fetch for this one's."""
    site.version = 17
    await site.lead(1)
    await site.settle(100)
    await site.nodes[2].kill()
    await site.nodes[2].start()
    await site.lead(1, 1)
    await site.settle(100)

    states = [request.replica_state for source, _, request in site.requests if source == 2]
    assert {(state.replica_id, state.replica_epoch) for state in states} == {(2, 1), (2, 2)}
    assert all(request.replica_id == -1 for *_, request in site.requests)


async def test_stopping_leaves_nothing_behind(site: Site) -> None:
    """P-05: a task that outlives its broker writes into a closed log."""
    await site.lead(1, indexes=(0, 1, 2))
    await site.settle(100)
    node = site.nodes[2]
    await node.fetchers.stop()
    assert node.tasks.names == []
    await site.lead(1, 1)
    assert node.tasks.names == []
    await quiet()


async def test_requests_of_a_session_contain_only_changes(site: Site) -> None:
    """KIP-227: a thousand quiet partitions must not be listed in each request."""
    site.gives_sessions = True
    site.version = 17
    indexes = tuple(range(6))
    await site.lead(1, indexes=indexes)
    await site.settle(600)
    before = len(site.requests)
    for number in range(3):
        site.nodes[1].produce(*values(2, 2 * number), index=4)
        await site.settle(50)

    said = [
        (
            request.session_epoch > 0,
            [part.partition for t in request.topics for part in t.partitions],
        )
        for source, _, request in site.requests[before:]
        if source == 2
    ]
    assert said
    assert all(is_incremental and asked == [4] for is_incremental, asked in said)
    for index in indexes:
        assert site.nodes[2].content(index) == site.nodes[1].content(index)


async def test_a_partition_that_leaves_is_forgotten_by_the_session(site: Site) -> None:
    """Otherwise the leader keeps sending records that the follower throws away."""
    site.gives_sessions = True
    site.version = 17
    await site.lead(1, indexes=(0, 1, 2))
    await site.settle(300)
    await site.lead(3, 1, indexes=(1,))
    await site.settle(600)
    told = [set(told) for _epoch, told in site.sessions.told.values() if told]
    assert told.count({0, 2}) == 2
    site.nodes[3].produce(*values(2), index=1)
    site.nodes[1].produce(*values(2), index=2)
    await site.settle(600)
    assert site.nodes[2].content(1) == site.nodes[3].content(1) != b""
    assert site.nodes[2].content(2) == site.nodes[1].content(2) != b""


async def test_a_session_that_the_leader_has_dropped_is_begun_again(site: Site) -> None:
    """It keeps so many of them; and it may have taken in a request whose answer was lost."""
    site.gives_sessions = True
    await site.lead(1, indexes=(0, 1))
    for number in range(12):
        if number % 3 == 1:
            site.sessions.told.clear()
        elif number % 3 == 2:
            for session_id, (epoch, told) in site.sessions.told.items():
                site.sessions.told[session_id] = epoch + 1, told
        site.nodes[1].produce(*values(2, number), index=number % 2)
        await site.settle(100)
    await site.settle(300)

    for index in (0, 1):
        assert site.nodes[2].content(index) == site.nodes[1].content(index) != b""


async def test_a_row_of_elections_does_not_keep_records_from_coming(site: Site) -> None:
    """Each new partition would like the connection for itself; none may have it all the time."""
    site.manner = FetchSettings(max_bytes=400)
    await site.stop()
    await site.start()
    await site.lead(1)
    for number in range(60):
        site.nodes[1].produce(*values(5, number))

    async def take_time(_source: int, _target: int, answer: FetchResponse) -> FetchResponse:
        await site.clock.sleep(30)
        return answer

    site.on_answer = take_time
    for index in range(1, 40):
        await site.lead(1, indexes=(index,))
        await site.clock.advance(15)
    assert site.nodes[2].content() != b""
    await site.settle()
    assert site.nodes[2].content() == site.nodes[1].content()


async def test_while_records_flow_no_timer_interrupts(site: Site) -> None:
    """The next request is near, and an answer of megabytes would be thrown away."""
    site.manner = FetchSettings(max_bytes=400)
    await site.stop()
    await site.start()
    await site.lead(1)
    for number in range(200):
        site.nodes[1].produce(*values(5, number))

    async def take_time(_source: int, _target: int, answer: FetchResponse) -> FetchResponse:
        await site.clock.sleep(30)
        return answer

    site.on_answer = take_time
    await site.settle(100)
    before = site.connection_count
    for index in range(1, 20):
        await site.lead(1, indexes=(index,))
        await site.clock.advance(15)
    assert site.connection_count == before


async def test_topics_that_are_not_followed_any_more_are_forgotten(site: Site) -> None:
    """A fetcher lives as long as its leader: a name kept per topic ever seen is a leak."""
    await site.lead(1, indexes=(0, 1))
    node = site.nodes[2]
    (used,) = node.fetchers
    idle = ReplicaFetcher(1, 0, used._parts, node.fetchers.counts)
    idle.follow(node.partition(1))
    for number in range(100):
        runtime = node.partition()
        runtime.log.topic_id = number.to_bytes(16, "big")
        idle.follow(runtime)
        idle.leave(runtime.partition)

    idle.follow(node.partition())
    assert len(idle._names) <= 4
    assert {TOPIC_ID, (99).to_bytes(16, "big")} <= idle._names.keys()
