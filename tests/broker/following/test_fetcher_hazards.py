"""Elections, restarts and logs that part: the scenarios that have lost or doubled records."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from ottla.protocol.errors import ErrorCode
from tests.broker.support.node import quiet
from tests.broker.support.replica_answers import Held, records, visible
from tests.broker.support.replica_site import Site, values

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PAIR = (1, 2)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    made = Site()
    await made.start()
    yield made
    await made.stop()


async def test_a_restarted_follower_keeps_records_above_its_watermark(site: Site) -> None:
    """R-01: KIP-101's first scenario; cut to its own watermark, the follower loses m2 for good."""
    await site.lead(1, isr=PAIR)
    await site.nodes[3].stop()
    site.nodes[1].produce(b"m1")
    await site.settle(100)
    held = Held(site, 2)
    site.nodes[1].produce(b"m2")
    await site.settle(30)
    held.release()
    await quiet()
    assert site.nodes[2].partition().replica.high_watermark < 2
    await site.nodes[2].kill()
    await site.nodes[2].start()
    site.cut = {(2, 1)}
    await site.lead(1, 1, isr=PAIR)
    await site.settle(500)
    assert records(site, 2) == [b"m1", b"m2"]
    await site.nodes[1].kill()
    await site.lead(2, 2, isr=(2,))
    assert visible(site, 2) == [b"m1", b"m2"]


@pytest.mark.requirement("REP-17")
async def test_two_that_were_down_agree_again(site: Site) -> None:
    """R-02: KIP-101's second scenario; without epochs one offset has two values for ever."""
    await site.lead(1, isr=PAIR)
    await site.nodes[3].stop()
    site.nodes[1].produce(b"m1")
    await site.settle(600)
    site.cut = {(2, 1)}
    site.nodes[1].produce(b"m2")
    await site.settle(100)
    await site.nodes[1].stop()
    await site.nodes[2].kill()
    site.cut.clear()
    await site.nodes[2].start()
    await site.lead(2, 1, isr=(2,))
    site.nodes[2].produce(b"m3")
    await site.nodes[1].start()
    await site.lead(2, 2, isr=(2,))
    await site.settle()

    assert records(site, 1) == records(site, 2) == [b"m1", b"m3"]
    assert len(site.contents()) == 1


async def test_a_leader_that_never_saw_an_epoch_is_asked_again(site: Site) -> None:
    """R-03: KIP-279; each side has epochs that the other has never heard of."""
    await site.lead(1)
    site.nodes[1].produce(b"m1")
    await site.settle(600)
    site.cut = {(source, target) for source in (1, 2, 3) for target in (1, 2, 3)}
    for epoch in (1, 3, 5):
        await site.lead(2, epoch, to=(2,), isr=(2,))
        site.nodes[2].produce(*values(3, 10 * epoch))
    for epoch in (2, 4):
        await site.lead(3, epoch, to=(3,), isr=(3,))
        site.nodes[3].produce(*values(2, 10 * epoch))
    site.cut.clear()
    await site.lead(3, 6, isr=(3,))
    await site.settle()

    assert len(site.contents()) == 1
    assert records(site, 2) == [b"m1", *values(2, 20), *values(2, 40)]
    epochs = [node.partition().replica.history.leader_epochs() for node in site.nodes.values()]
    assert list(epochs[0]) == list(epochs[1])


async def test_a_leadership_without_writes_leaves_its_trace(site: Site) -> None:
    """R-04: the end of the epoch before is where the silent one began, not the log's end."""
    await site.lead(1)
    site.nodes[1].produce(b"m1")
    await site.settle(600)
    site.cut = {(2, 1), (3, 1)}
    site.nodes[1].produce(b"left over")
    await site.settle(50)
    await site.lead(2, 1, to=(2, 3), isr=PAIR)
    await site.nodes[2].kill()
    await site.nodes[2].start()
    await site.lead(2, 2, to=(2, 3), isr=PAIR)
    site.nodes[2].produce(b"m2")
    site.cut.clear()
    await site.lead(2, 3)
    await site.settle()

    assert records(site, 1) == records(site, 2) == [b"m1", b"m2"]
    assert len(site.contents()) == 1


async def test_the_same_leader_in_another_epoch_is_reconciled_with(site: Site) -> None:
    """R-05: the follower that missed an election must not keep what the leader has cut since."""
    await site.lead(1)
    site.nodes[1].produce(b"m1")
    await site.settle(600)
    site.cut = {(2, 1)}
    site.nodes[1].produce(b"m2")
    await site.settle(50)
    assert records(site, 3) == [b"m1", b"m2"]
    site.cut = {(3, 1)}
    await site.lead(2, 1, to=PAIR, isr=PAIR)
    await site.settle(100)
    assert records(site, 1) == [b"m1"]
    site.cut.clear()
    await site.lead(1, 2)
    site.nodes[1].produce(b"m3")
    await site.settle()

    assert records(site, 3) == [b"m1", b"m3"]
    assert len(site.contents()) == 1


async def test_a_late_leader_is_waited_for(site: Site) -> None:
    """R-10: between two epochs nothing is fetched and nothing acknowledged."""
    await site.lead(2, 1, to=(3,))
    await site.lead(1, 0, to=PAIR)
    site.nodes[1].produce(b"m1")
    await site.settle(200)
    assert records(site, 2) == [b"m1"]
    assert records(site, 3) == []
    await site.lead(2, 1, to=PAIR)
    await site.settle(300)
    assert len(site.contents()) == 1


async def test_an_unclean_election_logs_the_lost_records(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """R-25: acknowledged records that vanish in silence are worse than those that are missed."""
    await site.lead(1)
    await site.nodes[3].stop()
    site.nodes[1].produce(*values(5))
    await site.settle(600)
    site.cut = {(2, 1)}
    await site.lead(1, 1, isr=(1,))
    site.nodes[1].produce(*values(5, 5))
    assert len(visible(site, 1)) == 10
    site.cut.clear()
    with caplog.at_level(logging.INFO, "ottla.replication"):
        await site.lead(2, 2, isr=(2,))
        site.nodes[2].produce(b"m")
        await site.settle()

    assert len(site.contents()) == 1
    (lost,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "offsets 5 to 9 were committed and are lost" in lost.message
    counts = site.nodes[1].fetchers.counts
    assert (counts.cut_count, counts.lost_count) == (5, 5)


@pytest.mark.requirement("REP-16")
async def test_the_seed_scenario_of_three_replicas(site: Site) -> None:
    """A has m1 m2 m3, B m1 m2, C m1: m1 counts, then m2 does, and m3 never appears again."""
    await site.lead(1)
    site.nodes[1].produce(b"m1")
    await site.settle(20)
    site.cut = {(3, 1)}
    site.nodes[1].produce(b"m2")
    await site.settle(20)
    site.cut = {(2, 1), (3, 1)}
    site.nodes[1].produce(b"m3")
    await site.settle(300)
    assert [records(site, one) for one in (1, 2, 3)] == [
        [b"m1", b"m2", b"m3"],
        [b"m1", b"m2"],
        [b"m1"],
    ]
    assert visible(site, 1) == [b"m1"]

    await site.nodes[1].stop()
    site.cut.clear()
    await site.lead(2, 1, isr=(2, 3))
    await site.settle(600)
    assert visible(site, 2) == visible(site, 3) == [b"m1", b"m2"]

    await site.nodes[1].start()
    await site.lead(2, 1, isr=(2, 3), partition_epoch=5)
    site.nodes[2].produce(b"m4")
    await site.settle(600)
    assert visible(site, 1) == visible(site, 2) == visible(site, 3) == [b"m1", b"m2", b"m4"]
    assert len(site.contents()) == 1


@pytest.mark.requirement("REP-14")
async def test_the_watermark_is_the_least_end_in_sync_and_never_goes_back(site: Site) -> None:
    """Records that consumers have read must stay readable."""
    await site.lead(1)
    leader = site.nodes[1].partition().replica
    seen = []
    for number in range(12):
        site.cut = {(2, 1)} if number % 4 in (1, 2) else set()
        site.nodes[1].produce(*values(2, number))
        for _ in range(5):
            await site.clock.advance(20)
            seen.append(leader.high_watermark)
            ends = [site.nodes[one].partition().log.log_end_offset for one in (1, 2, 3)]
            assert leader.high_watermark <= min(ends)
    site.cut.clear()
    await site.settle(600)

    assert seen == sorted(seen)
    assert leader.high_watermark == 24


@pytest.mark.requirement("IDM-14")
async def test_a_new_leader_knows_the_producers_of_the_last_one(site: Site) -> None:
    """T-01: the retry of what was acknowledged before a failover must not be written again."""
    await site.lead(1)
    for sequence in range(7):
        site.nodes[1].produce(
            b"%d" % sequence, producer_id=77, producer_epoch=0, base_sequence=sequence
        )
    await site.settle(600)
    await site.nodes[1].kill()
    await site.lead(2, 1, isr=(2, 3))
    node = site.nodes[2]

    def again(sequence: int) -> tuple[ErrorCode, int]:
        found = node.produce(
            b"%d" % sequence, producer_id=77, producer_epoch=0, base_sequence=sequence
        )
        return found.error_code, found.base_offset

    assert again(4) == (ErrorCode.NONE, 4)
    assert again(6) == (ErrorCode.NONE, 6)
    assert again(7) == (ErrorCode.NONE, 7)
    assert again(9)[0] is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert records(site, 2) == [b"%d" % sequence for sequence in range(8)]


async def test_a_truncation_removes_producer_state_of_the_removed_batches(site: Site) -> None:
    """T-07: a sequence that was cut with its record has to be accepted again."""
    await site.lead(1)
    ids = {"producer_id": 77, "producer_epoch": 0}
    site.nodes[1].produce(b"0", base_sequence=0, **ids)
    await site.settle(600)
    site.cut = {(2, 1), (3, 1)}
    site.nodes[1].produce(b"1", base_sequence=1, **ids)
    await site.settle(50)
    await site.lead(2, 1, isr=PAIR)
    site.cut.clear()
    await site.settle(300)
    await site.lead(1, 2, isr=PAIR)
    written = site.nodes[1].produce(b"again", base_sequence=1, **ids)

    assert (written.error_code, written.base_offset) == (ErrorCode.NONE, 1)
    await site.settle()
    assert records(site, 1) == records(site, 2) == [b"0", b"again"]
