"""Plans the topics to create or grow on the target before copying. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

# Topic configs that a new topic on the target inherits, if they are set on the source's topic. Not
# included: those that depend on the number of brokers, and the timestamp type, because records keep
# their timestamps.
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
    """``create`` and ``grow`` give the partition count by the target's topic; ``too_few`` has the
    present and needed count of topics that may not grow."""

    create: dict[str, int]
    grow: dict[str, int]
    too_few: dict[str, tuple[int, int]]


def work(wanted: Mapping[str, int], there: Mapping[str, int], *, may_grow: bool) -> MirrorPlan:
    """Compare the partition counts that the target needs with those it has. A topic with more keeps
    them: other sources may need them."""
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
    """Two topics of one source with the same name on the target, or None."""
    seen: dict[str, str] = {}
    for topic, target in names.items():
        if target in seen:
            return seen[target], topic
        seen[target] = topic
    return None
