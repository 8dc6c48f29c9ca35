"""The log cleaner on the metrics page: an operator sees that it stands still."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.broker.metrics.cleaner import cleaner_families
from ottla.broker.metrics.exposition import render
from tests.broker.support.clean_room import CleanRoom
from tests.support.pages import figure, parse_figures

if TYPE_CHECKING:
    from tests.support.pages import Figures

MANAGER = "kafka_log_logcleanermanager_"
CLEANER = "kafka_log_logcleaner_"


async def room(**configs: str) -> CleanRoom:
    made = CleanRoom(None, **configs)
    await made.open()
    return made


def figures(one: CleanRoom) -> Figures:
    return parse_figures("".join(render(cleaner_families(one.cleaning, ["/data"]))))


async def test_a_run_shows_its_length_its_memory_and_what_it_wrote() -> None:
    """Half of the log is superseded, so half of what was read is written again."""
    one = await room(segment_bytes="100000")
    for number in range(200):
        one.write((b"k%d" % (number % 100), b"v" * 100))
    one.roll()
    size_bytes = one.log.segments[0].size_bytes
    assert await one.cleaning.clean_dirtiest()
    found = figures(one)

    assert figure(found, f"{CLEANER}cleaner_recopy_percent") == 50
    assert 0 <= figure(found, f"{CLEANER}max_buffer_utilization_percent") < 100
    assert figure(found, f"{CLEANER}max_clean_time_secs") >= 0
    assert figure(found, f"{MANAGER}max_dirty_percent") == 100
    assert figure(found, f"{CLEANER}deadthreadcount") == 0
    assert figure(found, "ottla_log_cleaner_runs_total") == 1
    assert figure(found, "ottla_log_cleaner_read_bytes_total") == size_bytes
    assert figure(found, "ottla_log_cleaner_freed_bytes_total") == size_bytes // 2
    assert figure(found, "ottla_log_cleaner_dirty_bytes") == size_bytes


async def test_the_keys_of_a_run_are_measured_against_their_budget() -> None:
    """A run whose map is full cleans a part only, and the setting can be raised."""
    one = await room(segment_bytes="100000")
    one.settings = one.settings._replace(dedupe_buffer_size=2)
    one.write((b"a", b"1"))
    one.write((b"a", b"2"))
    one.roll()
    await one.cleaning.clean_dirtiest()

    assert figure(figures(one), f"{CLEANER}max_buffer_utilization_percent") > 100


async def test_time_since_the_last_look_grows_while_the_cleaner_does_not_look() -> None:
    """The alert of a cleaner that stands still."""
    one = await room()
    one.clock.time_ms += 1000
    assert figure(figures(one), f"{MANAGER}time_since_last_run_ms") == 1000
    await one.cleaning.clean_dirtiest()
    assert figure(figures(one), f"{MANAGER}time_since_last_run_ms") == 0
    one.clock.time_ms += 250
    assert figure(figures(one), f"{MANAGER}time_since_last_run_ms") == 250


async def test_a_log_that_cannot_be_compacted_counts_at_its_directory() -> None:
    """S-25: it grows for ever, and no other figure shows it."""
    one = await room()
    one.write((b"a", b"1"))
    one.write((b"a", b"2"))
    one.roll()
    await one.log.flush()
    segment = one.log.segments[0]
    one.disk.files.file(segment.path).data[60] ^= 1
    place = {"logdirectory": "/data"}
    before = figures(one)
    await one.cleaning.clean_dirtiest()
    after = figures(one)

    assert figure(before, f"{MANAGER}uncleanable_partitions_count", **place) == 0
    assert figure(before, f"{MANAGER}uncleanable_bytes", **place) == 0
    assert figure(after, f"{MANAGER}uncleanable_partitions_count", **place) == 1
    assert figure(after, f"{MANAGER}uncleanable_bytes", **place) == segment.size_bytes
    assert figure(after, "ottla_log_cleaner_failures_total") == 1


async def test_a_log_beyond_its_longest_lag_shows_the_delay() -> None:
    """KIP-354: the topic promises that a record is compacted at a certain age."""
    one = await room(max_compaction_lag_ms="1000", min_cleanable_dirty_ratio="1")
    one.write((b"a", b"1"))
    one.clock.time_ms += 6000
    one.roll()
    await one.cleaning.clean_dirtiest()

    assert figure(figures(one), f"{CLEANER}max_compaction_delay_secs") == 5


async def test_a_cleaner_that_dies_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its task ends in the log only, and the broker goes on without compaction."""
    one = await room()

    async def fail() -> bool:
        raise RuntimeError("a defect")

    monkeypatch.setattr(one.cleaning, "clean_dirtiest", fail)
    with pytest.raises(RuntimeError):
        await one.cleaning.run()

    assert figure(figures(one), f"{CLEANER}deadthreadcount") == 1
