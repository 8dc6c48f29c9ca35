"""Evidence that members of groups have collected in one run, in the order of the run's history."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from tests.simulation.groups.claims import Claims

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.history import History, Partition


class Owned(NamedTuple):
    """SyncGroup gave these partitions to a member. ``owner``: its static name, or its id."""

    asked: int
    answered: int
    group: str
    generation: int
    owner: str
    partitions: tuple[Partition, ...]


class Told(NamedTuple):
    """A member learned its epoch, or its generation. ``membership`` differs between two lives of a
    member, and where it had to rejoin; ``is_join``: it began with this."""

    asked: int
    answered: int
    group: str
    member_id: str
    membership: int
    epoch: int
    is_join: bool


class Outcome(Enum):
    """The outcome of a commit, as far as it is known."""

    UNKNOWN = auto()
    ACKNOWLEDGED = auto()
    REFUSED = auto()


@dataclass(slots=True)
class Commit:
    """A member wanted an offset stored. ``held_since``: when it took up the partition, None where
    that is not known to count."""

    asked: int
    group: str
    generation: int
    partition: Partition
    offset: int
    outcome: Outcome = Outcome.UNKNOWN
    answered: int = 0
    member_id: str = ""
    membership: int = 0
    held_since: int | None = None

    def settle(self, outcome: Outcome, order: int) -> None:
        """Record the outcome that the broker reported."""
        self.outcome, self.answered = outcome, order


class Fetched(NamedTuple):
    """OffsetFetch told an offset; -1: none is stored."""

    asked: int
    answered: int
    group: str
    partition: Partition
    offset: int


class GroupEvidence:
    """Filled by members and auditors, read by the checkers afterwards.

    ``durable``: the offsets topic promises an fsync before each answer. ``owned`` is of classic
    groups without members of the newer protocol; in others generations do not count rounds.
    """

    def __init__(
        self, history: History, now_s: Callable[[], float], *, durable: bool = False
    ) -> None:
        self.history = history
        self.durable = durable
        self.claims = Claims(history, now_s)
        self.owned: list[Owned] = []
        self.told: list[Told] = []
        self.commits: list[Commit] = []
        self.fetched: list[Fetched] = []
        # Groups that only members of the newer protocol join, and those that have members of both.
        self.consumer_groups: set[str] = set()
        self.mixed_groups: set[str] = set()
        # By group and partition, the offsets and values that some member was shown.
        self.seen: dict[tuple[str, Partition], set[tuple[int, bytes]]] = {}
        self._memberships = 0

    def new_membership(self) -> int:
        """A number for a member that begins."""
        self._memberships += 1
        return self._memberships

    def on_loss(self) -> None:
        """The broker's disk has forgotten what was not flushed."""
        if not self.durable:
            self.claims.forget()

    def losses(self) -> list[int]:
        """When what groups were told may have been forgotten."""
        return [] if self.durable else [loss.order for loss in self.history.losses]

    def last_loss(self, before: int) -> int:
        """The last of them before a moment; -1: there was none."""
        return max((loss for loss in self.losses() if loss < before), default=-1)

    def show(self, group: str, partition: Partition, offset: int, value: bytes) -> None:
        """A member was shown a record."""
        self.seen.setdefault((group, partition), set()).add((offset, value))
