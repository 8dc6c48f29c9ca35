"""A cluster with the rules of Kafka 0.8: the number of messages behind puts a follower out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.simulation.cluster.ensemble import StoreProfile
from tests.simulation.cluster.options import draw_cluster_options
from tests.simulation.cluster.scenario import ClusterRun
from tests.simulation.world.links import NetProfile

if TYPE_CHECKING:
    from tests.simulation.cluster.ambushes import Ambushes

LIMIT = {"replica.lag.max.messages": "1"}
RULES_OF_0_8 = {**LIMIT, "inter.broker.protocol.version": "0.8.2.2"}
SEEDS = (0, 1, 3)
STORY_S = 10.0


class CalmRun(ClusterRun):
    """Nothing fails and no broker is restarted."""

    async def _restart_all(self, chaos: Ambushes) -> None:
        """A stopping broker would leave the ISR for that."""


def shrinkings(seed: int, settings: dict[str, str]) -> int:
    """How often followers, all of which fetch, have left an ISR while clients kept on writing.

    At the end all are back, and the clients' history is whole."""
    drawn = draw_cluster_options(seed, STORY_S)
    calm = drawn._replace(
        faults=(),
        unclean=False,
        replicas=3,
        min_insync=1,
        moves=False,
        partitions=1,
        topics=1,
        producers=2,
        pace_ms=50.0,
        lag_time_ms=2_000,
        settings={**drawn.settings, **settings},
        net=NetProfile(latency_ms=2.0),
        store=StoreProfile(),
    )
    run = CalmRun(seed, calm)
    outcome = run.run()
    assert outcome.ok, outcome.describe()
    assert outcome.counts["acknowledged"] > 20
    return outcome.counts.get("shrinkings", 0)


@pytest.mark.requirement("REP-11")
@pytest.mark.parametrize("seed", SEEDS)
def test_only_with_the_rules_of_0_8_do_followers_leave_for_messages(seed: int) -> None:
    """Without the rules none leaves, though the setting is there; with them some do, and come
    back."""
    assert shrinkings(seed, LIMIT) == 0
    assert shrinkings(seed, RULES_OF_0_8) > 0
