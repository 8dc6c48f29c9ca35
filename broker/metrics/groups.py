"""Groups that are coordinated here: committed offsets, lag, members, under kafka_exporter's names.

The lag needs the partition's high watermark, which this broker knows of partitions that it has a
replica of (a follower's may be a moment old); of others the committed offset alone is told.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from ottla.broker.coordinating.shards import ShardState
from ottla.broker.metrics.exposition import GAUGE, Family
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ottla.broker.coordinating.groups import GroupCoordinator
    from ottla.broker.metrics.exposition import Sample
    from ottla.broker.partitions.partitions import Partitions
    from ottla.coordinator.group.shard import GroupShard
    from ottla.coordinator.group.summaries import GroupSummary, PartitionCommit

_PLACE = ("consumergroup", "topic", "partition")
# What the newer protocol says beside these is told as it comes.
_STATES = ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead")


class _Committed(NamedTuple):
    labels: tuple[str, str, str]
    offset: int
    lag: int | None


def group_families(groups: GroupCoordinator, partitions: Partitions) -> Iterator[Family]:
    """Read again for each family: copying a million offsets would block the event loop."""
    yield Family(
        GAUGE,
        "kafka_consumergroup_members",
        "Members of the group.",
        _PLACE[:1],
        (((one.group_id,), one.member_count) for one in _standings(groups)),
    )
    yield Family(
        GAUGE,
        "kafka_consumergroup_current_offset",
        "Offset that the group has committed.",
        _PLACE,
        ((one.labels, one.offset) for one in _committed(groups, partitions)),
    )
    yield Family(
        GAUGE,
        "kafka_consumergroup_lag",
        "Records between the committed offset and the partition's high watermark.",
        _PLACE,
        ((one.labels, one.lag) for one in _committed(groups, partitions) if one.lag is not None),
    )
    yield Family(
        GAUGE,
        "kafka_consumergroup_current_offset_sum",
        "Sum of the offsets that the group has committed in the topic.",
        _PLACE[:2],
        _sums(groups, partitions, lambda one: one.offset),
    )
    yield Family(
        GAUGE,
        "kafka_consumergroup_lag_sum",
        "Sum of the group's lag in the topic.",
        _PLACE[:2],
        _sums(groups, partitions, lambda one: one.lag),
    )
    yield Family(
        GAUGE,
        "kafka_coordinator_group_groupmetadatamanager_numgroups",
        "Groups that are coordinated here, by state.",
        ("state",),
        _states(groups),
    )


def _active_machines(groups: GroupCoordinator) -> list[Any]:
    return [shard.machine for shard in groups.shards if shard.state is ShardState.ACTIVE]


def _load_summaries() -> tuple[
    Callable[[GroupShard], Iterator[GroupSummary]],
    Callable[[GroupShard], Iterator[PartitionCommit]],
]:
    """Called when there is a group: a broker without groups has not loaded their code."""
    from ottla.coordinator.group.summaries import group_summaries, partition_commits

    return group_summaries, partition_commits


def _standings(groups: GroupCoordinator) -> Iterator[GroupSummary]:
    for machine in _active_machines(groups):
        group_summaries, _ = _load_summaries()
        yield from group_summaries(machine)


def _committed(groups: GroupCoordinator, partitions: Partitions) -> Iterator[_Committed]:
    for machine in _active_machines(groups):
        _, partition_commits = _load_summaries()
        for group_id, place, offset in partition_commits(machine):
            here = partitions.find(*place)
            lag = None if here is None else max(0, here.replica.high_watermark - offset)
            yield _Committed((group_id, place.topic, str(place.partition)), offset, lag)


def _states(groups: GroupCoordinator) -> Iterator[Sample]:
    counts = Counter(dict.fromkeys(_STATES, 0))
    counts.update(one.state for one in _standings(groups))
    yield from (((state,), count) for state, count in counts.items())


def _sums(
    groups: GroupCoordinator,
    partitions: Partitions,
    read: Callable[[_Committed], int | None],
) -> Iterator[Sample]:
    sums: Counter[tuple[str, str]] = Counter()
    for one in _committed(groups, partitions):
        value = read(one)
        if value is not None:
            sums[one.labels[:2]] += value
    yield from sums.items()
