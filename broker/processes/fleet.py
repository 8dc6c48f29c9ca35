"""Pure. Decides when the broker processes of a machine start, stop and restart.

All processes start together. If one fails to start, the supervisor stops them all, because a person
is present to read the reason. Later the supervisor restarts a process that has died, at most once a
second. It stops processes one after the other, the last one first; a rolling restart stops the next
process only when the previous one is in all of its ISRs.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from ottla.protocol.data_classes import dataclass
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# Delay between two starts of one process: at first, and when it fails to start serving.
PAUSE_MS_MIN, PAUSE_MS_MAX = 1_000.0, 30_000.0
# After this time the next process stops too; all are stopped within a usual grace period.
TURN_MS, TURNS_MS = 10_000.0, 30_000.0
# After a failure of a shared part, waiting longer does not help.
KILL_MS = 10_000.0
SYNC_LOOK_MS = 500.0
SYNC_MS_MAX = 600_000.0


class ChildState(Enum):
    """Of one process."""

    DOWN = "down"
    STARTING = "starting"
    SERVING = "serving"
    STOPPING = "stopping"


class Launch(NamedTuple):
    """Start the process at this place, counted from 1."""

    place: int


class AskToStop(NamedTuple):
    """Tell the process to stop in order."""

    place: int


class Kill(NamedTuple):
    """End the process at once."""

    place: int


class AskForSync(NamedTuple):
    """Ask the broker in how many of its partitions' ISRs it is missing."""

    place: int


class AllServe(NamedTuple):
    """For the first time every process serves."""


class Finished(NamedTuple):
    """No process is left; the exit status."""

    status: int


class Told(NamedTuple):
    """Something for the log."""

    is_warning: bool
    text: str


FleetAction = Launch | AskToStop | Kill | AskForSync | AllServe | Finished | Told


class FleetPhase(Enum):
    """Of all of them."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"


@dataclass(slots=True)
class _Child:
    state: ChildState = ChildState.DOWN
    launched_ms: float = 0.0
    # When the supervisor restarts a process that is down.
    due_ms: float = 0.0
    pause_ms: float = PAUSE_MS_MIN
    # When the process was told to stop.
    asked_ms: float = 0.0


@dataclass(slots=True)
class _Roll:
    """A rolling restart: the remaining places; the first one is being restarted."""

    places: list[int]
    has_stopped: bool = False
    since_ms: float = 0.0
    look_ms: float = 0.0


class Fleet:
    """State of all processes, owned by the supervisor. Each call returns the actions to take, in
    order.

    ``node_ids``: the brokers' ids by place."""

    def __init__(self, node_ids: Mapping[int, int]) -> None:
        assert node_ids
        self._node_ids = node_ids
        self._children = {place: _Child() for place in node_ids}
        self._turn_ms = min(TURN_MS, TURNS_MS / len(node_ids))
        self.phase = FleetPhase.STARTING
        self._status = 0
        self._has_failed = False
        self._roll: _Roll | None = None

    @property
    def places(self) -> Iterable[int]:
        """Of all processes."""
        return self._children.keys()

    def state(self, place: int) -> ChildState:
        """Of one process."""
        return self._children[place].state

    @property
    def is_rolling(self) -> bool:
        """Whether a rolling restart is under way."""
        return self._roll is not None

    # ---- events ----

    def begin(self, now_ms: float) -> list[FleetAction]:
        """Start all."""
        return [self._launch(place, now_ms) for place in self._children]

    def on_serving(self, place: int, now_ms: float) -> list[FleetAction]:
        """The process serves clients."""
        child = self._children[place]
        if child.state is not ChildState.STARTING:
            return []
        child.state, child.pause_ms = ChildState.SERVING, PAUSE_MS_MIN
        if self.phase is FleetPhase.STARTING and self._all_serve():
            self.phase = FleetPhase.RUNNING
            return [AllServe()]
        return self._advance_roll(now_ms)

    def on_ended(self, place: int, now_ms: float, how: str) -> list[FleetAction]:
        """The process has exited."""
        child = self._children[place]
        before, child.state = child.state, ChildState.DOWN
        if self.phase is FleetPhase.STOPPING:
            return self._stop_next(now_ms)
        if self.phase is FleetPhase.STARTING:
            told = Told(True, f"broker {self._node_ids[place]} {how} before all could serve")
            return [told, *self.fail(now_ms)]
        roll = self._roll
        if roll is not None and roll.places[0] == place and before is ChildState.STOPPING:
            roll.has_stopped = True
            return [self._launch(place, now_ms)]
        if before is ChildState.STARTING:
            child.pause_ms = min(child.pause_ms * 2, PAUSE_MS_MAX)
        child.due_ms = max(now_ms, child.launched_ms + child.pause_ms)
        in_s = (child.due_ms - now_ms) / 1_000
        return [
            Told(True, f"broker {self._node_ids[place]} {how}; it starts again in {in_s:.1f} s")
        ]

    def on_hung(self, place: int) -> list[FleetAction]:
        """The process does not answer; end it, and start it again as one that has died. While the
        brokers start for the first time, or stop, a person is present and decides."""
        serves = (ChildState.STARTING, ChildState.SERVING)
        if self.phase is not FleetPhase.RUNNING or self._children[place].state not in serves:
            return []
        text = f"broker {self._node_ids[place]} hangs: its process is ended, and starts again"
        return [Told(True, text), Kill(place)]

    def on_sync(self, place: int, missing: int, example: str, now_ms: float) -> list[FleetAction]:
        """Take the number of partitions whose ISR does not contain the broker."""
        roll = self._roll
        if roll is None or roll.places[0] != place or not roll.has_stopped:
            return []
        if not missing and self._all_serve():
            roll.places.pop(0)
            if not roll.places:
                self._roll = None
                return [Told(False, "the rolling restart is complete")]
            roll.has_stopped = False
            return self._advance_roll(now_ms)
        if now_ms - roll.since_ms > SYNC_MS_MAX:
            self._roll = None
            left = ", ".join(str(self._node_ids[one]) for one in roll.places[1:]) or "none"
            return [
                Told(
                    True,
                    f"the rolling restart ends at broker {self._node_ids[place]}, not in the ISR "
                    f"of {missing} partitions, such as {example}; not started again: {left}",
                )
            ]
        return []

    def restart(self, now_ms: float) -> list[FleetAction]:
        """Begin a rolling restart."""
        if self.phase is not FleetPhase.RUNNING or self._roll is not None:
            return [
                Told(
                    True,
                    "no rolling restart now: the brokers start, stop, or are being restarted",
                )
            ]
        self._roll = _Roll(list(self._children))
        return [Told(False, "a rolling restart begins"), *self._advance_roll(now_ms)]

    def stop(self, now_ms: float) -> list[FleetAction]:
        """Stop all, one after the other; a second call stops all at once."""
        if self.phase is FleetPhase.STOPPING:
            return [self._ask(place, now_ms) for place in self._in(ChildState.SERVING)]
        was_starting = self.phase is FleetPhase.STARTING
        self.phase, self._roll = FleetPhase.STOPPING, None
        if was_starting:
            return self._stop_all(now_ms)
        asked = [self._ask(place, now_ms) for place in self._in(ChildState.STARTING)]
        return [*asked, *self._stop_next(now_ms)]

    def fail(self, now_ms: float) -> list[FleetAction]:
        """Stop all at once with exit status 1: a shared part has failed, or the start has."""
        self.phase, self._roll, self._status = FleetPhase.STOPPING, None, 1
        self._has_failed = True
        return self._stop_all(now_ms)

    def tick(self, now_ms: float) -> list[FleetAction]:
        """Time has passed; to be called often."""
        if self.phase is FleetPhase.STOPPING:
            return self._tick_stopping(now_ms)
        actions: list[FleetAction] = [
            self._launch(place, now_ms)
            for place in self._in(ChildState.DOWN)
            if now_ms >= self._children[place].due_ms
        ]
        roll = self._roll
        if roll is not None and roll.has_stopped and now_ms >= roll.look_ms and self._all_serve():
            roll.look_ms = now_ms + SYNC_LOOK_MS
            actions.append(AskForSync(roll.places[0]))
        return actions

    # ---- steps ----

    def _in(self, state: ChildState) -> list[int]:
        return [place for place, child in self._children.items() if child.state is state]

    def _all_serve(self) -> bool:
        return len(self._in(ChildState.SERVING)) == len(self._children)

    def _launch(self, place: int, now_ms: float) -> FleetAction:
        child = self._children[place]
        assert child.state is ChildState.DOWN, "a place has one process"
        child.state, child.launched_ms = ChildState.STARTING, now_ms
        return Launch(place)

    def _ask(self, place: int, now_ms: float) -> FleetAction:
        child = self._children[place]
        assert child.state in (ChildState.STARTING, ChildState.SERVING)
        child.state, child.asked_ms = ChildState.STOPPING, now_ms
        return AskToStop(place)

    def _advance_roll(self, now_ms: float) -> list[FleetAction]:
        roll = self._roll
        if roll is None or roll.has_stopped or not self._all_serve():
            return []
        roll.since_ms = now_ms
        roll.look_ms = now_ms + SYNC_LOOK_MS
        return [self._ask(roll.places[0], now_ms)]

    def _stop_all(self, now_ms: float) -> list[FleetAction]:
        alive = [*self._in(ChildState.STARTING), *self._in(ChildState.SERVING)]
        if not alive:
            return self._stop_next(now_ms)
        return [self._ask(place, now_ms) for place in sorted(alive, reverse=True)]

    def _stop_next(self, now_ms: float) -> list[FleetAction]:
        serving, stopping = self._in(ChildState.SERVING), self._in(ChildState.STOPPING)
        if not serving and not stopping:
            return [Finished(self._status)]
        latest_ms = max((self._children[place].asked_ms for place in stopping), default=0.0)
        if serving and (not stopping or now_ms - latest_ms >= self._turn_ms):
            return [self._ask(serving[-1], now_ms)]
        return []

    def _tick_stopping(self, now_ms: float) -> list[FleetAction]:
        if not self._has_failed:
            return self._stop_next(now_ms) if self._in(ChildState.STOPPING) else []
        return [
            Kill(place)
            for place in self._in(ChildState.STOPPING)
            if now_ms - self._children[place].asked_ms >= KILL_MS
        ]
