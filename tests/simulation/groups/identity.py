"""The current identity of a member, for its requests and its evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.simulation.groups.claims import Owner
from tests.simulation.groups.evidence import Told

if TYPE_CHECKING:
    from tests.simulation.clients.client import Client
    from tests.simulation.groups.coordination import GroupVersions
    from tests.simulation.groups.evidence import GroupEvidence
    from tests.simulation.groups.terms import Terms


@dataclass(eq=False, slots=True)
class Identity:
    """One life of a member. ``generation``: its member epoch, with the newer protocol."""

    client: Client
    evidence: GroupEvidence
    terms: Terms
    instance_id: str | None
    versions: GroupVersions
    member_id: str = ""
    generation: int = -1
    membership: int = 0
    speaks_consumer: bool = False

    @property
    def owner(self) -> Owner:
        return Owner(self.client.name, self.terms.group, self.member_id)

    def begin(self) -> None:
        """Begin a new membership; the former one counts no more."""
        self.membership = 0

    def is_told(self, asked: int, generation: int) -> None:
        """The broker has sent an epoch or a generation."""
        is_join = not self.membership
        if is_join:
            self.membership = self.evidence.new_membership()
        answered = self.evidence.history.tick()
        self.generation = generation
        self.evidence.told.append(
            Told(
                asked,
                answered,
                self.terms.group,
                self.member_id,
                self.membership,
                generation,
                is_join,
            )
        )

    def surprise(self, what: str) -> None:
        """Report an answer that no member should get."""
        self.evidence.history.surprises.append(f"{self.client.name} {what}")
