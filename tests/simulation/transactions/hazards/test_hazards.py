"""Bugs that have cost others exactly-once, put back: each must be found, and nothing without it.

``python -m tests.simulation --hazard T-12 --seeds 0-300`` hunts for one.
"""

from __future__ import annotations

import pytest

from tests.simulation.transactions.hazards import hunting
from tests.simulation.transactions.hazards.patches import HAZARDS

SEEDS_MAX = 300


def first_seed(hazard: str, seeds: int) -> int | None:
    """The first seed that the bug, and nothing else, makes fail."""
    for seed in range(seeds):
        if not hunting.run(seed, hazard).ok and hunting.run_sound(seed, hazard).ok:
            return seed
    return None


def test_a_late_end_ends_the_next_transaction_of_old_clients_only() -> None:
    """The hole that version 2 of the protocol closes (KIP-890); a checker that does not see it
    sees nothing."""
    assert first_seed("T-12", 4) is not None


@pytest.mark.parametrize(("hazard", "seeds"), [("T-13", 4), ("G-12", 16), ("R-19", 16)])
def test_a_bug_that_is_put_back_is_found_at_once(hazard: str, seeds: int) -> None:
    """The strength of the simulation, of which the soak measures the rest."""
    assert first_seed(hazard, seeds) is not None


def test_what_was_put_back_is_gone_afterwards() -> None:
    """Otherwise every later test would run with the bug."""
    for hazard in HAZARDS.values():
        before = [vars(one.owner)[one.name] for one in hazard.replacements]
        with hazard.put_back():
            within = [vars(one.owner)[one.name] for one in hazard.replacements]
        after = [vars(one.owner)[one.name] for one in hazard.replacements]
        assert before == after
        assert all(one is not other for one, other in zip(before, within, strict=True))


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("hazard", sorted(HAZARDS))
def test_every_bug_that_is_put_back_is_found(hazard: str) -> None:
    """Within three hundred seeds; a simulator that misses them is not to be trusted."""
    assert first_seed(hazard, SEEDS_MAX) is not None
