"""Options of a simulated cluster whose faults are aimed at one kind of bug."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.clients.producers import Kind
from tests.simulation.cluster.ensemble import StoreProfile
from tests.simulation.cluster.options import NEVER_MS

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
        repeaters=(),
        moves=False,
        reads_followers=False,
        session_timeout_ms=2_000,
        lag_time_ms=1_000,
        store=options.store._replace(loses_request=0.0, loses_answer=0.0),
        machines=(*options.machines, *options.machines)[:3],
        topic_settings={"segment.bytes": "20000", "flush.ms": NEVER_MS},
    )


def toppling(options: ClusterOptions) -> ClusterOptions:
    return few(options, "topple", "topple", "kill", "cut_peer", "isolate", "stop")


def losing_followers(options: ClusterOptions) -> ClusterOptions:
    """Brokers go and come back, slowly enough for their leaderships to stay elsewhere."""
    small = few(options, "kill", "stop", "kill", "pause")
    net = small.net._replace(latency_ms=5.0)
    return small._replace(repeaters=(Kind.RESENDING,), pace_ms=20.0, net=net)


def losing_followers_in_flight(options: ClusterOptions) -> ClusterOptions:
    """Epochs take longer to save than a producer to send its next requests."""
    small = losing_followers(options)
    machines = tuple(
        machine._replace(disk=machine.disk._replace(fsync_ms=15.0)) for machine in small.machines
    )
    # A follower that cannot keep up would stay outside.
    settings = {**small.settings, "replica.fetch.max.bytes": "1048576"}
    return small._replace(
        machines=machines,
        settings=settings,
        repeaters=(Kind.RENUMBERING,) * 3,
        producers=1,
        consumers=0,
        pace_ms=10.0,
        partitions=1,
    )


def lagging(options: ClusterOptions) -> ClusterOptions:
    """A follower falls behind, is about to come back, and then the leader goes."""
    small = few(options, "cut_peer", "kill", "topple", "topple", "slow", "hold")
    settings = {**small.settings, "replica.fetch.max.bytes": "2000"}
    net = small.net._replace(latency_ms=5.0)
    return small._replace(settings=settings, fault_mean_ms=400.0, net=net, pace_ms=40.0)


def silencing(options: ClusterOptions) -> ClusterOptions:
    """A leader loses all its followers and stays up, so that its high watermark does not move."""
    small = few(options, "isolate_from_peers_only", "cut_peer")
    return small._replace(fault_mean_ms=2_000.0, store=StoreProfile())


def taking_over(options: ClusterOptions) -> ClusterOptions:
    """The leader goes when only one other knows what it has just acknowledged, and that one goes
    when it has added a third; catching up takes a third many requests."""
    small = few(options, "take_over")
    settings = {**small.settings, "replica.fetch.max.bytes": "2000"}
    net = small.net._replace(latency_ms=3.0, spike_probability=0.0)
    return small._replace(
        settings=settings, fault_mean_ms=2_000.0, net=net, store=StoreProfile(), pace_ms=60.0
    )


def expanding(options: ClusterOptions) -> ClusterOptions:
    """The replica that is being added falls behind; the leader does not hear that it was added, and
    dies."""
    small = few(options, "strike_expansion", "kill", "cut_peer")
    return small._replace(fault_mean_ms=500.0, store=StoreProfile(commit_ms=20.0))


def power(options: ClusterOptions) -> ClusterOptions:
    small = few(options, "power_cut", "power_cut_joiner", "power_cut_joiner", "pause")
    slow = StoreProfile(commit_ms=60.0)
    topic_settings = {"segment.bytes": "20000", "index.interval.bytes": "1", "flush.ms": NEVER_MS}
    return small._replace(store=slow, fault_mean_ms=400.0, topic_settings=topic_settings)


def rejoining(options: ClusterOptions) -> ClusterOptions:
    """A replica loses data that was not on its disk while it is added to the ISR."""
    small = few(options, "power_cut", "replace_joiner", "replace_joiner", "replace_joiner")
    return _losing(small)._replace(session_timeout_ms=6_000)


def restarting(options: ClusterOptions) -> ClusterOptions:
    """Short losses of power, after each of which all other replicas go."""
    return _losing(few(options, "power_cut", "strike_restarted", "strike_restarted"))


def rotting(options: ClusterOptions) -> ClusterOptions:
    return _losing(few(options, "rot"))


def _losing(small: ClusterOptions) -> ClusterOptions:
    """Hardly anything is written to the disk before it must be."""
    topic_settings = {"segment.bytes": "1048576", "flush.ms": NEVER_MS}
    return small._replace(
        topic_settings=topic_settings,
        fault_mean_ms=1_500.0,
        store=StoreProfile(),
        chaos_s=24.0,
    )


def controllers(options: ClusterOptions) -> ClusterOptions:
    small = few(options, "delete_controller", "expire_session", "pause", "kill", "topple")
    store = StoreProfile(
        commit_ms=10.0, lag_probability=0.5, lag_ms=300.0, loses_request=0.1, loses_answer=0.1
    )
    return small._replace(store=store, fault_mean_ms=400.0)


def deleting(options: ClusterOptions) -> ClusterOptions:
    """Topics come and go while one broker after the other is away for longer than its session."""
    small = few(options, "kill_slow", "kill_slow", "stop")
    return small._replace(
        replicas=2, min_insync=1, keeps_topics=True, fault_mean_ms=1_500.0, store=StoreProfile()
    )


def filling(options: ClusterOptions) -> ClusterOptions:
    """One disk after the other is full for a while."""
    small = few(options, "disk_stays_full", "disk_full")
    return small._replace(chaos_s=30.0, fault_mean_ms=5_000.0, store=StoreProfile())
