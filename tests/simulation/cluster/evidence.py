"""The history of a cluster's clients, and its verdict: what replication promises, checked."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.simulation.checkers import (
    agreement,
    duplicates,
    liveness,
    offsets,
    ordering,
    phantoms,
    replies,
    survival,
)
from tests.simulation.history import History, Partition

# Watermarks are left out: that of a new leader may lag behind what the old one has told (KIP-207).
PROMISED = (liveness, survival, agreement, duplicates, phantoms, ordering, offsets, replies)
# An unclean election may drop the end of a log; what is left must still be a log.
PROMISED_UNCLEAN = (liveness, duplicates, phantoms, offsets, replies)


@dataclass(slots=True)
class ClusterHistory(History):
    """``acknowledged``: partition and last offset of each batch that acks=all has confirmed."""

    acknowledged: list[tuple[Partition, int]] = field(default_factory=list)

    def acknowledged_since(self, index: int) -> list[tuple[Partition, int]]:
        """Acknowledged writes from ``index`` on."""
        return self.acknowledged[index:]


def _untrimmed(history: ClusterHistory) -> list[str]:
    """What DeleteRecords has confirmed stays deleted, under every later leader."""
    return [
        f"back: {told.partition} was deleted up to {told.log_start} and begins at {final.start}"
        for told in history.watermarks
        if told.promised and (final := history.finals.get(told.partition)) is not None
        if final.start < told.log_start
    ]


def judge_cluster(history: ClusterHistory, *, clean: bool) -> list[str]:
    """Every violation that any family finds."""
    found = [f"surprise: {surprise}" for surprise in history.surprises]
    if clean:
        found += _untrimmed(history)
    for family in PROMISED if clean else PROMISED_UNCLEAN:
        found += family.check(history)
    return found
