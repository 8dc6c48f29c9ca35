"""A follower's session at rest: one glance, which sees whatever has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.broker.following.wire import FetchSettings
from ottla.broker.partitions.follower_reads import FollowerPoll, QuietPartitions
from ottla.broker.partitions.partition_read import FetchPlan, PartitionFetch
from ottla.protocol.errors import ErrorCode
from tests.broker.log.bench import PARTITION
from tests.broker.support.leader_site import EPOCH, EPOCHS, LeaderSite, open_site

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class Session:
    """A fetch session of broker 2, which asks for one partition of broker 1."""

    def __init__(self, site: LeaderSite) -> None:
        self.site = site
        self.quietness = QuietPartitions()
        end = site.one.log.log_end_offset
        self.wanted = PartitionFetch(*PARTITION, end, 1 << 20, EPOCH, -1, ErrorCode.NONE, 0)

    def plan(self, broker_epoch: int = EPOCHS[2]) -> FetchPlan:
        plan = FetchPlan([self.wanted], 500, 1, 1 << 20, False, 2, True, broker_epoch)
        plan.quietness = self.quietness
        return plan

    def ask(self) -> FollowerPoll:
        return self.site.followers.begin(self.plan(), lambda _wanted: self.site.one, "connection")

    def ask_until_quiet(self) -> None:
        """Once to be known, once to be found quiet, once at a glance."""
        for _ in range(3):
            self.ask().complete()

    @property
    def is_quiet(self) -> bool:
        return self.quietness.lasts(self.plan(), self.site.clock.now_ms())


async def test_what_is_asked_for_again_at_rest_counts_as_asked_for() -> None:
    """Or a follower of an idle partition would leave the ISR with the first record."""
    site = await open_site(1, 2)
    session = Session(site)
    session.ask_until_quiet()
    await site.pass_time(1_234)
    session.ask().complete()
    leading = site.one.replica.leading
    assert leading is not None

    assert session.is_quiet
    assert leading.followers[2].last_caught_up_ms == site.clock.now_ms() == 1_234
    await site.close()


async def test_a_follower_that_waits_is_told_of_a_record_and_had_all_before_it() -> None:
    """From then on it lags."""
    site = await open_site(1, 2)
    session = Session(site)
    session.ask_until_quiet()
    poll = session.ask()
    poll.wake()
    await site.pass_time(3_000)
    site.write()
    poll.wake()
    leading = site.one.replica.leading
    assert leading is not None

    assert poll.quiet == []
    assert leading.followers[2].last_caught_up_ms == 3_000
    poll.complete()
    assert session.quietness.all_quiet is None
    await site.close()


async def test_a_watermark_that_moves_without_a_fetch_is_told_in_a_moment() -> None:
    """When the ISR has shrunk: a follower at rest would hear of it seconds later."""
    site = await open_site(1, 2, 3)
    site.fetch(3)
    site.write()
    session = Session(site)
    session.ask_until_quiet()
    poll = session.ask()
    leadership = site.one.replica.leadership
    assert leadership is not None
    await site.one.become(leadership.__class__(1, EPOCH, 1, (1, 2), (1, 2, 3)))
    poll.wake()
    poll.wake()
    await site.pass_time(20)
    leading = site.one.replica.leading
    assert leading is not None

    assert site.one.replica.high_watermark == leading.watermark_due == 1
    poll.wake()
    assert poll.owes_news()
    await site.close()


async def write(site: LeaderSite) -> None:
    site.write()


async def move_the_start(site: LeaderSite) -> None:
    leading = site.one.replica.leading
    assert leading is not None
    leading.followers[2].told_log_start_offset = -1


async def hurry(site: LeaderSite) -> None:
    leading = site.one.replica.leading
    assert leading is not None
    leading.greet()


async def move_the_watermark(site: LeaderSite) -> None:
    leading = site.one.replica.leading
    assert leading is not None
    leading.watermark_due = 1


async def lead_anew(site: LeaderSite) -> None:
    leadership = site.one.replica.leadership
    assert leadership is not None
    await site.one.become(leadership.__class__(1, EPOCH + 1, 1, (1, 2), (1, 2, 3)))


async def take_out(site: LeaderSite) -> None:
    leadership = site.one.replica.leadership
    assert leadership is not None
    await site.one.become(leadership.__class__(1, EPOCH, 1, (1,), (1, 2, 3)))


async def stop(site: LeaderSite) -> None:
    site.one.stop()


async def close(site: LeaderSite) -> None:
    site.one.is_open = False


async def learn_the_topic_id(site: LeaderSite) -> None:
    site.one.log.topic_id = b"9" * 16


async def ask_elsewhere(site: LeaderSite) -> None:
    site.fetch(2)


@pytest.mark.parametrize(
    "happens",
    [
        write,
        move_the_start,
        hurry,
        move_the_watermark,
        lead_anew,
        take_out,
        stop,
        close,
        learn_the_topic_id,
        ask_elsewhere,
    ],
)
async def test_whatever_changes_ends_the_quiet(
    happens: Callable[[LeaderSite], Awaitable[None]],
) -> None:
    """What is missed would count a follower as in sync that is not, or keep news from it."""
    site = await open_site(1, 2)
    session = Session(site)
    session.ask_until_quiet()
    before = session.is_quiet
    await happens(site)

    assert before
    assert not session.is_quiet
    await site.close()


async def test_another_life_of_the_follower_is_not_taken_for_the_last() -> None:
    """It may have lost what the one before had (R-22)."""
    site = await open_site(1, 2)
    session = Session(site)
    session.ask_until_quiet()

    assert session.is_quiet
    assert not session.quietness.lasts(session.plan(EPOCHS[2] + 1), 0.0)
    await site.close()


def test_at_rest_a_follower_waits_ever_longer_up_to_its_limit() -> None:
    """Each request costs both brokers a look; news are told at once, however long it waits."""
    manner = FetchSettings(wait_max_ms=500, idle_wait_max_ms=5_000)
    assert [manner.wait_ms(count) for count in (0, 1, 2, 3, 4, 9)] == [
        500, 1_000, 2_000, 4_000, 4_000, 4_000,
    ]  # fmt: skip
    assert manner.longest_wait_ms == 4_000
    assert FetchSettings(wait_max_ms=500, idle_wait_max_ms=1_500).wait_ms(9) == 1_500
    assert FetchSettings(wait_max_ms=500, idle_wait_max_ms=100).wait_ms(9) == 500


async def test_a_watermark_that_a_flush_has_moved_is_told() -> None:
    """Where followers are counted by what is flushed, no fetch moves it, and no record follows."""
    site = await open_site(1, 2)
    site.one.replica.limits.counts_flushed = True
    site.write()
    session = Session(site)
    session.ask_until_quiet()
    poll = session.ask()
    poll.wake()
    released: list[int] = []

    def note() -> bool:
        released.append(1)
        return False

    site.waiting.park((site.one.append_key,), 1e9, note, lambda: None)
    released.clear()
    await site.one.flush()
    await site.pass_time(0)

    assert released
    assert site.one.replica.high_watermark == 1
    assert not session.is_quiet
    await site.close()
