"""The claims about disks, page cache and system calls: each program's quick form, and its claim.

They compare counts and rates of one run with each other, never with a clock of this machine.
"""

from __future__ import annotations

import asyncio
import sys

import pytest

from benchmarks import zero_copy
from examples.why import append, copies, page_cache, sequential, tailing
from tests.support import evidence
from tests.support.tracing import can_trace

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the programs read /proc")


@pytest.mark.requirement("BGD-06")
def test_large_writes_in_order_are_faster_than_small_ones_at_random() -> None:
    """Both rates of this machine stand beside the published ones."""
    rates = sequential.measure(True)
    text = "\n".join(sequential.show(rates).table)

    assert rates.sequential.bytes_per_second > 4 * rates.random.bytes_per_second > 0
    for one in (rates.sequential, rates.random):
        assert f"{one.bytes_per_second / 1e6:,.2f} MB/s" in text
    assert "300.00 MB/s" in text
    assert "0.05 MB/s" in text
    assert f"Each write waited for the device: {rates.way}." in text


@pytest.mark.requirement("BGD-07")
def test_memory_of_a_broker_stays_flat_while_records_pass() -> None:
    """With less data than ``make why``: more than four times the limit, so that a cache of its own
    would show."""
    samples = page_cache.measure(True)
    last = samples[-1]

    assert page_cache.FLAT_MIB == 64
    assert min(last.written_gb, last.read_gb) * 1e9 > 4 * 64 * 2**20
    assert page_cache.growth_mib(samples) < 64
    assert page_cache.show(samples).holds


@pytest.mark.soak
def test_memory_of_a_broker_stays_flat_while_five_gigabytes_pass() -> None:
    """The whole figure, as ``make why`` has it."""
    samples = page_cache.measure(False)

    assert min(samples[-1].written_gb, samples[-1].read_gb) > 5
    assert page_cache.growth_mib(samples) < 64


@pytest.mark.requirement("BGD-08")
def test_a_tailing_consumer_causes_no_reads_from_the_device() -> None:
    """The same counter sees the reads when the page cache is empty, so it would see them here."""
    found = tailing.measure(True)
    consumed_mb = found.total("consumed_mb")

    assert consumed_mb > 50
    assert found.total("broker_read_mb") < consumed_mb / 50
    assert found.total("broker_written_mb") > consumed_mb / 2
    assert found.cold_read_mb > found.cold_consumed_mb / 2
    assert tailing.show(found).holds


@pytest.mark.requirement("BGD-09")
def test_an_append_makes_the_same_calls_whatever_the_size_of_the_log() -> None:
    """Calls are counted; the time may triple on a busy machine, where a scan of the log would
    take thousands of times as long."""
    costs = append.measure(True)
    first, last = costs[0], costs[-1]

    assert last.log_mb - first.log_mb > 200
    assert last.writes == pytest.approx(first.writes, abs=0.5)
    assert last.reads == pytest.approx(first.reads, abs=0.5)
    assert first.writes >= 1
    assert last.cpu_us < 3 * first.cpu_us
    assert append.show(costs).holds


@pytest.mark.requirement("BGD-13")
@pytest.mark.skipif(not can_trace(), reason="strace is missing or may not trace here")
def test_a_chunk_is_read_and_sent_or_handed_over_once() -> None:
    """Strace sees a read and a send of each chunk on one way, a single sendfile on the other."""
    evidence.note(evidence.TRACE)
    ways = copies.measure(True)

    assert ways.counted_by == "strace"
    assert [round(count) for count in ways.buffered[1:]] == [1, 1, 0]
    assert [round(count) for count in ways.direct[1:]] == [0, 0, 1]
    assert (round(ways.buffered.copies), round(ways.direct.copies)) == (4, 2)
    assert copies.show(ways).holds


def test_copies_are_counted_where_strace_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader without strace gets the figures as well, and is told how they were counted."""
    monkeypatch.setattr(copies, "can_trace", lambda: False)
    ways = copies.measure(True)
    buffered, direct = asyncio.run(zero_copy.compare(10))

    assert ways.counted_by == "counters in the process"
    assert (ways.buffered.copies, ways.direct.copies) == (buffered.copies, direct.copies) == (4, 2)
    assert copies.show(ways).holds
