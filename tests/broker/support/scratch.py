"""A clock that is turned by hand, deferred calls, connections, and a room to wait in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.engine.purgatory import DelayedOperation, Purgatory
from ottla.broker.engine.timing_wheel import TimingWheel

if TYPE_CHECKING:
    from collections.abc import Callable


class HandTimer:
    """A callback of the hand clock."""

    def __init__(self, deadline_ms: float, callback: Callable[[], object]) -> None:
        self.deadline_ms = deadline_ms
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self.callback = None


class HandClock:
    """Time passes only in ``advance_to``."""

    def __init__(self) -> None:
        self._now_ms = 0.0
        self._timers: list[HandTimer] = []

    @property
    def armed_count(self) -> int:
        return sum(timer.callback is not None for timer in self._timers)

    def now_ms(self) -> float:
        return self._now_ms

    def wall_ms(self) -> int:
        return 1_700_000_000_000 + int(self._now_ms)

    def call_at(self, deadline_ms: float, callback: Callable[[], object]) -> HandTimer:
        timer = HandTimer(deadline_ms, callback)
        self._timers.append(timer)
        return timer

    async def sleep(self, delay_ms: float) -> None:
        raise AssertionError("nothing here sleeps")

    def advance_to(self, now_ms: float) -> None:
        """Run what is due on the way, in order of deadlines."""
        while True:
            due = [t for t in self._timers if t.callback is not None and t.deadline_ms <= now_ms]
            if not due:
                break
            timer = min(due, key=lambda one: one.deadline_ms)
            self._now_ms = max(self._now_ms, timer.deadline_ms)
            callback, timer.callback = timer.callback, None
            self._timers.remove(timer)
            assert callback is not None
            callback()
        self._now_ms = now_ms


class Deferred:
    """Stands for the event loop's call_soon."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], object]] = []

    def __call__(self, callback: Callable[[], object]) -> None:
        self.calls.append(callback)

    def run(self) -> int:
        """One turn of the loop: what was deferred before it, not what it defers."""
        calls, self.calls = self.calls, []
        for callback in calls:
            callback()
        return len(calls)

    def run_all(self) -> None:
        while self.run():
            pass


class Connection:
    """The other end of a parked request."""

    def __init__(self) -> None:
        self.closed = False
        self.callbacks: list[Callable[[], object]] = []

    def on_close(self, callback: Callable[[], object]) -> None:
        self.callbacks.append(callback)

    def close(self) -> None:
        self.closed = True
        for callback in self.callbacks:
            callback()


class Room:
    """A waiting room with its world."""

    def __init__(self, drain_max: int = 256) -> None:
        self.clock = HandClock()
        self.deferred = Deferred()
        self.wheel = TimingWheel(self.clock, tick_ms=10)
        self.waiting = Purgatory(self.wheel, self.deferred, drain_max)
        self.ready: set[object] = set()
        self.answers: list[str] = []

    def park(
        self,
        name: str,
        keys: tuple[object, ...] = ("key",),
        deadline_ms: float = 500,
        owner: Connection | None = None,
    ) -> DelayedOperation:
        def try_complete() -> bool:
            if not self.ready.intersection(keys):
                return False
            self.answers.append(name)
            return True

        def on_expire() -> None:
            self.answers.append(name + " expired")

        return self.waiting.park(keys, deadline_ms, try_complete, on_expire, owner)

    def assert_at_rest(self) -> None:
        assert (self.waiting.count, self.waiting.key_count, self.wheel.count) == (0, 0, 0)
