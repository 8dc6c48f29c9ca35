"""The verdict on a history: every anomaly that was found, and whether it is one that Kafka never
allows. See the module of each check for what it means."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from tests.checker import contents, cycles, order
from tests.checker.view import View

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.checker.contents import Finding
    from tests.checker.history import Event

CHECKS = (
    contents.inconsistent_offsets,
    contents.duplicates,
    contents.lost_writes,
    contents.phantoms,
    contents.aborted_reads,
    contents.precommitted_reads,
    order.internal_order,
    order.external_order,
    order.inversions,
    cycles.circular_flow,
)
ALWAYS_ALLOWED = frozenset({"int-send-skip"})
# A rebalance may give a partition to a member that starts at the committed offset of the group.
SUBSCRIBED_ALLOWED = frozenset({"poll-skip", "nonmonotonic-poll"})


class Verdict(NamedTuple):
    """``violations`` are those that may never be; ``findings`` all of them, by name."""

    violations: list[Finding]
    findings: dict[str, list[Finding]]

    @property
    def is_good(self) -> bool:
        return not self.violations

    def told(self, limit: int = 10) -> list[str]:
        """Sentences, a few of each kind."""
        lines = []
        for name, found in self.findings.items():
            if any(one.anomaly == name for one in self.violations):
                lines += [f"{name}: {one.told}" for one in found[:limit]]
                if len(found) > limit:
                    lines.append(f"{name}: and {len(found) - limit} more")
        return lines


def judge(
    history: Sequence[Event], *, is_subscribed: bool = False, is_read_to_the_end: bool = True
) -> Verdict:
    """Look for everything. ``is_subscribed``: clients share partitions as a group.
    ``is_read_to_the_end``: after healing, all keys were polled up to their ends."""
    view = View(history)
    checks = [*CHECKS, contents.unseen] if is_read_to_the_end else list(CHECKS)
    findings: dict[str, list[Finding]] = defaultdict(list)
    for check in checks:
        for one in check(view):
            findings[one.anomaly].append(one)
    allowed = ALWAYS_ALLOWED | (SUBSCRIBED_ALLOWED if is_subscribed else frozenset())
    violations = [one for name, found in findings.items() if name not in allowed for one in found]
    return Verdict(violations, dict(findings))
