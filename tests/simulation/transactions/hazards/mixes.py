"""Options of simulated transactions whose misfortunes are aimed at one kind of bug."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinating.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tests.simulation.cluster.ensemble import StoreProfile
from tests.simulation.cluster.options import NEVER_MS
from tests.simulation.transactions.strikes import PRODUCE, VERDICT, StrikeOptions
from tests.simulation.transactions.terms import Habits
from tests.simulation.world.links import NetProfile
from tests.simulation.world.node import MachineProfile

if TYPE_CHECKING:
    from tests.simulation.transactions.options import TransactionOptions


def few(options: TransactionOptions, *faults: str) -> TransactionOptions:
    """Three brokers, two partitions with much traffic, and no failures except planned ones."""
    cluster = options.cluster
    settings = {
        **cluster.settings,
        "num.io.threads": "2",
        "replica.fetch.wait.max.ms": "200",
        "replica.fetch.min.bytes": "1",
        "replica.fetch.max.bytes": "1048576",
        "replica.fetch.backoff.ms": "20",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.segment.bytes": "1048576",
    }
    return options._replace(
        cluster=cluster._replace(
            brokers=3,
            topics=1,
            partitions=2,
            chaos_s=10.0,
            faults=faults,
            fault_mean_ms=1_000.0,
            moves=False,
            reads_followers=False,
            session_timeout_ms=2_000,
            lag_time_ms=1_000,
            settings=settings,
            topic_settings={"segment.bytes": "1048576", "flush.ms": NEVER_MS},
            net=NetProfile(latency_ms=2.0),
            store=StoreProfile(),
            machines=(MachineProfile(),) * 3,
        ),
        tellers=3,
        pipes=0,
        readers=2,
        timeout_ms=15_000,
        second=True,
        pace_ms=30.0,
        disturbs=False,
        habits=Habits(aborts=0.3, dwell_ms=40.0),
        strikes=StrikeOptions(),
    )


def classic(options: TransactionOptions) -> TransactionOptions:
    """Clients of the first version of the protocol."""
    return options._replace(second=False)


def late_ends(options: TransactionOptions) -> TransactionOptions:
    """EndTxn arrives twice, the second time when the next transaction has begun."""
    small = few(options)
    return small._replace(habits=small.habits._replace(late_ends=0.3, late_ms=150.0))


def late_classic_ends(options: TransactionOptions) -> TransactionOptions:
    return classic(late_ends(options))


def late_produces(options: TransactionOptions) -> TransactionOptions:
    """Produce arrives after its transaction was given up and its producer stopped writing."""
    small = classic(few(options))
    habits = small.habits._replace(late_produces=0.2, late_ms=400.0)
    return small._replace(habits=habits, pace_ms=100.0)


def unverified(options: TransactionOptions) -> TransactionOptions:
    """The same, without verification that a transaction is open."""
    small = late_produces(options)
    settings = {**small.cluster.settings, "transaction.partition.verification.enable": "false"}
    return small._replace(cluster=small.cluster._replace(settings=settings))


def deposing(options: TransactionOptions) -> TransactionOptions:
    """Coordinators are replaced while what they have sent is held up."""
    small = classic(few(options))
    return small._replace(
        tellers=4,
        strikes=StrikeOptions(chance=0.4, blows=("depose",), steps=(VERDICT,)),
        habits=small.habits._replace(aborts=0.5, dwell_ms=200.0),
    )


def repeating(options: TransactionOptions) -> TransactionOptions:
    """Markers come again, late."""
    return few(options)._replace(strikes=StrikeOptions(markers_again=0.4))


def reading(options: TransactionOptions) -> TransactionOptions:
    """Much is aborted while others read."""
    return few(options)._replace(habits=Habits(aborts=0.5, dwell_ms=100.0))


def rolling(options: TransactionOptions) -> TransactionOptions:
    """Transactions over several segments."""
    small = reading(options)
    topic_settings = {"segment.bytes": "1500", "flush.ms": NEVER_MS}
    return small._replace(cluster=small.cluster._replace(topic_settings=topic_settings))


def killing(options: TransactionOptions) -> TransactionOptions:
    """A broker that has just written a step of a transaction dies; what it has written is
    replicated no further than its answer."""
    small = few(options)
    return small._replace(
        cluster=small.cluster._replace(net=NetProfile(latency_ms=10.0)),
        strikes=StrikeOptions(chance=0.1, blows=("kill",)),
    )


def killing_coordinators(options: TransactionOptions) -> TransactionOptions:
    """What a coordinator has just written reaches only the client."""
    small = killing(options)
    strikes = StrikeOptions(chance=0.3, blows=("kill",), steps=(TRANSACTIONS_TOPIC,))
    return small._replace(strikes=strikes, readers=1)


def watching(options: TransactionOptions) -> TransactionOptions:
    """Much is read where much is committed, over a slow network."""
    small = few(options)
    return small._replace(
        cluster=small.cluster._replace(net=NetProfile(latency_ms=10.0)),
        readers=4,
        habits=Habits(aborts=0.1, dwell_ms=20.0),
    )


def piping(options: TransactionOptions) -> TransactionOptions:
    """Pipelines, whose brokers die in the middle of transactions."""
    small = killing(options)
    net = NetProfile(latency_ms=2.0)
    return small._replace(
        cluster=small.cluster._replace(net=net), tellers=1, pipes=2, disturbs=True
    )


def sharing(options: TransactionOptions) -> TransactionOptions:
    """Pipelines whose processes take turns as members of a group, and sleep over their turn."""
    small = few(options)
    return small._replace(
        cluster=small.cluster._replace(chaos_s=20.0),
        has_members=True,
        tellers=1,
        pipes=3,
        habits=Habits(dwell_ms=200.0),
        disturbs=True,
        disturbances=("rival",),
        sleeps_s=(5.0, 8.0),
    )


def handing_over(options: TransactionOptions) -> TransactionOptions:
    """Coordinators take turns without dying."""
    small = few(options, "expire_session", "expire_session", "pause", "cut_store")
    return small._replace(
        strikes=StrikeOptions(chance=0.03, blows=("depose", "pause")), disturbs=True
    )


def stranding(options: TransactionOptions) -> TransactionOptions:
    """Pipelines that return to a replaced coordinator that only they can reach.

    They have no members: heartbeats would show them first that it is the wrong one.
    """
    small = few(options, "strand")
    return small._replace(
        cluster=small.cluster._replace(chaos_s=20.0, fault_mean_ms=3_000.0),
        strikes=StrikeOptions(chance=0.05, blows=("strand",), steps=(OFFSETS_TOPIC,)),
        tellers=1,
        pipes=3,
        has_members=False,
        habits=Habits(aborts=0.1, forgets=0.2),
    )


def toppling(options: TransactionOptions) -> TransactionOptions:
    """Leaders lose what they have not replicated, and lead again soon."""
    small = few(options, "topple", "expire_session")
    strikes = StrikeOptions(chance=0.1, blows=("depose",), steps=(PRODUCE,))
    return small._replace(
        cluster=small.cluster._replace(fault_mean_ms=1_500.0, chaos_s=16.0), strikes=strikes
    )


def deaf(options: TransactionOptions) -> TransactionOptions:
    """Answers are lost, the transaction is given up, its sequences are used again."""
    small = classic(few(options))
    return small._replace(habits=Habits(aborts=0.1, deaf=0.2))
