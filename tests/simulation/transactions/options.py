"""What each seed draws for its transactional clients; printed with it when it fails."""

from __future__ import annotations

from typing import NamedTuple

from tests.simulation.cluster.options import ClusterOptions, draw_cluster_options
from tests.simulation.random import SimRandom
from tests.simulation.transactions.strikes import StrikeOptions
from tests.simulation.transactions.terms import Habits

# Old clients cannot tell a late end of one transaction from the end of the next (KIP-890), so
# theirs are judged only where no message is held up longer than its sender lives.
SUDDEN_FAULTS = ("kill", "kill_slow", "stop")
TIMEOUTS_MS = (2_000, 5_000, 15_000)


class TransactionOptions(NamedTuple):
    """What a seed draws beyond the cluster's own options."""

    cluster: ClusterOptions
    tellers: int
    pipes: int
    readers: int
    timeout_ms: int
    second: bool
    pace_ms: float
    # Whether clients are killed, stopped and rivalled.
    disturbs: bool = True
    habits: Habits = Habits()
    strikes: StrikeOptions = StrikeOptions()


def draw_transaction_options(seed: int, chaos_s: float | None = None) -> TransactionOptions:
    """Everything follows from the seed."""
    random = SimRandom(seed, "transaction options")
    cluster = draw_cluster_options(seed, chaos_s)
    second = random.chance(0.75)
    faults = cluster.faults
    if not second:
        faults = tuple(random.sample(SUDDEN_FAULTS, 1 + random.below(3)))
    settings = {
        **cluster.settings,
        "offsets.topic.num.partitions": str(random.choice((1, 3))),
        "offsets.topic.replication.factor": "3",
        "transaction.state.log.num.partitions": str(random.choice((1, 3))),
        "transaction.state.log.replication.factor": "3",
        "transaction.state.log.min.isr": "2",
        "transaction.state.log.segment.bytes": str(random.choice((3_000, 1_048_576))),
    }
    # Nobody reads what retention or an unclean election has taken away.
    topic_settings = dict(cluster.topic_settings)
    return TransactionOptions(
        cluster._replace(
            replicas=3,
            min_insync=2,
            unclean=False,
            producers=0,
            consumers=0,
            keeps_topics=False,
            fault_mean_ms=max(1_000.0, cluster.fault_mean_ms),
            faults=faults,
            settings=settings,
            topic_settings=topic_settings,
        ),
        tellers=random.choice((1, 2, 3)),
        pipes=random.choice((0, 1, 2)),
        readers=random.choice((1, 2)),
        timeout_ms=random.choice(TIMEOUTS_MS),
        second=second,
        pace_ms=random.choice((50.0, 200.0, 600.0)),
    )
