"""How often a controller reads again what watches should have told it."""

from __future__ import annotations

from ottla.broker.controlling.chores import (
    BALANCE_PAUSE_MS,
    FIRST_BALANCE_MS,
    OWED_BALANCE_MS,
    RECONCILE,
    RECONCILE_MS,
    RECONCILED_AT_ONCE,
    ControllerChores,
)
from ottla.coordinator.controller.specs import ControllerSettings
from ottla.coordinator.metadata.image import PartitionState, TopicImage
from tests.broker.support.node import HandClock

TURNS = 48


async def states_read(*sizes: int) -> dict[str, int]:
    """How many states of topics of these sizes are read in so many turns."""
    clock = HandClock()
    marked: list[str] = []
    chores = ControllerChores(clock, ControllerSettings(), marked.append, lambda _event: None)
    topics = [
        TopicImage(f"t{number:02}", b"i" * 16, dict.fromkeys(range(size), PartitionState((1,))))
        for number, size in enumerate(sizes)
    ]
    read = dict.fromkeys((topic.name for topic in topics), 0)
    chores.begin()
    for _ in range(TURNS):
        marked.clear()
        await clock.advance(RECONCILE_MS)
        if RECONCILE in marked:
            for name in chores.next_slice(topics):
                read[name] += sizes[int(name[1:])]
    chores.stop()
    return read


async def test_small_topics_are_all_read_again_at_each_turn() -> None:
    """So long a lost watch may matter."""
    assert await states_read(3, 5) == {"t00": 3 * TURNS, "t01": 5 * TURNS}


async def test_the_more_partitions_there_are_the_longer_a_round_takes() -> None:
    """However they are spread over topics, the cost at rest is that of so many a turn."""
    for sizes in ((4 * RECONCILED_AT_ONCE,), (RECONCILED_AT_ONCE,) * 4, (100,) * 20):
        read = await states_read(*sizes)
        assert sum(read.values()) == TURNS * RECONCILED_AT_ONCE, sizes
        assert min(read.values()) > 0, sizes


async def test_a_large_topic_does_not_keep_small_ones_out() -> None:
    """Its turns are paid for by waiting."""
    read = await states_read(10, 3 * RECONCILED_AT_ONCE, 10)
    assert min(read.values()) >= 10 * TURNS // 8
    assert sum(read.values()) <= 2 * TURNS * RECONCILED_AT_ONCE


async def test_what_a_full_disk_took_is_given_back_before_the_regular_balance() -> None:
    """Which comes every five minutes; there is one balance at a time all the same."""
    clock, balances = HandClock(), list[float]()
    chores = ControllerChores(
        clock, ControllerSettings(), lambda _path: None, lambda _event: balances.append(clock.now)
    )
    chores.begin()
    chores.balance_soon()
    await clock.advance(BALANCE_PAUSE_MS)
    chores.balanced(moved_some=False, owes_some=True)
    await clock.advance(OWED_BALANCE_MS)
    chores.balanced(moved_some=True, owes_some=True)
    await clock.advance(BALANCE_PAUSE_MS)
    chores.balanced(moved_some=False)
    await clock.advance(FIRST_BALANCE_MS)
    chores.stop()

    assert balances == [1_000, 6_000, 7_000]
