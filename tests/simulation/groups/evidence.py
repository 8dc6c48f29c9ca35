"""What members of groups have witnessed in one run, in the order of the run's history."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tests.simulation.history import History, Partition


class Owned(NamedTuple):
    """SyncGroup gave these partitions to a member. ``owner``: its static name, or its id."""

    asked: int
    answered: int
    group: str
    generation: int
    owner: str
    partitions: tuple[Partition, ...]


class Outcome(Enum):
    """What is known of a commit."""

    UNKNOWN = auto()
    ACKNOWLEDGED = auto()
    REFUSED = auto()


@dataclass(slots=True)
class Commit:
    """A member wanted an offset stored."""

    asked: int
    group: str
    generation: int
    partition: Partition
    offset: int
    outcome: Outcome = Outcome.UNKNOWN
    answered: int = 0

    def settle(self, outcome: Outcome, order: int) -> None:
        """The broker has said so."""
        self.outcome, self.answered = outcome, order


class Fetched(NamedTuple):
    """OffsetFetch told an offset; -1: none is stored."""

    asked: int
    answered: int
    group: str
    partition: Partition
    offset: int


@dataclass(slots=True)
class GroupEvidence:
    """Filled by members and auditors, read by the checkers afterwards.

    ``durable``: the offsets topic promises an fsync before each answer."""

    history: History
    durable: bool = False
    owned: list[Owned] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    fetched: list[Fetched] = field(default_factory=list)
    # By group and partition, the offsets and values that some member was shown.
    seen: dict[tuple[str, Partition], set[tuple[int, bytes]]] = field(default_factory=dict)

    def losses(self) -> list[int]:
        """When what groups were told may have been forgotten."""
        return [] if self.durable else [loss.order for loss in self.history.losses]

    def last_loss(self, before: int) -> int:
        """The last of them before a moment; -1: there was none."""
        return max((loss for loss in self.losses() if loss < before), default=-1)

    def show(self, group: str, partition: Partition, offset: int, value: bytes) -> None:
        """A member was shown a record."""
        self.seen.setdefault((group, partition), set()).add((offset, value))
