"""The options that each seed draws for its transactional clients; printed with the seed when it
fails."""

from __future__ import annotations

from typing import NamedTuple

from tests.simulation.cluster.options import ClusterOptions, draw_cluster_options
from tests.simulation.transactions.strikes import StrikeOptions
from tests.simulation.transactions.terms import Habits
from tests.simulation.world.random import SimRandom

# Old clients cannot distinguish a late end of one transaction from the end of the next (KIP-890),
# so theirs are judged only where no message is held up longer than its sender waits for an answer.
SUDDEN_FAULTS = ("kill", "kill_slow", "stop")
SUDDEN_BLOWS = ("kill", "depose")
BLOWS = ("kill", "kill_slow", "pause", "depose", "depose")
DISTURBANCES = ("kill", "sleep", "sleep", "rival")
SLEEPS_S = (0.1, 0.5, 2.0, 6.0)
TIMEOUTS_MS = (2_000, 5_000, 15_000)


class TransactionOptions(NamedTuple):
    """What a seed draws beyond the cluster's own options. ``disturbs``: whether clients are killed,
    stopped and rivalled; ``last_epoch`` replaces 32766, which takes too long to reach."""

    cluster: ClusterOptions
    tellers: int
    pipes: int
    readers: int
    timeout_ms: int
    second: bool
    pace_ms: float
    disturbs: bool = True
    disturbances: tuple[str, ...] = DISTURBANCES
    sleeps_s: tuple[float, ...] = SLEEPS_S
    habits: Habits = Habits()
    strikes: StrikeOptions = StrikeOptions()
    last_epoch: int | None = None
    # Whether the groups of pipelines have members.
    has_members: bool = False


def draw_transaction_options(seed: int, chaos_s: float | None = None) -> TransactionOptions:
    """Everything follows from the seed."""
    random = SimRandom(seed, "transaction options")
    cluster = draw_cluster_options(seed, chaos_s)
    second = random.chance(0.75)
    faults = cluster.faults
    if not second:
        faults = tuple(random.sample(SUDDEN_FAULTS, 1 + random.below(3)))
    return TransactionOptions(
        # No reader sees what retention or an unclean election has taken away.
        cluster._replace(
            replicas=3,
            min_insync=2,
            unclean=False,
            producers=0,
            consumers=0,
            keeps_topics=False,
            fault_mean_ms=max(1_000.0, cluster.fault_mean_ms),
            faults=faults,
            settings={**cluster.settings, **_draw_settings(random)},
        ),
        tellers=random.choice((1, 2, 3)),
        pipes=random.choice((0, 1, 2)),
        readers=random.choice((1, 2)),
        timeout_ms=random.choice(TIMEOUTS_MS),
        second=second,
        pace_ms=random.choice((30.0, 100.0, 300.0)),
        habits=_draw_habits(random, second=second),
        strikes=_draw_strikes(random, second=second),
        last_epoch=random.choice((None, None, None, 3, 10)),
        has_members=random.chance(0.4),
    )


def _draw_settings(random: SimRandom) -> dict[str, str]:
    """Transactions that time out, ids that expire, and logs of them that are compacted."""
    return {
        "offsets.topic.num.partitions": str(random.choice((1, 3))),
        "offsets.topic.replication.factor": "3",
        "transaction.state.log.num.partitions": str(random.choice((1, 3))),
        "transaction.state.log.replication.factor": "3",
        "transaction.state.log.min.isr": "2",
        "transaction.state.log.segment.bytes": str(random.choice((3_000, 1_048_576))),
        "offsets.topic.segment.bytes": str(random.choice((3_000, 1_048_576))),
        # A transaction is many small writes, each of which would wait for others to come.
        "replica.fetch.min.bytes": "1",
        "group.min.session.timeout.ms": "1000",
        "group.initial.rebalance.delay.ms": "0",
        "log.cleaner.backoff.ms": str(random.choice((300, 15_000))),
        "log.cleaner.min.cleanable.ratio": random.choice(("0.01", "0.5")),
        "log.cleaner.delete.retention.ms": str(random.choice((1_000, 86_400_000))),
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(
            random.choice((300, 3_000))
        ),
        "transaction.remove.expired.transaction.cleanup.interval.ms": "1000",
        "transactional.id.expiration.ms": str(random.choice((2_000, 604_800_000, 604_800_000))),
    }


def _draw_habits(random: SimRandom, *, second: bool) -> Habits:
    return Habits(
        aborts=random.choice((0.05, 0.15, 0.4)),
        late_ends=random.choice((0.0, 0.0, 0.1)) if second else 0.0,
        late_produces=random.choice((0.0, 0.0, 0.05)),
        late_ms=random.choice((100.0, 500.0, 2_000.0)),
        deaf=random.choice((0.0, 0.0, 0.05)),
        dwell_ms=random.choice((0.0, 0.0, 20.0, 100.0)),
    )


def _draw_strikes(random: SimRandom, *, second: bool) -> StrikeOptions:
    return StrikeOptions(
        chance=random.choice((0.0, 0.0, 0.003, 0.02)),
        blows=BLOWS if second else SUDDEN_BLOWS,
        markers_again=random.choice((0.0, 0.0, 0.1)) if second else 0.0,
    )
