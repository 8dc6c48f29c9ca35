"""Whatever happens, a position that a client of 0.7 was told is never later another message."""

from __future__ import annotations

import asyncio

import pytest

from ottla.broker.wire07 import ledger
from tests.broker.wire07.position_world import PositionWorld
from tests.simulation.world.random import SimRandom

STEPS = 120
# Each forgot a position once: the anchor before the log's start was in memory alone, in the file of
# another segment, or in one that a start removed.
FORGOT = (1000, 1082, 1110, 2028)


async def run_seed(seed: int, steps: int = STEPS) -> PositionWorld:
    """Writes, deletions, retention, restarts, other leaders and clients, in an order by seed."""
    random = SimRandom(seed)
    world = PositionWorld(random)
    await world.open()
    for _ in range(steps):
        dice = random.below(100)
        if dice < 35:
            world.write()
        elif dice < 42:
            await world.delete_records()
        elif dice < 46:
            await world.retain()
        elif dice < 52:
            await world.restart()
        elif dice < 55:
            world.lead_anew()
        elif dice < 65:
            await world.ask_bounds()
        else:
            await world.consume()
    world.check_records()
    return world


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps between anchors that short logs have many of."""
    monkeypatch.setattr(ledger, "MEMORY_STEP_BYTES", 300)
    monkeypatch.setattr(ledger, "STORE_STEP_BYTES", 2_000)
    monkeypatch.setattr(ledger, "_REGION_BYTES", 500)
    monkeypatch.setattr(ledger, "_RECENT_MAX", 3)


@pytest.mark.usefixtures("small")
def test_a_position_told_is_never_later_another_message() -> None:
    """It is found, or out of range because its record has gone."""
    found = refused = 0
    for seed in (*range(25), *FORGOT):
        world = asyncio.run(run_seed(seed))
        found, refused = found + world.found, refused + world.refused

    assert found > 300
    assert refused > 50


@pytest.mark.soak
@pytest.mark.usefixtures("small")
def test_many_seeds() -> None:
    """As above, for some minutes."""
    for seed in range(1_000, 3_000):
        asyncio.run(run_seed(seed))
