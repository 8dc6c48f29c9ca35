"""Options of a simulated cluster whose faults are aimed at one kind of bug."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.cluster.ensemble import StoreProfile

if TYPE_CHECKING:
    from tests.simulation.cluster.options import ClusterOptions


def few(options: ClusterOptions, *faults: str) -> ClusterOptions:
    """Three brokers, all of them replicas of few partitions that are much written to."""
    return options._replace(
        brokers=3,
        replicas=3,
        min_insync=2,
        unclean=False,
        topics=1,
        partitions=2,
        producers=2,
        pace_ms=60.0,
        chaos_s=16.0,
        fault_mean_ms=700.0,
        faults=faults,
        keeps_topics=False,
        moves=False,
        reads_followers=False,
        session_timeout_ms=2_000,
        lag_time_ms=1_000,
        store=options.store._replace(loses_request=0.0, loses_answer=0.0),
        machines=(*options.machines, *options.machines)[:3],
    )


def toppling(options: ClusterOptions) -> ClusterOptions:
    return few(options, "topple", "topple", "kill", "cut_peer", "isolate", "stop")


def lagging(options: ClusterOptions) -> ClusterOptions:
    """A follower falls behind, is about to come back, and then the leader goes."""
    small = few(options, "cut_peer", "kill", "topple", "topple", "slow", "hold")
    settings = {**small.settings, "replica.fetch.max.bytes": "500"}
    net = small.net._replace(latency_ms=5.0)
    return small._replace(settings=settings, fault_mean_ms=400.0, net=net, pace_ms=40.0)


def taking_over(options: ClusterOptions) -> ClusterOptions:
    """One leader after another, while replicas are on their way back into the in-sync set."""
    small = few(options, "topple", "topple", "topple", "kill")
    net = small.net._replace(latency_ms=10.0)
    store = StoreProfile(commit_ms=60.0)
    return small._replace(fault_mean_ms=300.0, net=net, store=store, pace_ms=30.0)


def expanding(options: ClusterOptions) -> ClusterOptions:
    """Whoever is being added falls behind, the leader does not hear that it was, and goes."""
    small = few(options, "strike_expansion", "kill", "cut_peer")
    return small._replace(fault_mean_ms=500.0, store=StoreProfile(commit_ms=20.0))


def power(options: ClusterOptions) -> ClusterOptions:
    small = few(options, "power_cut", "power_cut_joiner", "power_cut_joiner", "pause")
    slow = StoreProfile(commit_ms=60.0)
    topic_settings = {"segment.bytes": "20000", "index.interval.bytes": "1"}
    return small._replace(store=slow, fault_mean_ms=400.0, topic_settings=topic_settings)


def controllers(options: ClusterOptions) -> ClusterOptions:
    small = few(options, "delete_controller", "expire_session", "pause", "kill", "topple")
    store = StoreProfile(
        commit_ms=10.0, lag_probability=0.5, lag_ms=300.0, loses_request=0.1, loses_answer=0.1
    )
    return small._replace(store=store, fault_mean_ms=400.0)
