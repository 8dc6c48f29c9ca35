"""Requests parked on keys until there is progress or their deadline comes (Kafka's purgatory).

A key stands for something that may move: the high watermark of a partition, its log end. The part
that moves it calls ``release(key)``, which only makes a note. The waiters are asked later, from the
event loop, when no partition is in the middle of a change: a completion that ran inside an append
could append itself, and see half of the first one (hazard N-10).

One registry knows every waiter, and disconnect, deadline, completion and shutdown each take it out
of all keys at once, so that nothing is left behind (hazard N-09).
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from ottla.broker.engine.timing_wheel import TimingWheel, WheelTimer

# Waiters asked in one go: a wake-up of thousands must let the sockets have their turn in between.
DRAIN_MAX = 256


class WaitKey:
    """Something that requests wait for. Equal to itself only, so that its hash costs nothing."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"WaitKey({self._name!r})"


class OperationOwner(Protocol):
    """The connection a request came from."""

    @property
    def closed(self) -> bool: ...

    def on_close(self, callback: Callable[[], object]) -> None: ...


class DelayedOperation:
    """One parked request, and the token of its right to answer: once done it is never asked."""

    __slots__ = ("_queued", "_timer", "_waiting", "keys", "on_expire", "owner", "try_complete")

    def __init__(
        self,
        waiting: Purgatory,
        keys: tuple[Hashable, ...],
        try_complete: Callable[[], bool],
        on_expire: Callable[[], object],
        owner: OperationOwner | None,
    ) -> None:
        self._waiting: Purgatory | None = waiting
        self._timer: WheelTimer | None = None
        self._queued = False
        self.keys = keys
        self.try_complete = try_complete
        self.on_expire = on_expire
        self.owner = owner

    @property
    def done(self) -> bool:
        """Whether it was answered, has expired or was cancelled."""
        return self._waiting is None

    def cancel(self) -> None:
        """Forget the request; neither of its callbacks runs any more. May be repeated."""
        waiting = self._waiting
        if waiting is not None:
            self._waiting = None
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            waiting._forget(self)


class Purgatory:
    """Owned by the server, one per process.

    ``defer`` runs a function soon, outside of the caller: the event loop's ``call_soon``."""

    def __init__(
        self,
        wheel: TimingWheel,
        defer: Callable[[Callable[[], object]], object],
        drain_max: int = DRAIN_MAX,
    ) -> None:
        assert drain_max > 0
        self._wheel = wheel
        self._defer = defer
        self._drain_max = drain_max
        # Read by those who release often: what is not in it needs no call.
        self.watchers: dict[Hashable, dict[DelayedOperation, None]] = {}
        self._owners: dict[OperationOwner, dict[DelayedOperation, None]] = {}
        self._released: dict[Hashable, None] = {}
        self._queue: deque[DelayedOperation] = deque()
        self._drain_is_coming = False
        self._parked: dict[DelayedOperation, None] = {}

    @property
    def count(self) -> int:
        """Requests parked now; 0 at rest, or something leaks."""
        return len(self._parked)

    @property
    def key_count(self) -> int:
        """Number of keys with at least one parked request."""
        return len(self.watchers)

    def park(
        self,
        keys: Iterable[Hashable],
        deadline_ms: float,
        try_complete: Callable[[], bool],
        on_expire: Callable[[], object],
        owner: OperationOwner | None = None,
        *,
        just_asked: bool = False,
    ) -> DelayedOperation:
        """Wait until ``try_complete`` has answered (it returns True then) or the deadline.

        It is asked at once, since things may have moved between the caller's look and now, then
        after each release of one of the keys. A caller that has looked in this very step of the
        event loop says ``just_asked`` and saves the first question. ``deadline_ms`` is on the
        monotonic clock; at it ``on_expire`` must answer. When the owner disconnects neither is
        called again."""
        waiter = DelayedOperation(self, tuple(dict.fromkeys(keys)), try_complete, on_expire, owner)
        self._parked[waiter] = None
        if owner is not None and not self._belongs(waiter, owner):
            waiter.cancel()
            return waiter
        for key in waiter.keys:
            self.watchers.setdefault(key, {})[waiter] = None
        # Watched first and asked second: a release in between is then not lost.
        if not just_asked and try_complete():
            waiter.cancel()
        elif not waiter.done:
            waiter._timer = self._wheel.call_at(deadline_ms, partial(self._expire, waiter))
        return waiter

    def watch_also(self, waiter: DelayedOperation, keys: Iterable[Hashable]) -> None:
        """Ask the parked request after a release of these keys, too."""
        assert not waiter.done, "it would stay with the keys"
        watchers = self.watchers
        # Each once, however often it is said: a request may wait for days and through many wakes.
        added = tuple(key for key in dict.fromkeys(keys) if waiter not in watchers.get(key, ()))
        waiter.keys += added
        for key in added:
            watchers.setdefault(key, {})[waiter] = None

    def release(self, key: Hashable) -> None:
        """Something behind this key has moved, for better or worse: ask its waiters soon."""
        if key in self.watchers:
            self._released[key] = None
            self._schedule()

    def close(self) -> None:
        """Forget every waiter; the connections they belong to are closed by their owner."""
        for waiter in list(self._parked):
            waiter.cancel()
        self._released.clear()
        self._queue.clear()
        self._owners.clear()

    def _belongs(self, waiter: DelayedOperation, owner: OperationOwner) -> bool:
        waiters = self._owners.get(owner)
        if waiters is None:
            if owner.closed:
                return False
            # Once per connection and not per request: connections live for days.
            waiters = self._owners[owner] = {}
            owner.on_close(partial(self._on_owner_gone, owner))
        waiters[waiter] = None
        return True

    def _on_owner_gone(self, owner: OperationOwner) -> None:
        for waiter in list(self._owners.pop(owner, ())):
            waiter.cancel()

    def _forget(self, waiter: DelayedOperation) -> None:
        del self._parked[waiter]
        for key in waiter.keys:
            watchers = self.watchers.get(key)
            if watchers is not None:
                watchers.pop(waiter, None)
                if not watchers:
                    del self.watchers[key]
        if waiter.owner is not None and waiter.owner in self._owners:
            self._owners[waiter.owner].pop(waiter, None)

    def _expire(self, waiter: DelayedOperation) -> None:
        waiter._timer = None
        if waiter.done:
            return
        # Progress that was noted but not looked at yet still counts.
        released = self._released
        moved = waiter._queued or (bool(released) and not released.keys().isdisjoint(waiter.keys))
        answered = moved and waiter.try_complete()
        waiter.cancel()
        if not answered:
            waiter.on_expire()

    def _schedule(self) -> None:
        if not self._drain_is_coming:
            self._drain_is_coming = True
            self._defer(self._drain)

    def _drain(self) -> None:
        self._drain_is_coming = False
        released, self._released = self._released, {}
        for key in released:
            for waiter in self.watchers.get(key, ()):
                if not waiter._queued:
                    waiter._queued = True
                    self._queue.append(waiter)
        try:
            for _ in range(min(len(self._queue), self._drain_max)):
                waiter = self._queue.popleft()
                waiter._queued = False
                if not waiter.done and waiter.try_complete():
                    waiter.cancel()
        finally:
            # One that raises stays parked until its deadline; the others still get their turn.
            if self._queue or self._released:
                self._schedule()
