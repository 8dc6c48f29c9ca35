"""What becomes of a follower's log: where leaders begin late, and whatever comes over the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.broker.partitions.record_deletion import delete_before
from ottla.broker.replica.watermark import FetchIsolation
from ottla.protocol.records.batch import parse_batch
from ottla.protocol.records.builder import BatchOptions, encode_batch
from ottla.protocol.records.control import ControlType, TransactionMarker, encode_marker
from tests.broker.support.replica_site import WALL_MS, Site, starts_and_ends, values

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ottla.broker.partitions.partition import PartitionRuntime
    from ottla.protocol.messages.fetch import FetchResponse

PAIR = (1, 2)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    made = Site()
    await made.start()
    yield made
    await made.stop()


def put(partition: PartitionRuntime, batch: bytes) -> None:
    """Append as a leader what no producer's request could carry."""
    partition._put(parse_batch(bytearray(batch)))


# ---- where the leader's log starts ----


async def test_deleted_records_are_deleted_by_followers_too(site: Site) -> None:
    """DeleteRecords answers with the least log start of all replicas."""
    await site.lead(1)
    for number in range(5):
        site.nodes[1].produce(*values(2, 2 * number))
    await site.settle(600)
    await delete_before(site.nodes[1].partition(), 5)
    await site.settle(600)

    assert starts_and_ends(site) == {(5, 10, 10)}
    leading = site.nodes[1].partition().replica.leading
    assert leading is not None
    await site.settle(600)
    assert {one.log_start_offset for one in leading.followers.values()} == {5}


@pytest.mark.parametrize("start", [6, 7, 10])
async def test_a_follower_that_was_away_begins_where_the_leader_does(
    site: Site, start: int
) -> None:
    """R-27: also in the middle of a batch, and where nothing is left; then R-26 for the ends."""
    await site.lead(1)
    site.nodes[1].produce(*values(2))
    await site.settle(600)
    await site.nodes[2].stop()
    for number in range(1, 5):
        site.nodes[1].produce(*values(2, 2 * number))
    await site.lead(1, 1, isr=(1, 3))
    await site.settle(600)
    await delete_before(site.nodes[1].partition(), start)
    await site.nodes[2].start()
    await site.lead(1, 2, isr=(1, 3))
    await site.settle()

    assert starts_and_ends(site) == {(start, 10, 10)}
    site.nodes[1].produce(b"more")
    await site.settle(600)
    assert starts_and_ends(site) == {(start, 11, 11)}
    leader, follower = (site.nodes[one].partition() for one in PAIR)
    ours = follower.log.read(start, 10_000, 11, True).region
    theirs = leader.log.read(start, 10_000, 11, True).region
    assert ours is not None
    assert theirs is not None
    assert ours.read() == theirs.read()
    assert [one.replica.history.epochs.epoch_at(10) for one in (follower, leader)] == [2, 2]


async def test_a_follower_that_begins_within_a_batch_comes_back(site: Site) -> None:
    """The batch's first half is in the file and before the log start, on both sides."""
    await site.nodes[2].stop()
    await site.lead(1, isr=(1, 3))
    site.nodes[1].produce(*values(8))
    await site.settle(600)
    await delete_before(site.nodes[1].partition(), 5)
    await site.nodes[2].start()
    await site.lead(1, 1, isr=(1, 3))
    await site.settle()
    await site.nodes[2].kill()
    await site.nodes[2].start()
    await site.lead(1, 2)
    await site.settle()

    assert starts_and_ends(site) == {(5, 8, 8)}
    assert site.nodes[2].content() == site.nodes[1].content()


async def test_retention_on_the_leader_is_no_reason_to_fetch_anew(site: Site) -> None:
    """A follower that is ahead of the leader's start keeps what it has."""
    site.configs["segment.bytes"] = "200"
    await site.lead(1)
    for number in range(20):
        site.nodes[1].produce(*values(2, 2 * number))
    await site.settle(600)
    before = len(site.requests)
    await delete_before(site.nodes[1].partition(), 30)
    await site.settle(600)

    assert starts_and_ends(site) == {(30, 40, 40)}
    assert all(
        part.fetch_offset == 40
        for *_, request in site.requests[before:]
        for topic in request.topics
        for part in topic.partitions
    )


# ---- what comes over the wire ----


async def test_gaps_of_compaction_are_kept(site: Site) -> None:
    """Offsets are the leader's, not counted anew."""
    await site.nodes[2].stop()
    await site.lead(1, isr=(1, 3))
    leader = site.nodes[1].partition()
    for at in (3, 10, 11, 4_000_000_000):
        batch = parse_batch(bytearray(encode_batch([(WALL_MS, b"k", b"v", ())])))
        batch.stamp(at, 0)
        leader.log.append((batch,), 0)
        leader.replica.history.observe(batch)
        leader.replica.on_appended(leader.log.log_end_offset, 0)
    await site.nodes[2].start()
    await site.lead(1, 1, isr=(1, 3))
    await site.settle()

    assert len(site.contents()) == 1
    assert starts_and_ends(site) == {(0, 4_000_000_001, 4_000_000_001)}


async def test_segments_of_followers_respect_their_size(site: Site) -> None:
    """One fetched answer may be larger than a segment."""
    site.configs["segment.bytes"] = "400"
    await site.nodes[2].stop()
    await site.lead(1, isr=(1, 3))
    for number in range(20):
        site.nodes[1].produce(*values(3, 3 * number))
    await site.nodes[2].start()
    await site.lead(1, 1, isr=(1, 3))
    await site.settle()

    leader, follower = (site.nodes[one].partition().log for one in PAIR)
    assert len(site.contents()) == 1
    assert [one.base_offset for one in follower.segments] == [
        one.base_offset for one in leader.segments
    ]
    assert len(follower.segments) > 3


async def test_a_spoiled_batch_is_not_written_and_fetched_again(site: Site) -> None:
    """TCP's checksum misses one error in some millions of packets; the log's must not."""
    await site.lead(1)
    await site.settle(50)
    spoiled = 0

    async def spoil(source: int, _target: int, answer: FetchResponse) -> FetchResponse:
        nonlocal spoiled
        part = answer.responses[0].partitions[0]
        if source == 2 and part.records and spoiled < 3:
            spoiled += 1
            content = bytearray(part.records)  # type: ignore[arg-type]  # bytes, in this site
            content[-5] ^= 1
            part.records = bytes(content)
        return answer

    site.on_answer = spoil
    site.nodes[1].produce(*values(3))
    await site.settle()

    assert spoiled == 3
    assert len(site.contents()) == 1


async def test_repeated_batches_are_written_once(site: Site) -> None:
    """Whole batches go over the wire, so one may begin before what was asked for."""
    await site.lead(1)
    site.nodes[1].produce(*values(2))
    await site.settle(600)
    first = site.nodes[1].content()

    async def repeat(_source: int, _target: int, answer: FetchResponse) -> FetchResponse:
        part = answer.responses[0].partitions[0]
        if part.records:
            part.records = first + bytes(part.records)  # type: ignore[arg-type]
        return answer

    site.on_answer = repeat
    site.nodes[1].produce(*values(2, 2))
    await site.settle(600)
    assert len(site.contents()) == 1
    assert starts_and_ends(site) == {(0, 4, 4)}


async def test_transactions_are_followed(site: Site) -> None:
    """A follower that leads next must know what was aborted, and what is still open (R-28)."""
    await site.lead(1)
    leader = site.nodes[1].partition()

    def write(producer_id: int, sequence: int) -> None:
        options = BatchOptions(
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            is_transactional=True,
        )
        put(leader, encode_batch([(WALL_MS, b"k", b"v", ())], options))

    def end(producer_id: int, kind: ControlType) -> None:
        put(leader, encode_marker(TransactionMarker(producer_id, 0, kind, 0), WALL_MS, 0, 0))

    write(1, 0)
    write(2, 0)
    end(1, ControlType.ABORT)
    end(2, ControlType.COMMIT)
    write(3, 0)
    await site.settle(600)
    await site.nodes[1].kill()
    await site.lead(2, 1, isr=(2, 3))
    new = site.nodes[2].partition()

    assert new.latest_offset(read_committed=True, follower=False) == 4
    aborted = new.log.aborted_transactions(0, 5)
    assert [(one.producer_id, one.first_offset, one.last_offset) for one in aborted] == [(1, 0, 2)]
    assert list(new.replica.history.producers.transactions.open_transactions) == [3]
    assert new.log.aborted_transactions(0, 5) == leader.log.aborted_transactions(0, 5)


# ---- consumers ----


async def test_a_consumer_at_a_follower_is_woken_by_its_watermark(site: Site) -> None:
    """R-31: a follower learns only from the leader how far it may show its records."""
    await site.lead(1)
    await site.settle(50)
    node = site.nodes[2]
    partition = node.partition()
    seen: list[int] = []

    def look() -> bool:
        bound = partition.replica.upper_bound(FetchIsolation.READ_UNCOMMITTED)
        seen.append(bound)
        return bound >= 2

    waiter = node.waiting.park([partition.watermark_key], 1e9, look, lambda: None)
    site.nodes[1].produce(*values(2))
    await site.settle(600)

    assert waiter.done
    assert seen[0] == 0
    assert seen[-1] == 2


async def test_answers_of_a_leader_without_the_topic_are_waited_out(site: Site) -> None:
    """The leader has not received its role yet, or has lost it."""
    await site.lead(1, to=(2, 3))
    await site.settle(300)
    (followed,) = site.nodes[2].fetchers.followed
    assert followed.failure_count > 1
    await site.lead(1, to=(1,))
    site.nodes[1].produce(b"a")
    await site.settle(300)
    assert site.nodes[2].content() == site.nodes[1].content() != b""
    assert followed.failure_count == 0
    assert followed.lag == 0
