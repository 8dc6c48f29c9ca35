"""One seed of the cluster's scenario with a known bug in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.cluster.hazards.patches import HAZARDS
from tests.simulation.cluster.options import draw_cluster_options
from tests.simulation.cluster.scenario import ClusterRun

if TYPE_CHECKING:
    from tests.simulation.world.world import Outcome


def run(seed: int, hazard: str, chaos_s: float | None = None) -> Outcome:
    """The seed's options aimed at the bug; without violations it was not found."""
    found = HAZARDS[hazard]
    options = found.mix(draw_cluster_options(seed, chaos_s))
    with found.put_back():
        outcome = ClusterRun(seed, options).run()
    return outcome._replace(scenario=f"--hazard {hazard} ")


def run_sound(seed: int, hazard: str, chaos_s: float | None = None) -> Outcome:
    """Run the same options without the bug: a failure then is a real bug, not the planted one."""
    options = HAZARDS[hazard].mix(draw_cluster_options(seed, chaos_s))
    return ClusterRun(seed, options).run()
