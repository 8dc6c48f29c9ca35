"""One seed of the transactions' scenario with a known bug in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.transactions.hazards.patches import HAZARDS
from tests.simulation.transactions.options import draw_transaction_options
from tests.simulation.transactions.scenario import TransactionsOfACluster

if TYPE_CHECKING:
    from tests.simulation.world.world import Outcome


def run(seed: int, hazard: str, chaos_s: float | None = None) -> Outcome:
    """The seed's options aimed at the bug; without violations it was not found."""
    found = HAZARDS[hazard]
    options = found.mix(draw_transaction_options(seed, chaos_s))
    with found.put_back():
        outcome = TransactionsOfACluster(seed, options).run()
    return outcome._replace(scenario=f"--hazard {hazard} ")


def run_sound(seed: int, hazard: str, chaos_s: float | None = None) -> Outcome:
    """Run the same options without the bug: a failure then is a real bug, not the planted one."""
    found = HAZARDS[hazard]
    mix = found.sound or found.mix
    outcome = TransactionsOfACluster(seed, mix(draw_transaction_options(seed, chaos_s))).run()
    return outcome._replace(scenario=f"--hazard {hazard} --sound ")
