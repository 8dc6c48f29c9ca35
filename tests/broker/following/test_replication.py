"""The leader's half of replication: what followers say, and what producers wait for."""

from __future__ import annotations

import asyncio

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.produce import ProduceRequest
from ottla.protocol.records.batch import iterate_batches
from tests.broker.support.followers import VERSION, Replicated, replicated, until
from tests.broker.support.requests import batch, produce


@pytest.mark.requirement("NET-20", "REP-07", "REP-14")
async def test_a_followers_fetch_acknowledges_records_and_raises_the_watermark() -> None:
    """There is no other acknowledgement."""
    async with replicated() as site:
        for _ in range(60):
            await site.produced()
        await site.fetched(site.first, 50)
        after_one = site.high_watermark
        answer = await site.fetched(site.second, 40)

        ends = {node: one.log_end_offset for node, one in site.leading.followers.items()}
        assert ends == {site.first: 50, site.second: 40}
        assert (after_one, site.high_watermark, answer.high_watermark) == (0, 40, 40)


@pytest.mark.requirement("REP-15", "NET-18", "NET-21")
async def test_followers_read_to_the_log_end_and_consumers_to_the_watermark() -> None:
    """A consumer must not see what could vanish."""
    async with replicated() as site:
        for _ in range(3):
            await site.produced()
        follower = await site.fetched(site.first, 0)
        await site.fetched(site.first, 3)
        await site.fetched(site.second, 2)
        consumer = await site.consumed(site.leader_id, 0)

        assert [one.base_offset for one in iterate_batches(bytes(follower.records))] == [0, 1, 2]
        assert [one.base_offset for one in iterate_batches(bytes(consumer.records))] == [0, 1]
        assert consumer.high_watermark == 2


@pytest.mark.requirement("NET-28", "REP-06", "REP-28")
@pytest.mark.parametrize("client_id", ["raw", None])
async def test_acks_all_is_answered_when_the_last_of_the_isr_has_fetched_past_it(
    client_id: str | None,
) -> None:
    """Not when most have, and without polling. A null client id takes the long way, and so does
    the first request of a version."""
    async with replicated() as site, site.connect() as producer:
        await site.produced()
        request = produce(batch(b"x"), -1)
        producer.send(11, request, client_id)
        answer = asyncio.ensure_future(producer.answer(11, request))
        await until(lambda: site.partition.log.log_end_offset == 2)
        await site.fetched(site.first, 2)
        await site.fetched(site.second, 1)
        await asyncio.sleep(0.05)
        before = answer.done()
        await site.fetched(site.second, 2)
        part = (await answer).responses[0].partition_responses[0]

        assert not before
        assert (part.error_code, part.base_offset) == (ErrorCode.NONE, 1)
        assert site.leader.parts.shared.waiting.count == 0


@pytest.mark.requirement("NET-28", "REP-06")
async def test_acks_all_waits_for_a_batch_of_one_record_when_all_before_it_is_committed() -> None:
    """The high watermark is one short then, which must not be taken for enough."""
    async with replicated() as site, site.connect() as producer:
        # The first request of a version prepares the short path, which the second one takes.
        await producer.call(11, produce(batch(b"x"), 1))
        for node in (site.first, site.second):
            await site.fetched(node, 1)
        assert site.high_watermark == 1
        request = produce(batch(b"y"), -1)
        producer.send(11, request)
        await until(lambda: site.partition.log.log_end_offset == 2)
        waiting = site.leader.parts.shared.waiting.count
        for node in (site.first, site.second):
            await site.fetched(node, 2)
        part = (await producer.answer(11, request)).responses[0].partition_responses[0]

        # The append and what follows it are one step of the loop.
        assert waiting == 1
        assert (part.error_code, part.base_offset) == (ErrorCode.NONE, 1)


async def test_produces_of_one_connection_wait_together_and_are_answered_in_order() -> None:
    """Five in flight are what clients have; one that waits must not stop the next."""
    async with replicated() as site, site.connect() as producer:
        requests = [produce(batch(b"x"), acks) for acks in (-1, -1, 1, -1)]
        for request in requests:
            producer.send(11, request)
        await until(lambda: site.partition.log.log_end_offset == 4)
        for node in (site.first, site.second):
            await site.fetched(node, 4)
        answers = [await producer.answer(11, request) for request in requests]

        parts = [answer.responses[0].partition_responses[0] for answer in answers]
        assert [part.base_offset for part in parts] == [0, 1, 2, 3]
        assert {part.error_code for part in parts} == {ErrorCode.NONE}


@pytest.mark.parametrize("client_id", ["raw", None])
async def test_a_timeout_leaves_the_record_where_it_is(client_id: str | None) -> None:
    """Unknown is not failed: it may be committed a moment later (R-20, N-14)."""
    async with replicated() as site, site.connect() as producer:
        await site.produced()
        request = ProduceRequest(
            acks=-1, timeout_ms=100, topic_data=produce(batch(b"x")).topic_data
        )
        producer.send(11, request, client_id)
        part = (await producer.answer(11, request)).responses[0].partition_responses[0]

        assert (part.error_code, part.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, -1)
        for node in (site.first, site.second):
            await site.fetched(node, 2)
        assert site.high_watermark == 2


@pytest.mark.requirement("REP-20")
async def test_too_few_in_sync_is_said_before_anything_is_written() -> None:
    """The producer gets a definite failure; acks=1 is accepted at any ISR size (R-18)."""
    async with replicated({"replica.lag.time.max.ms": "400"}, min_insync_replicas="2") as site:
        await site.produced()
        await until(lambda: site.leading.in_sync.committed == (site.leader_id,))
        refused = await site.produced(-1)
        end = site.partition.log.log_end_offset
        accepted = await site.produced(1)

        assert refused.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert (end, accepted.error_code) == (1, ErrorCode.NONE)
        # What only the leader has is not committed.
        assert site.high_watermark == 0


@pytest.mark.parametrize("client_id", ["raw", None])
async def test_too_few_in_sync_after_the_append_is_an_open_outcome(client_id: str | None) -> None:
    """The record is there and may be committed when the others are back (R-20)."""
    settings = {"replica.lag.time.max.ms": "400"}
    async with replicated(settings, min_insync_replicas="2") as site, site.connect() as producer:
        await site.produced()
        request = produce(batch(b"x"), -1)
        producer.send(11, request, client_id)
        part = (await producer.answer(11, request)).responses[0].partition_responses[0]

        assert part.error_code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        assert site.partition.log.log_end_offset == 2


@pytest.mark.requirement("REP-19", "REP-21")
async def test_a_leader_alone_goes_on_when_one_is_enough() -> None:
    """The frozen followers leave the ISR, and acks=all is answered again."""
    async with replicated({"replica.lag.time.max.ms": "400"}) as site:
        waited = await site.produced(-1)
        at_once = await asyncio.wait_for(site.produced(-1), 0.3)

        assert (waited.error_code, at_once.error_code) == (ErrorCode.NONE, ErrorCode.NONE)
        assert site.high_watermark == 2


@pytest.mark.requirement("REP-09", "REP-10", "REP-12", "REP-13")
async def test_a_follower_leaves_the_isr_and_comes_back() -> None:
    """Out when it lags, in when it has everything; every broker hears of both."""
    async with replicated({"replica.lag.time.max.ms": "400"}) as site:
        alone, both = {site.leader_id}, {site.leader_id, site.first}
        await site.produced()
        await until(lambda: {*site.leading.in_sync.committed} == alone)
        await until(lambda: _known_isr(site, site.first) == alone)
        assert {*site.leading.in_sync.committed} == _known_isr(site, site.first) == alone

        await site.fetched(site.first, 1)
        await until(lambda: {*site.leading.in_sync.committed} == both)
        assert {*site.leading.in_sync.committed} == both
        await until(lambda: _known_isr(site, site.second) == both)
        assert _known_isr(site, site.second) == both


def _known_isr(site: Replicated, node_id: int) -> set[int]:
    state = site.cluster[node_id].metadata.partition("t", 0)
    return set() if state is None else set(state.isr)


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"current_leader_epoch": 99}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"broker_epoch": -1}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ({"replica": 9}, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
async def test_an_unproven_fetch_acknowledges_no_records(
    asked: dict[str, int], error: ErrorCode
) -> None:
    """Of another epoch, an older incarnation, or a broker that has no replica (R-10, R-22)."""
    async with replicated() as site:
        await site.produced()
        await site.fetched(site.first, 0)
        request = site.fetch(site.first, 1)
        request.replica_state.replica_id = asked.pop("replica", site.first)
        request.replica_state.replica_epoch = asked.pop(
            "broker_epoch", request.replica_state.replica_epoch
        )
        request.topics[0].partitions[0].current_leader_epoch = asked.pop("current_leader_epoch", 0)
        async with site.connect() as client:
            answer = await client.call(VERSION, request)

        assert answer.responses[0].partitions[0].error_code == error
        assert site.leading.followers[site.first].log_end_offset == 0


async def test_a_diverging_fetch_acknowledges_no_records() -> None:
    """It has other records there than the leader: it is told where to cut (R-09)."""
    async with replicated() as site:
        leadership = site.partition.replica.leadership
        assert leadership is not None
        await site.produced()
        later = leadership.__class__(leadership.leader, 3, 9, leadership.isr, leadership.replicas)
        await site.partition.become(later)
        await site.produced()
        answer = await site.fetched(site.first, 2, last_fetched_epoch=0)

        assert answer.error_code == ErrorCode.NONE
        assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (0, 1)
        assert bytes(answer.records) == b""
        assert site.leading.followers[site.first].log_end_offset == -1
        assert site.high_watermark == 0


async def test_a_waiting_follower_is_told_of_the_watermark_soon() -> None:
    """Else consumers that read from it lag by its whole wait (R-31)."""
    async with replicated() as site, site.connect() as first:
        await site.produced()
        # The first fetch in an epoch is told of the watermark at once.
        await site.fetched(site.first, 0)
        asked = site.fetch(site.first, 1, max_wait_ms=80_000)
        first.send(VERSION, asked)
        await until(lambda: site.leading.followers[site.first].log_end_offset == 1)
        started = asyncio.get_running_loop().time()
        await site.fetched(site.second, 1)
        answer = await first.answer(VERSION, asked)

        assert answer.responses[0].partitions[0].high_watermark == 1
        assert asyncio.get_running_loop().time() - started < 60
        # Told once: the next one waits for something new.
        again = site.fetch(site.first, 1, max_wait_ms=150)
        first.send(VERSION, again)
        started = asyncio.get_running_loop().time()
        await first.answer(VERSION, again)
        assert asyncio.get_running_loop().time() - started > 0.14


async def test_new_records_end_a_followers_wait() -> None:
    """Replication is as fast as the followers ask, not as their wait is long."""
    async with replicated() as site, site.connect() as first:
        await site.fetched(site.first, 0)
        asked = site.fetch(site.first, 0, max_wait_ms=5_000)
        first.send(VERSION, asked)
        await until(lambda: site.leader.parts.shared.waiting.count == 1)
        await site.produced()
        answer = await asyncio.wait_for(first.answer(VERSION, asked), 1)

        assert len(bytes(answer.responses[0].partitions[0].records)) > 0


@pytest.mark.requirement("REP-02")
async def test_a_follower_names_the_leader() -> None:
    """With the address of the leader, so that the client need not ask for metadata (KIP-951)."""
    async with replicated() as site:
        part = await site.produced(1, site.first)
        consumer = await site.consumed(site.first, 0)

        for answer in (part, consumer):
            assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert answer.current_leader.leader_id == site.leader_id
            assert answer.current_leader.leader_epoch == site.partition.leader_epoch


async def test_producers_that_wait_are_told_when_leadership_ends() -> None:
    """They repeat at the new leader; the outcome is open (R-20)."""
    async with replicated() as site, site.connect() as producer:
        await site.produced()
        requests = [produce(batch(b"x"), -1)] * 2
        producer.send(11, requests[0], "raw")
        producer.send(11, requests[1], None)
        await until(lambda: site.partition.log.log_end_offset == 3)
        leadership = site.partition.replica.leadership
        assert leadership is not None
        await site.partition.become(
            leadership.__class__(site.first, 7, 9, leadership.isr, leadership.replicas)
        )
        answers = [await producer.answer(11, request) for request in requests]

        assert [one.responses[0].partition_responses[0].error_code for one in answers] == [
            ErrorCode.REQUEST_TIMED_OUT
        ] * 2
        assert [len(one.node_endpoints) for one in answers] == [1, 1]


async def test_with_flush_before_ack_the_leader_flushes_before_the_acknowledgement() -> None:
    """Both must have happened: the followers have it, and the leader's own disk has."""
    async with replicated(ottla_flush_before_ack="true") as site, site.connect() as producer:
        request = produce(batch(b"x"), -1)
        producer.send(11, request)
        await until(lambda: site.partition.log.recovery_point == 1)
        for node in (site.first, site.second):
            await site.fetched(node, 1)
        answer = await producer.answer(11, request)

        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
