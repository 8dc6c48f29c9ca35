"""The matrix of coordinator kills: one small pipeline, whose coordinator dies at one given point.

``points_of`` lists the points of a run without kills; ``run`` strikes at one of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinating.internal_topics import TRANSACTIONS_TOPIC
from tests.simulation.cluster.options import draw_cluster_options
from tests.simulation.transactions.options import TransactionOptions
from tests.simulation.transactions.points import Points
from tests.simulation.transactions.scenario import TransactionsOfACluster
from tests.simulation.world.links import NetProfile

if TYPE_CHECKING:
    from tests.simulation.cluster.client import ClusterClient
    from tests.simulation.world.world import Outcome

PIPE = "pipe-0"
CHAOS_S = 4.0
RETURN_S = 1.5
# Points beyond these are those of one more transaction, and of one more.
POINTS_MAX = 40


class Struck(TransactionsOfACluster):
    """One run; made for one point."""

    def __init__(self, seed: int, points: Points, drawn: TransactionOptions) -> None:
        super().__init__(seed, drawn)
        self.points = points
        points.strike = self._strike

    def _strike(self) -> None:
        state = self.cluster.state(TRANSACTIONS_TOPIC, 0)
        if state is None or state.leader < 0:
            return
        node = self.cluster.nodes[state.leader]
        if not node.running:
            return
        self.world.report(f"strike at {self.points.passed[-1]}")
        node.kill()

        def come_back() -> None:
            if not node.running:
                node.start()

        self.world.loop.call_later(RETURN_S, come_back, context=self.world.loop.outside)

    async def _set_up(self) -> None:
        await super()._set_up()
        self.points.is_counting = True

    async def _read(self, client: ClusterClient) -> None:
        await super()._read(client)
        self.points.is_counting = False


def options(seed: int, *, second: bool) -> TransactionOptions:
    """A calm cluster with a quick network."""
    cluster = draw_cluster_options(seed, CHAOS_S)._replace(
        brokers=3,
        replicas=3,
        min_insync=2,
        unclean=False,
        topics=1,
        partitions=1,
        producers=0,
        consumers=0,
        faults=(),
        moves=False,
        keeps_topics=False,
        net=NetProfile(latency_ms=0.5),
    )
    settings = {
        **cluster.settings,
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
    }
    return TransactionOptions(
        cluster._replace(settings=settings),
        tellers=1,
        pipes=1,
        readers=1,
        timeout_ms=4_000,
        second=second,
        pace_ms=300.0,
        disturbs=False,
    )


def run(seed: int, target: int | None, *, second: bool, chaos_s: float = CHAOS_S) -> Outcome:
    """Strike at the point of that number; at none without one."""
    return run_past(seed, target, second=second, chaos_s=chaos_s)[0]


def run_past(
    seed: int, target: int | None, *, second: bool, chaos_s: float = CHAOS_S
) -> tuple[Outcome, list[str]]:
    """The outcome, and the points that were come by."""
    points = Points(PIPE, target)
    drawn = options(seed, second=second)
    drawn = drawn._replace(cluster=drawn.cluster._replace(chaos_s=chaos_s))
    with points.watched():
        outcome = Struck(seed, points, drawn).run()
    scenario = f"--point {target} {'' if second else '--old '}"
    return outcome._replace(scenario=scenario), points.passed


def points_of(seed: int, *, second: bool) -> list[str]:
    """The names of the points in order, of up to a few transactions."""
    outcome, passed = run_past(seed, None, second=second)
    assert outcome.ok, outcome.describe()
    return passed[:POINTS_MAX]
