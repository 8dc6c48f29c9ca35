"""Which member may believe to own which partition, and for how long.

A member's claim to a partition begins when it takes it up and ends when it lets go, dies or learns
that it was removed. The broker may take it away earlier only as the protocol says: when the member
was silent for its session, or took too long to follow its assignment. No other member may take it
up earlier.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.simulation.history import History, Partition


class Owner(NamedTuple):
    """One life of a member. ``name``: its machine."""

    name: str
    group: str
    member_id: str


@dataclass(slots=True)
class Claim:
    """One member and one partition. ``asked``: when the request was sent whose answer gave it."""

    owner: Owner
    partition: Partition
    asked: int
    taken: int
    since_s: float
    lease_s: float
    until_s: float = math.inf

    @property
    def end_s(self) -> float:
        """From here on it counts no more."""
        return max(self.since_s, min(self.until_s, self.lease_s))


class Claims:
    """Of all members of a run. ``held`` is what each believes, whether it counts or not."""

    def __init__(self, history: History, now_s: Callable[[], float]) -> None:
        self.all: list[Claim] = []
        self.held: dict[str, set[Partition]] = {}
        self.now_s = now_s
        self._history = history
        self._open: dict[str, dict[Partition, Claim]] = {}
        self._forgotten = -1

    def take(
        self, owner: Owner, partitions: Iterable[Partition], asked: int, lease_s: float
    ) -> None:
        """The member works on these from now on."""
        taken, now_s = self._history.tick(), self.now_s()
        for partition in sorted(partitions):
            self.held.setdefault(owner.name, set()).add(partition)
            if asked > self._forgotten:
                claim = Claim(owner, partition, asked, taken, now_s, lease_s)
                self.all.append(claim)
                self._open.setdefault(owner.name, {})[partition] = claim

    def extend(self, name: str, lease_s: float) -> None:
        """The coordinator has confirmed the membership."""
        for claim in self._open.get(name, {}).values():
            claim.lease_s = max(claim.lease_s, lease_s)

    def drop(self, name: str, partitions: Iterable[Partition] | None = None) -> None:
        """The member has given up these partitions, or all."""
        held, claims = self.held.get(name, set()), self._open.get(name, {})
        for partition in list(held if partitions is None else partitions):
            held.discard(partition)
            claim = claims.pop(partition, None)
            if claim is not None:
                claim.until_s = self.now_s()

    def forget(self) -> None:
        """The log has lost what it promised: what was given out before counts no more."""
        self._forgotten = self._history.tick()
        for claims in self._open.values():
            for claim in claims.values():
                claim.until_s = self.now_s()
            claims.clear()

    def since(self, name: str, partition: Partition) -> int | None:
        """When the member took it up; None where that does not count."""
        claim = self._open.get(name, {}).get(partition)
        return None if claim is None else claim.taken
