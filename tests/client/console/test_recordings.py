"""How many recordings there are, how often they ask, and when they end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ottla.client.console.recordings import (
    ALL_RECORDINGS_MAX,
    LOOK_MS,
    QUIET_STEP_MS,
    RECORDINGS_MAX,
    Recording,
    RecordingPlaces,
    Recordings,
)
from ottla.client.console.views.history import STEP_MS, ClusterMoment, History
from ottla.client.console.views.history_changes import SeenBrokers, SeenPartition
from ottla.client.console.views.series import LagHistory
from ottla.protocol.ids import TopicPartition
from ottla.wire.clock import RealClock
from ottla.wire.errors import ClientClosed

if TYPE_CHECKING:
    from collections.abc import Collection

STATE = SeenPartition(1, 1, (1,), (1,), 0)


class _StandingClock(RealClock):
    """A clock that the test moves; sleepers wait for ever."""

    ms = 0.0

    def now_ms(self) -> float:
        """The test's time."""
        return self.ms

    def wall_ms(self) -> int:
        """The same."""
        return int(self.ms)

    async def sleep(self, ms: float) -> None:
        """Until the test ends."""
        await asyncio.Event().wait()


async def _moment(_watched: Collection[TopicPartition]) -> ClusterMoment:
    states = {TopicPartition("t", number): STATE for number in range(30_000)}
    return ClusterMoment(states, SeenBrokers(frozenset({1}), 1))


async def _small(_watched: Collection[TopicPartition]) -> ClusterMoment:
    return ClusterMoment({}, SeenBrokers(frozenset(), -1))


async def _lags(_watched: Collection[TopicPartition]) -> dict[TopicPartition, int | None]:
    return {}


async def test_the_longest_unused_recording_of_its_kind_ends() -> None:
    """A visitor who looks at ten groups keeps the pictures of an incident."""
    clock = _StandingClock()
    recordings = Recordings(clock, RecordingPlaces())
    picture = await recordings.of("alive", _small, History)
    groups = [await recordings.of(f"lag {n}", _lags, LagHistory) for n in range(10)]

    assert not picture.is_stopped
    assert [one.is_stopped for one in groups] == [True] * (10 - RECORDINGS_MAX) + [
        False
    ] * RECORDINGS_MAX
    assert await recordings.of("lag 9", _lags, LagHistory) is groups[9]
    recordings.close()
    assert picture.is_stopped


async def test_all_visitors_together_have_so_many() -> None:
    """The memory of the console is bounded, however many visitors there are."""
    clock, places = _StandingClock(), RecordingPlaces()
    visitors = [Recordings(clock, places) for _ in range(ALL_RECORDINGS_MAX + 3)]
    found = [await one.of("alive", _small, History) for one in visitors]

    assert [one.is_stopped for one in found] == [True] * 3 + [False] * ALL_RECORDINGS_MAX
    for one in visitors:
        one.close()


async def test_a_request_of_a_visitor_that_has_left_starts_no_recording() -> None:
    """It would ask on for an hour."""
    recordings = Recordings(_StandingClock(), RecordingPlaces())
    recordings.close()

    with pytest.raises(ClientClosed):
        await recordings.of("alive", _small, History)


async def test_a_recording_asks_less_often_while_no_visitor_looks() -> None:
    """And while there are many partitions."""
    clock = _StandingClock()
    small, large = Recording(clock, _small, History()), Recording(clock, _moment, History())
    assert small.step_ms() == STEP_MS
    clock.ms = LOOK_MS + 1
    assert small.step_ms() == QUIET_STEP_MS
    await large.take()
    assert large.step_ms() == 120_000
    await large.watch([])
    assert large.step_ms() == 30_000
