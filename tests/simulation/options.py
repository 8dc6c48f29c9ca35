"""Swarm configuration: what each seed draws for itself before anything runs.

Runs that are all alike find the same bugs. So every seed has its own sizes, ages of clients and
menu of faults, printed with it when it fails.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.simulation.world.disk import DiskProfile
from tests.simulation.world.links import NetProfile
from tests.simulation.world.node import MachineProfile
from tests.simulation.world.random import SimRandom

PROCESS_FAULTS = ("kill", "kill", "stop", "pause", "power_cut")
NETWORK_FAULTS = ("cut", "cut_one_way", "reset", "hold", "slow", "swizzle")
DISK_FAULTS = ("fsync_loses", "append_fails", "disk_full", "read_only", "slow_disk", "read_fails")
CLOCK_FAULTS = ("wall_jump",)


class Options(NamedTuple):
    """One seed's configuration."""

    chaos_s: float
    topics: int
    partitions: int
    producers: int
    consumers: int
    pace_ms: float
    fault_mean_ms: float
    faults: tuple[str, ...]
    ordered_cuts: bool
    keeps_topics: bool
    trims: bool
    settings: dict[str, str]
    topic_settings: dict[str, str]
    net: NetProfile
    machine: MachineProfile

    @property
    def is_durable(self) -> bool:
        """Whether each acknowledgement promises an fsync."""
        return self.topic_settings.get("flush.messages") == "1"

    @property
    def may_trim(self) -> bool:
        """Whether records may be gone from the beginning of a log."""
        return self.trims or "retention.bytes" in self.topic_settings

    @property
    def has_disk_faults(self) -> bool:
        """Whether the broker has reason to refuse, to complain or to die."""
        return bool({*self.faults} & {*DISK_FAULTS})


def draw_options(seed: int, chaos_s: float = 6.0) -> Options:
    """Everything follows from the seed."""
    random = SimRandom(seed, "options")
    return Options(
        chaos_s=chaos_s,
        topics=random.choice((1, 1, 2)),
        partitions=random.choice((1, 2, 3)),
        producers=random.choice((1, 2, 3)),
        consumers=random.choice((0, 1, 2)),
        pace_ms=random.choice((20.0, 60.0, 200.0)),
        fault_mean_ms=random.choice((300.0, 800.0, 2_000.0)),
        faults=_draw_faults(random),
        ordered_cuts=random.chance(0.5),
        keeps_topics=random.chance(0.4),
        trims=random.chance(0.25),
        settings=_draw_settings(random),
        topic_settings=_draw_topic_settings(random),
        net=_draw_net(random),
        machine=_draw_machine(random),
    )


def _draw_faults(random: SimRandom) -> tuple[str, ...]:
    """Each family is on in about half of the seeds; one seed in ten has no faults at all."""
    if random.chance(0.1):
        return ()
    faults: list[str] = []
    for family in (PROCESS_FAULTS, NETWORK_FAULTS, DISK_FAULTS, CLOCK_FAULTS):
        if random.chance(0.55):
            count = 1 + random.below(len(family))
            faults += random.sample(family, count)
    return tuple(faults) or ("kill",)


def _draw_settings(random: SimRandom) -> dict[str, str]:
    settings = {
        "num.network.threads": str(random.choice((1, 2, 3))),
        "num.io.threads": str(random.choice((1, 2, 8))),
        "queued.max.requests": str(random.choice((1, 4, 500))),
        "log.flush.scheduler.interval.ms": str(random.choice((100, 1_000, 3_000))),
        "log.retention.check.interval.ms": str(random.choice((200, 1_000))),
        "log.flush.offset.checkpoint.interval.ms": str(random.choice((200, 1_000, 60_000))),
    }
    if random.chance(0.3):
        settings["socket.send.buffer.bytes"] = str(random.choice((1_024, 8_192)))
    return settings


def _draw_topic_settings(random: SimRandom) -> dict[str, str]:
    settings = {
        "segment.bytes": str(random.choice((1_500, 6_000, 1_048_576, 1_048_576))),
        "index.interval.bytes": str(random.choice((1, 256, 4_096))),
    }
    if random.chance(0.25):
        settings["retention.bytes"] = str(random.choice((5_000, 30_000)))
        settings["file.delete.delay.ms"] = str(random.choice((0, 200, 5_000)))
    kind = random.below(5)
    if kind <= 1:
        settings["flush.messages"] = "1"
    elif kind == 2:
        settings["flush.messages"] = str(random.choice((3, 20)))
    elif kind == 3:
        settings["flush.ms"] = str(random.choice((50, 400)))
    return settings


def _draw_net(random: SimRandom) -> NetProfile:
    return NetProfile(
        latency_ms=random.choice((0.05, 0.2, 1.0, 10.0)),
        spike_probability=random.choice((0.0, 0.01, 0.05)),
        spike_ms=random.choice((50.0, 500.0, 2_500.0)),
        fragment_probability=random.choice((0.0, 0.2, 1.0)),
        buffer_bytes=random.choice((600, 4_096, 131_072, 131_072)),
        sendfile=random.chance(0.8),
    )


def _draw_machine(random: SimRandom) -> MachineProfile:
    disk = DiskProfile(
        fsync_ms=random.choice((0.2, 2.0, 30.0)),
        name_operation_ms=random.choice((0.05, 0.5, 5.0)),
        cold_probability=random.choice((0.0, 0.05, 1.0)),
        spike_probability=random.choice((0.0, 0.02)),
        spike_ms=random.choice((100.0, 1_500.0)),
    )
    return MachineProfile(
        clock_rate=random.choice((1.0, 0.999, 1.001)),
        wall_offset_ms=random.choice((0.0, -3_600_000.0, 86_400_000.0)),
        disk=disk,
    )
