"""What has to be done on the target before anything can be copied there. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

# What a new topic on the target takes over, if it was set on the source's topic itself. Not among
# them: what depends on how many brokers there are, and whose time a record bears, because records
# keep the time that they have.
COPIED_CONFIGS = frozenset(
    {
        "cleanup.policy",
        "compression.type",
        "delete.retention.ms",
        "max.compaction.lag.ms",
        "max.message.bytes",
        "min.cleanable.dirty.ratio",
        "min.compaction.lag.ms",
        "retention.bytes",
        "retention.ms",
        "segment.bytes",
        "segment.ms",
    }
)


class MirrorPlan(NamedTuple):
    """``create`` and ``grow`` give the partition count by the target's name; ``too_few`` those that
    would have to grow and may not."""

    create: dict[str, int]
    grow: dict[str, int]
    too_few: dict[str, tuple[int, int]]


def work(wanted: Mapping[str, int], there: Mapping[str, int], *, may_grow: bool) -> MirrorPlan:
    """From the partition counts that the target needs and those that it has. A topic that has more
    keeps them: other sources may need them."""
    create, grow, too_few = {}, {}, {}
    for name, count in wanted.items():
        has = there.get(name)
        if has is None:
            create[name] = count
        elif has < count and may_grow:
            grow[name] = count
        elif has < count:
            too_few[name] = (has, count)
    return MirrorPlan(create, grow, too_few)


def two_into_one(names: Mapping[str, str]) -> tuple[str, str] | None:
    """Two topics of one source that would become the same on the target, if there are such."""
    seen: dict[str, str] = {}
    for topic, target in names.items():
        if target in seen:
            return seen[target], topic
        seen[target] = topic
    return None
