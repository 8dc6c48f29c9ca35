"""Sums over many seeds: counts that say how much was tried, and failures."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.world.world import Outcome

FAULT, TRANSACTIONS, RECORDS, LONGEST = "fault ", "transactions ", "records", "recovery ms"
STRIKE = " at "
# How a transaction ended, in the checker's words and in Kafka's.
ENDS = {"ok": "committed", "fail": "aborted", "info": "unknown"}
FAILED_MAX = 20


@dataclass(slots=True)
class Totals:
    """Of all seeds so far."""

    seeds: int = 0
    steps: int = 0
    virtual_s: float = 0.0
    failed: list[int] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    anomalies: Counter[str] = field(default_factory=Counter)
    longest_recovery_ms: int = 0
    _digests: dict[int, str] = field(default_factory=dict)

    def add(self, outcome: Outcome) -> None:
        """One more."""
        self.seeds += 1
        self.steps += outcome.steps
        self.virtual_s += outcome.virtual_s
        self._digests[outcome.seed] = outcome.digest
        counts = Counter(outcome.counts)
        self.longest_recovery_ms = max(self.longest_recovery_ms, counts.pop(LONGEST, 0))
        self.counts += counts
        self.anomalies.update(told.partition(":")[0] for told in outcome.violations)
        if not outcome.ok:
            self.failed.append(outcome.seed)

    def digest(self) -> str:
        """Digest of all stories, independent of their order."""
        whole = " ".join(f"{seed}={told}" for seed, told in sorted(self._digests.items()))
        return hashlib.sha256(whole.encode()).hexdigest()

    def told(self, elapsed_s: float) -> list[str]:
        """Lines for the end of a run."""
        pace = self.virtual_s / max(elapsed_s, 1e-9)
        lines = [
            f"{self.seeds} seeds, {len(self.failed)} failed {self.failed[:FAILED_MAX]}; "
            f"{self.virtual_s:.0f} virtual s in {elapsed_s:.0f} s, {pace:.0f} virtual s per s",
            f"anomalies: {_listed(self.anomalies)}",
        ]
        ends = {ENDS.get(name, name): n for name, n in self._of(TRANSACTIONS).items()}
        if ends:
            lines.append(f"transactions: {_listed(ends)}; records: {self.counts[RECORDS]}")
        strikes = {name: n for name, n in self.counts.items() if STRIKE in name}
        lines += [
            f"{title}: {_listed(counts)}"
            for title, counts in (("faults", self._of(FAULT)), ("strikes", strikes))
            if counts
        ]
        rest = {
            name: n
            for name, n in self.counts.items()
            if not name.startswith((FAULT, TRANSACTIONS, RECORDS)) and STRIKE not in name
        }
        rest |= {"steps": self.steps, "longest recovery ms": self.longest_recovery_ms}
        return [*lines, f"also: {_listed(rest)}", f"digest of all: {self.digest()}"]

    def _of(self, prefix: str) -> dict[str, int]:
        return {
            name.removeprefix(prefix): n
            for name, n in self.counts.items()
            if name.startswith(prefix)
        }


def _listed(counts: dict[str, int] | Counter[str]) -> str:
    """The most frequent first."""
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{name} {n}" for name, n in ranked) or "none"
