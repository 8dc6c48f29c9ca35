"""The options that each seed draws for its cluster; printed with the seed when it fails.

Where power is cut, one broker at a time stops uncleanly: brokers cannot tell a power cut from a
kill, and copies that vanish together are beyond what replication promises; unless the topics flush
before they acknowledge.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.simulation.clients.producers import Kind
from tests.simulation.cluster.ensemble import StoreProfile
from tests.simulation.world.disk import DiskProfile
from tests.simulation.world.links import NetProfile
from tests.simulation.world.node import MachineProfile
from tests.simulation.world.random import SimRandom

PROCESS_FAULTS = (
    "kill",
    "kill",
    "kill_slow",
    "stop",
    "pause",
    "pause",
    "topple",
    "topple",
    "strike_expansion",
    "take_over",
)
NETWORK_FAULTS = (
    "isolate",
    "cut_peer",
    "cut_peer_one_way",
    "cut_clients",
    "split",
    "reset",
    "hold",
    "slow",
)
STORE_FAULTS = (
    "cut_store",
    "cut_store_one_way",
    "expire_session",
    "drop_store_connection",
    "lose_quorum",
    "isolate_from_peers_only",
    "delete_controller",
)
DISK_FAULTS = ("slow_disk", "disk_full")
# Drawn by no seed: only for options that are aimed at it.
LASTING_DISK_FAULTS = ("disk_stays_full",)
CLOCK_FAULTS = ("wall_jump",)
FAMILIES = (PROCESS_FAULTS, NETWORK_FAULTS, STORE_FAULTS, DISK_FAULTS, CLOCK_FAULTS)
# Faults after which a broker may have lost what it had not yet written to the disk.
POWER_FAULTS = (
    "power_cut",
    "power_cut",
    "power_cut_joiner",
    "pause",
    "cut_peer",
    "expire_session",
    "isolate",
    "slow",
    "kill",
    "stop",
    "topple",
    "strike_restarted",
    "replace_joiner",
    "rot",
)


REPEATERS = (Kind.RESENDING, Kind.RENUMBERING)
NEVER_MS = str((1 << 63) - 1)
# With what comes before and after, a run lasts thirty virtual seconds on average.
CHAOS_S = (14.0, 20.0, 30.0)


class ClusterOptions(NamedTuple):
    """One seed's configuration. Durations are virtual."""

    chaos_s: float
    brokers: int
    replicas: int
    min_insync: int
    unclean: bool
    topics: int
    partitions: int
    producers: int
    consumers: int
    pace_ms: float
    fault_mean_ms: float
    faults: tuple[str, ...]
    keeps_topics: bool
    # Producers that store twice what the leader is wrong about.
    repeaters: tuple[Kind, ...]
    moves: bool
    reads_followers: bool
    session_timeout_ms: int
    lag_time_ms: int
    settings: dict[str, str]
    topic_settings: dict[str, str]
    net: NetProfile
    store: StoreProfile
    machines: tuple[MachineProfile, ...]
    # Logs that retention and DeleteRecords shorten at their start while they are moved.
    trims: bool = False

    @property
    def cuts_power(self) -> bool:
        """Whether no other broker stops uncleanly until a loss of power is made good."""
        return "power_cut" in self.faults and not self.flushes

    @property
    def flushes(self) -> bool:
        """Whether no loss of power is excused, however many lose it."""
        return self.topic_settings.get("ottla.flush.before.ack") == "true"

    @property
    def has_disk_faults(self) -> bool:
        """Whether a broker has reason to complain about its disk."""
        return bool({*self.faults} & {*DISK_FAULTS, *LASTING_DISK_FAULTS})


def draw_cluster_options(seed: int, chaos_s: float | None = None) -> ClusterOptions:
    """Everything follows from the seed."""
    random = SimRandom(seed, "cluster options")
    brokers = random.choice((3, 3, 3, 3, 5))
    replicas = random.choice((3, 3, 3, 3, 2))
    unclean = random.chance(0.08)
    faults = _draw_faults(random)
    min_insync = 2
    if replicas == 2 or unclean:
        min_insync = random.choice((1, 2))
    if "power_cut" in faults:
        min_insync, unclean = 2, False
    session_timeout_ms = random.choice((2_000, 3_000, 6_000))
    options = ClusterOptions(
        chaos_s=random.choice(CHAOS_S) if chaos_s is None else chaos_s,
        brokers=brokers,
        replicas=replicas,
        min_insync=min_insync,
        unclean=unclean,
        topics=random.choice((1, 1, 2)),
        partitions=random.choice((1, 2, 4)),
        producers=random.choice((1, 2, 2)),
        consumers=random.choice((0, 1, 1, 2)),
        pace_ms=random.choice((80.0, 200.0, 500.0)),
        fault_mean_ms=random.choice((400.0, 1_000.0, 2_500.0)),
        faults=faults,
        keeps_topics=random.chance(0.3) and not unclean,
        repeaters=REPEATERS if SimRandom(seed, "repeaters").chance(0.4) else (),
        moves=random.chance(0.35),
        reads_followers=random.chance(0.3),
        session_timeout_ms=session_timeout_ms,
        lag_time_ms=random.choice((1_000, 2_000, 5_000)),
        settings=_draw_settings(random),
        topic_settings=_draw_topic_settings(random),
        net=_draw_net(random),
        store=_draw_store(random),
        machines=tuple(_draw_machine(random) for _ in range(brokers)),
    )
    is_tiny = options.topic_settings["segment.bytes"] == "1500"
    if is_tiny:
        options = options._replace(machines=tuple(map(_with_fast_disk, options.machines)))
    if "power_cut" in faults and not is_tiny and SimRandom(seed, "flushes").chance(0.5):
        settings = {**options.topic_settings, "ottla.flush.before.ack": "true"}
        # The keeper's topics do not flush; and what was flushed is lost with its disk.
        lasting = tuple(fault for fault in faults if fault not in ("replace_joiner", "rot"))
        return options._replace(topic_settings=settings, keeps_topics=False, faults=lasting)
    return options


def with_trimming(options: ClusterOptions, seed: int) -> ClusterOptions:
    """One seed in four trims its logs, by requests, by size or both, and moves them.

    Apart from the other options, which other scenarios start from."""
    random = SimRandom(seed, "trims")
    if options.unclean or not random.chance(0.25):
        return options
    topic_settings, settings = dict(options.topic_settings), dict(options.settings)
    if random.chance(0.5):
        topic_settings["retention.bytes"] = str(random.choice((3_000, 12_000)))
        topic_settings["segment.bytes"] = random.choice(("1500", "6000"))
        settings["log.retention.check.interval.ms"] = str(random.choice((200, 1_000)))
        settings["log.segment.delete.delay.ms"] = str(random.choice((0, 1_000)))
        options = options._replace(machines=tuple(map(_with_fast_disk, options.machines)))
    return options._replace(
        trims=True, moves=True, topic_settings=topic_settings, settings=settings
    )


def _draw_faults(random: SimRandom) -> tuple[str, ...]:
    """One seed in twelve is calm, one in six cuts power; each family is on in half of the rest."""
    kind = random.random()
    if kind < 0.08:
        return ()
    if kind < 0.25:
        rest = random.sample(POWER_FAULTS, 1 + random.below(len(POWER_FAULTS)))
        return ("power_cut", *rest)
    faults: list[str] = []
    for family in FAMILIES:
        if random.chance(0.5):
            faults += random.sample(family, 1 + random.below(len(family)))
    return tuple(faults) or ("kill", "pause")


def _draw_settings(random: SimRandom) -> dict[str, str]:
    return {
        "num.io.threads": str(random.choice((1, 2, 8))),
        "num.replica.fetchers": str(random.choice((1, 2))),
        "replica.fetch.wait.max.ms": str(random.choice((50, 200, 500))),
        "replica.fetch.min.bytes": str(random.choice((1, 1, 500))),
        "replica.fetch.max.bytes": str(random.choice((2_000, 20_000, 1_048_576))),
        "replica.fetch.backoff.ms": str(random.choice((20, 200, 1_000))),
        "replica.high.watermark.checkpoint.interval.ms": str(random.choice((100, 1_000, 5_000))),
        "log.flush.scheduler.interval.ms": str(random.choice((100, 1_000, 3_000))),
        "log.flush.offset.checkpoint.interval.ms": str(random.choice((200, 1_000, 60_000))),
    }


def _draw_topic_settings(random: SimRandom) -> dict[str, str]:
    settings = {
        "segment.bytes": str(random.choice((1_500, 6_000, 1_048_576, 1_048_576))),
        "index.interval.bytes": str(random.choice((1, 256, 4_096))),
    }
    # Mostly flushes are not requested: unless told otherwise, a topic asks for one at each turn of
    # the scheduler.
    if settings["segment.bytes"] == "1500" or random.chance(0.6):
        settings["flush.ms"] = NEVER_MS
    if random.chance(0.2) and settings["segment.bytes"] != "1500":
        settings["flush.messages"] = str(random.choice((1, 20)))
    return settings


def _draw_net(random: SimRandom) -> NetProfile:
    return NetProfile(
        latency_ms=random.choice((0.1, 0.5, 2.0, 10.0)),
        spike_probability=random.choice((0.0, 0.002, 0.01)),
        spike_ms=random.choice((50.0, 500.0)),
        fragment_probability=random.choice((0.0, 0.0, 0.2)),
        buffer_bytes=random.choice((4_096, 131_072, 131_072)),
        sendfile=random.chance(0.8),
    )


def _draw_store(random: SimRandom) -> StoreProfile:
    loses = random.choice((0.0, 0.0, 0.01, 0.05))
    return StoreProfile(
        commit_ms=random.choice((0.5, 2.0, 10.0, 60.0)),
        lag_probability=random.choice((0.0, 0.1, 0.5)),
        lag_ms=random.choice((20.0, 200.0)),
        loses_request=loses / 2,
        loses_answer=loses,
    )


def _draw_machine(random: SimRandom) -> MachineProfile:
    disk = DiskProfile(
        fsync_ms=random.choice((0.2, 2.0, 30.0)),
        name_operation_ms=random.choice((0.05, 0.5, 3.0)),
        cold_probability=random.choice((0.0, 0.0, 0.05)),
        spike_probability=random.choice((0.0, 0.01)),
        spike_ms=random.choice((100.0, 1_000.0)),
    )
    return MachineProfile(
        clock_rate=random.choice((1.0, 0.999, 1.001)),
        wall_offset_ms=random.choice((0.0, -60_000.0, 5_000.0)),
        disk=disk,
    )


def _with_fast_disk(machine: MachineProfile) -> MachineProfile:
    """Hundreds of tiny files are not flushed as fast as they are written by a slow one."""
    disk = machine.disk._replace(fsync_ms=min(machine.disk.fsync_ms, 2.0))
    return machine._replace(disk=disk)
