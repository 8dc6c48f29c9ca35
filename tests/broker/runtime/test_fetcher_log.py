"""What becomes of a follower's log: where leaders begin late, disks fail, bytes are wrong."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from ottla.broker.replica.watermark import Isolation
from ottla.broker.testing.faulty_disk import DiskFault, FaultPlan, FaultyDisk
from ottla.broker.testing.memory_disk import MemoryDisk
from ottla.protocol.records.batch import parse_batch
from ottla.protocol.records.builder import BatchOptions, encode_batch
from ottla.protocol.records.control import ControlType, TransactionMarker, encode_marker
from tests.broker.log.crash_disk import CrashDisk
from tests.broker.runtime.node import quiet
from tests.broker.runtime.replica_site import TOPIC, WALL_MS, Site, values

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ottla.broker.runtime.partition import PartitionRuntime
    from ottla.protocol.messages.fetch import FetchResponse

PAIR = (1, 2)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    made = Site()
    await made.start()
    yield made
    await made.stop()


def starts_and_ends(site: Site) -> set[tuple[int, int, int]]:
    """Log start, high watermark and log end of those who run."""
    replicas = [node.partition().replica for node in site.nodes.values() if node.is_running]
    return {
        (replica.log_start_offset, replica.high_watermark, replica.log_end_offset)
        for replica in replicas
    }


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
    await site.nodes[1].partition().delete_records_before(5)
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
    await site.nodes[1].partition().delete_records_before(start)
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
    assert follower.epoch_at(10) == leader.epoch_at(10) == 2


async def test_a_follower_that_begins_within_a_batch_comes_back(site: Site) -> None:
    """The batch's first half is in the file and before the log start, on both sides."""
    await site.nodes[2].stop()
    await site.lead(1, isr=(1, 3))
    site.nodes[1].produce(*values(8))
    await site.settle(600)
    await site.nodes[1].partition().delete_records_before(5)
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
    await site.nodes[1].partition().delete_records_before(30)
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
    """One answer may hold more than a segment does."""
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


async def test_what_the_leader_sends_again_is_written_once(site: Site) -> None:
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


async def test_who_waits_at_a_follower_is_woken_by_its_watermark(site: Site) -> None:
    """R-31: a follower learns only from the leader how far it may show its records."""
    await site.lead(1)
    await site.settle(50)
    node = site.nodes[2]
    partition = node.partition()
    seen: list[int] = []

    def look() -> bool:
        bound = partition.replica.upper_bound(Isolation.READ_UNCOMMITTED)
        seen.append(bound)
        return bound >= 2

    waiter = node.waiting.park([partition.watermark_key], 1e9, look, lambda: None)
    site.nodes[1].produce(*values(2))
    await site.settle(600)

    assert waiter.done
    assert seen[0] == 0
    assert seen[-1] == 2


# ---- disks ----


async def site_with(plan: FaultPlan) -> Site:
    site = Site()
    site.nodes[2].disk = FaultyDisk(MemoryDisk(), plan)
    await site.start()
    await site.lead(1)
    site.nodes[1].produce(*values(2))
    await site.settle(600)
    return site


async def test_a_disk_that_is_low_on_space_goes_on_following() -> None:
    """S-11: what the leader has acknowledged is better on two disks, and segments will be freed."""
    site = await site_with(FaultPlan())
    site.nodes[2].partition().log.home.health.is_low_on_space = True
    site.nodes[1].produce(*values(2, 2))
    await site.settle(600)
    assert len(site.contents()) == 1
    await site.stop()


async def test_a_full_disk_catches_up_when_there_is_room_again() -> None:
    """S-11: a full disk is no broken one."""
    plan = FaultPlan()
    site = await site_with(plan)
    plan.add(DiskFault(frozenset({"append"}), errno.ENOSPC, ".log"))
    for number in range(1, 5):
        site.nodes[1].produce(*values(2, 2 * number))
        await site.settle(100)
    assert site.nodes[2].partition().log.log_end_offset == 2
    plan.clear()
    await site.settle()
    assert len(site.contents()) == 1
    await site.stop()


async def test_a_broken_disk_ends_the_following_of_its_partitions() -> None:
    """R-29: the first error latches; not one byte lands behind it."""
    plan = FaultPlan()
    site = await site_with(plan)
    plan.add(DiskFault(frozenset({"append"}), errno.EIO, ".log", times=1))
    failed: list[str] = []
    assert site.nodes[2].logs is not None
    site.nodes[2].logs.on_failure(failed.append)
    site.nodes[1].produce(*values(2, 2))
    await site.settle(300)

    # The server tells the controller of it by this very call (KIP-112).
    assert failed == ["/data"]
    assert site.nodes[2].partitions.is_offline(TOPIC, 0)
    assert list(site.nodes[2].fetchers) == []
    assert len(site.contents_of(1, 3)) == 1
    await site.stop()


async def test_a_cut_that_fails_takes_the_directory_offline() -> None:
    """S-20, R-29: what is left of the log nobody can vouch for."""
    plan = FaultPlan()
    site = await site_with(plan)
    site.cut = {(2, 1), (1, 3), (3, 1)}
    await site.lead(3, 1, to=(3,), isr=(3,))
    await site.nodes[2].partition().flush()
    await site.lead(2, 1, to=(2,), isr=(2,))
    site.nodes[2].produce(b"only here")
    plan.add(DiskFault(frozenset({"truncate"}), errno.EIO, ".log"))
    site.cut.clear()
    await site.lead(3, 2, isr=(3,))
    await site.settle(600)

    assert site.nodes[2].partitions.is_offline(TOPIC, 0)
    assert len(site.contents_of(1, 3)) == 1
    await site.stop()


async def test_one_bad_partition_does_not_hold_up_the_others() -> None:
    """C-12: the answers of its neighbours are in the same response."""
    plan = FaultPlan()
    site = Site()
    site.nodes[2].disk = FaultyDisk(MemoryDisk(), plan)
    await site.start()
    await site.lead(1, indexes=(0, 1, 2))
    plan.add(DiskFault(frozenset({"append"}), errno.ENOSPC, f"{TOPIC}-1/"))
    for index in range(3):
        site.nodes[1].produce(*values(2), index=index)
    await site.settle(300)
    assert [site.nodes[2].content(index) != b"" for index in range(3)] == [True, False, True]
    for index in range(3):
        site.nodes[1].produce(*values(2, 2), index=index)
    await site.settle(100)
    assert site.nodes[2].content(2) == site.nodes[1].content(2)
    plan.clear()
    await site.settle(300)
    assert site.nodes[2].content(1) == site.nodes[1].content(1)
    await site.stop()


@pytest.mark.parametrize("seed", range(12))
async def test_a_follower_catches_up_from_whatever_a_power_cut_has_left(seed: int) -> None:
    """S-06, R-02: while it appended, rolled and cut; what was not flushed comes back torn."""
    site = Site(configs={"segment.bytes": "600"})
    disk = CrashDisk()
    site.nodes[2].disk = disk
    await site.start()
    await site.lead(1)
    epoch = 0
    for number in range(6):
        for count in range(4):
            site.nodes[1].produce(*values(2, number * 10 + count), acks=1)
        await site.settle(20 + 10 * (seed % 5))
        if number % 2 == seed % 2:
            # Something that has to be cut again.
            epoch += 1
            await site.lead(2, epoch, to=(2,), isr=(2,))
            site.nodes[2].produce(*values(3, 900 + number))
            if seed % 3 == 0:
                await site.nodes[2].partition().flush()
            epoch += 1
            await site.lead(1, epoch, isr=(1, 3))
            if seed % 4:
                await site.settle(10 * (seed % 4))
        await site.nodes[2].kill()
        disk = disk.power_cut(seed * 100 + number, ordered=bool(seed % 2))
        site.nodes[2].disk = disk
        await site.nodes[2].start()
        epoch += 1
        await site.lead(1, epoch, isr=(1, 3))
    await site.settle()

    assert len(site.contents()) == 1
    ((start, watermark, end),) = starts_and_ends(site)
    assert (start, watermark) == (0, end)
    await quiet()
    await site.stop()


async def test_answers_of_a_leader_without_the_topic_are_waited_out(site: Site) -> None:
    """It has not been told yet, or no more."""
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
