"""What the streams of all members do, as seen from outside: the oracle of the simulation."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.client.classic.registry.layout import RegistrySlot
    from ottla.client.classic.registry.member import Share


class Reading(NamedTuple):
    """A record that a member handed out."""

    slot: RegistrySlot
    offset: int


class Witness:
    """Knows which member feeds which partition at every moment."""

    def __init__(self) -> None:
        self.feeding: dict[RegistrySlot, str] = {}
        # The offset after the last record that any member handed out.
        self.next_offset: dict[RegistrySlot, int] = {}
        self.repeated = 0
        self.complaints: list[str] = []

    def begin(self, name: str, slot: RegistrySlot, offset: int) -> None:
        """A member begins to feed a partition."""
        other = self.feeding.get(slot)
        if other is not None and other != name:
            self.complaints.append(f"{name} feeds {slot} while {other} does")
        self.feeding[slot] = name
        known = self.next_offset.get(slot, 0)
        if offset > known:
            self.complaints.append(f"{name} begins {slot} at {offset}: {known} to it are lost")
        self.repeated += known - offset

    def read(self, name: str, reading: Reading) -> None:
        """A member hands out a record."""
        slot, offset = reading
        if self.feeding.get(slot) != name:
            self.complaints.append(f"{name} hands out {slot} {offset} without feeding it")
        self.next_offset[slot] = max(self.next_offset.get(slot, 0), offset + 1)

    def end(self, name: str, slot: RegistrySlot) -> None:
        """A member feeds the partition no more."""
        if self.feeding.get(slot) == name:
            del self.feeding[slot]


class WitnessedFeed:
    """The streams of one member: each ``tick`` hands out one record of every partition."""

    def __init__(self, name: str, witness: Witness) -> None:
        self._name = name
        self._witness = witness
        self.positions: dict[RegistrySlot, int] = {}
        self.is_dead = False

    def hold(self) -> Mapping[RegistrySlot, int]:
        """Give up what is fed now."""
        held, self.positions = self.positions, {}
        for slot in held:
            self._witness.end(self._name, slot)
        return held

    async def begin(self, shares: Mapping[RegistrySlot, Share]) -> None:
        """Begin at the committed offsets, and at 0 without one."""
        assert not self.positions
        if self.is_dead:
            return
        for slot, (_, offset) in shares.items():
            self.positions[slot] = offset or 0
            self._witness.begin(self._name, slot, offset or 0)

    def tick(self, is_alive: bool) -> None:
        """As the streams do: nothing once the session may be over."""
        if is_alive:
            for slot, offset in self.positions.items():
                self._witness.read(self._name, Reading(slot, offset))
                self.positions[slot] = offset + 1

    def die(self) -> None:
        """The process is gone, and feeds nothing from this moment on."""
        self.is_dead = True
        self.hold()
