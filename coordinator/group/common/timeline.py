"""Records events of each group, to explain why a consumer waits, left or keeps rejoining.

Kept in memory only and bounded: the last events of each group, and a limit for all groups together,
at which the groups without events for longest lose theirs. A heartbeat is not an event. Texts are
formatted when they are read, so that noting an event stays cheap.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import TYPE_CHECKING

from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from ottla.coordinator.effects import Moment

EVENTS_OF_GROUP_MAX = 300
# A broker may have fifty shards; an event takes a few hundred bytes.
EVENTS_MAX = 4_000
DETAIL_CHARACTERS_MAX = 255


class GroupEventKind(Enum):
    """The value is the beginning of the event's text; ``{member}`` is the member's id."""

    ID_GIVEN = "{member} asked to join and got its id"
    JOINED = "{member} joined"
    REJOINED = "{member} came again"
    REPLACED = "{member} replaced an earlier process with its instance id"
    TURNED_AWAY = "{member} was turned away"
    LEFT = "{member} left"
    REMOVED = "{member} was removed"
    REBALANCE_STARTED = "a rebalance started"
    REBALANCE_EXTENDED = "the rebalance waits longer"
    GENERATION = "a generation was formed"
    ASSIGNED = "the assignment was handed out"
    TOLD = "{member} was told"
    REFUSED = "{member} was refused"
    WRITE_FAILED = "a record could not be written"
    EMPTY = "the group is empty"
    LOADED = "the group was read from the log"
    CONVERTED = "the group changed its protocol"
    DELETED = "the group was deleted"


def counted(members: int) -> str:
    """A number of members, as text."""
    return f"{members} member{'' if members == 1 else 's'}"


class Event(NamedTuple):
    """``epoch`` is the generation, with KIP-848 the group epoch; -1 if there is none."""

    wall_ms: int
    group_id: str
    kind: GroupEventKind
    member_id: str
    epoch: int
    detail: str

    @property
    def sentence(self) -> str:
        """The event as text, without its time."""
        text = self.kind.value.format(member=self.member_id or "a client")
        if self.epoch >= 0:
            text += f" (generation {self.epoch})"
        return f"{text}: {self.detail}" if self.detail else text


class Timeline:
    """One per shard; the groups write, ``ottla groups explain`` reads."""

    def __init__(
        self, events_of_group_max: int = EVENTS_OF_GROUP_MAX, events_max: int = EVENTS_MAX
    ) -> None:
        assert 0 < events_of_group_max <= events_max
        self._events_of_group_max = events_of_group_max
        self._events_max = events_max
        # Ordered by each group's last event.
        self._groups: dict[str, deque[Event]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def note(
        self,
        moment: Moment,
        group_id: str,
        kind: GroupEventKind,
        member_id: str = "",
        epoch: int = -1,
        detail: str = "",
    ) -> None:
        """Add an event. The detail names a timer and its length, an error code or the reason that
        a client gave; it is truncated to its limit (hazard G-10)."""
        events = self._groups.pop(group_id, None)
        if events is None:
            events = deque()
        elif len(events) >= self._events_of_group_max:
            events.popleft()
            self._count -= 1
        self._groups[group_id] = events
        detail = detail[:DETAIL_CHARACTERS_MAX]
        events.append(Event(moment.wall_ms, group_id, kind, member_id, epoch, detail))
        self._count += 1
        while self._count > self._events_max:
            quietest = next(iter(self._groups))
            self._groups[quietest].popleft()
            self._count -= 1
            if not self._groups[quietest]:
                del self._groups[quietest]
        assert len(events) <= self._events_of_group_max

    def of_group(self, group_id: str) -> list[Event]:
        """The remaining events of a group, oldest first; also of a deleted group."""
        return list(self._groups.get(group_id, ()))
