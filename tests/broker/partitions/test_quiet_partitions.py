"""A follower's session at rest: one glance, which sees whatever has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.broker.following.wire import FetchSettings
from ottla.broker.partitions.partition_read import PartitionFetch
from ottla.protocol.errors import ErrorCode
from tests.broker.log.log_under_test import PARTITION
from tests.broker.support.follower_session import FollowerSession
from tests.broker.support.leader_site import EPOCH, EPOCHS, LeaderSite, open_site

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ottla.broker.partitions.follower_reads import FollowerPoll


class Session:
    """A fetch session of broker 2, which asks for one partition of broker 1."""

    def __init__(self, site: LeaderSite) -> None:
        self.site = site
        end = site.one.log.log_end_offset
        wanted = PartitionFetch(*PARTITION, end, 1 << 20, EPOCH, -1, ErrorCode.NONE, 0)
        self.follower = FollowerSession(site.waiting, wanted, 2)

    def ask(self, broker_epoch: int = EPOCHS[2]) -> FollowerPoll:
        site = self.site
        return self.follower.ask(site.followers, site.one, broker_epoch, "connection")

    def ask_until_quiet(self) -> None:
        """Once to be known, once to be found quiet."""
        for _ in range(2):
            self.ask().complete()

    @property
    def is_quiet(self) -> bool:
        return self.follower.is_quiet


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

    assert poll.quiet_count == 0
    assert poll.woken == [site.one]
    assert leading.followers[2].last_caught_up_ms == 3_000
    poll.complete()
    assert not session.is_quiet
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
    site.one.log_was_cut()


async def hurry(site: LeaderSite) -> None:
    leading = site.one.replica.leading
    assert leading is not None
    leading.greet()
    site.one.wake_followers()


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


async def ask_elsewhere(site: LeaderSite) -> None:
    site.fetch(2)


@pytest.mark.parametrize(
    "happens",
    [
        write,
        move_the_start,
        hurry,
        lead_anew,
        take_out,
        stop,
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
    leading = site.one.replica.leading
    assert leading is not None

    assert session.is_quiet
    poll = session.ask(EPOCHS[2] + 1)
    assert poll.quiet_count == 0
    assert leading.followers[2].broker_epoch == EPOCHS[2] + 1
    await site.close()


async def take_a_new_session(site: LeaderSite, session: Session) -> None:
    Session(site).ask_until_quiet()


async def forget(site: LeaderSite, session: Session) -> None:
    session.follower.session.merge((), [session.follower.key])


async def end_the_session(site: LeaderSite, session: Session) -> None:
    session.follower.session.close()


@pytest.mark.parametrize("happens", [take_a_new_session, forget, end_the_session])
async def test_a_session_that_does_not_ask_any_more_proves_nothing(
    happens: Callable[[LeaderSite, Session], Awaitable[None]],
) -> None:
    """Or a follower would pass for caught up by the requests for other partitions."""
    site = await open_site(1, 2)
    session = Session(site)
    session.ask_until_quiet()
    await happens(site, session)
    before = site.clock.now_ms()
    await site.pass_time(1_234)
    session.follower.memory.asked_ms = site.clock.now_ms()
    leading = site.one.replica.leading
    assert leading is not None

    assert not session.is_quiet
    assert leading.followers[2].last_caught_up_ms == before
    await site.close()


async def test_what_has_happened_before_the_follower_asks_again_is_in_its_next_request() -> None:
    """No request waited then; the partition is looked at, though the request names none."""
    site = await open_site(1, 2)
    session = Session(site)
    session.ask_until_quiet()
    await site.pass_time(1_000)
    site.write()
    await site.pass_time(2_000)
    session.ask()
    leading = site.one.replica.leading
    assert leading is not None

    assert not session.is_quiet
    assert leading.followers[2].last_caught_up_ms == 0
    await site.close()


async def test_a_late_watermark_is_told_with_any_answer() -> None:
    """It saves an answer of its own."""
    site = await open_site(1, 2, 3)
    site.write()
    session = Session(site)
    session.ask_until_quiet()
    poll = session.ask()
    poll.wake()
    site.fetch(3)
    assert site.one.replica.high_watermark == 1
    assert session.is_quiet
    leading = site.one.replica.leading
    assert leading is not None

    assert poll.complete()
    assert leading.followers[2].told_watermark == 1
    assert not session.ask().complete()
    assert session.is_quiet
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
