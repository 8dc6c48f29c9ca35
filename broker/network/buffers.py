"""Memory for requests that are arriving: pooled, grown only by bytes that really came, budgeted.

An idle connection has no buffer at all; it borrows one when bytes arrive and gives it back when
all of them are served. A buffer above the usual 64 KiB counts against one budget of the whole
broker; when that is used up, connections wait (they are not read from), they are not refused.
"""

from __future__ import annotations

import mmap
from collections import deque
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:

    class _Receives(Protocol):
        def recv_into(self, buffer: memoryview) -> int: ...


SMALL_BYTES = 64 * 1024
# Holds a whole request at the clients' default max.request.size (1 MiB), and then some.
LARGE_BYTES = 1024 * 1024 + 64 * 1024
# So much of a request that will not fit must have come before it is given a large buffer.
GROW_AT_BYTES = 16 * 1024
# Very large requests are granted memory in such steps, as their bytes arrive.
STEP_BYTES = 1024 * 1024
POOLED_SMALL_MAX = 256
POOLED_LARGE_MAX = 32


class BufferPool:
    """Unused buffers. The last one returned is handed out first: it may still be in CPU caches."""

    __slots__ = ("_large", "_small")

    def __init__(self) -> None:
        self._small: list[memoryview] = []
        self._large: list[memoryview] = []

    def take_small(self) -> memoryview:
        small = self._small
        return small.pop() if small else memoryview(bytearray(SMALL_BYTES))

    def take_large(self) -> memoryview:
        return self._large.pop() if self._large else reserve(LARGE_BYTES)

    def give(self, view: memoryview) -> None:
        size_bytes = len(view)
        if size_bytes == SMALL_BYTES:
            if len(self._small) < POOLED_SMALL_MAX:
                self._small.append(view)
        elif size_bytes == LARGE_BYTES and len(self._large) < POOLED_LARGE_MAX:
            self._large.append(view)


def reserve(size_bytes: int) -> memoryview:
    """Address space that takes memory only where it is written to, unlike a bytearray."""
    return memoryview(mmap.mmap(-1, size_bytes))


class BudgetOwner(Protocol):
    """A connection, as the budget sees it."""

    def on_budget(self) -> None:
        """There is room again: ask once more."""


class ByteBudget:
    """Bytes that all unfinished large requests of the broker may hold together.

    Owners that all hold a part and all wait for more would wait for ever, so one of them at a
    time may go beyond the limit until its request is complete."""

    __slots__ = ("_overdrawn_by", "_waiting", "limit_bytes", "used_bytes")

    def __init__(self, limit_bytes: int) -> None:
        assert limit_bytes > 0
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._waiting: deque[BudgetOwner] = deque()
        self._overdrawn_by: BudgetOwner | None = None

    @property
    def is_pressed(self) -> bool:
        """Whether a connection waits for memory that other connections hold."""
        return bool(self._waiting)

    def take(self, owner: BudgetOwner, count: int, *, wait: bool = True) -> bool:
        """Count the bytes, or promise ``on_budget`` later. Only one wait per owner at a time."""
        if self.used_bytes + count > self.limit_bytes:
            if self._overdrawn_by is None and wait:
                self._overdrawn_by = owner
            if self._overdrawn_by is not owner:
                if wait:
                    self._waiting.append(owner)
                return False
        self.used_bytes += count
        return True

    def give(self, owner: BudgetOwner, count: int) -> None:
        """Return all that the owner has taken; those waiting longest ask again."""
        self.used_bytes -= count
        assert self.used_bytes >= 0
        self.forget(owner)

    def forget(self, owner: BudgetOwner) -> None:
        """The owner neither waits nor overdraws any more."""
        if self._overdrawn_by is owner:
            self._overdrawn_by = None
        if owner in self._waiting:
            self._waiting.remove(owner)
        # One even without room: it may be the one that goes beyond the limit.
        room = max(1, (self.limit_bytes - self.used_bytes) // LARGE_BYTES)
        for _ in range(min(room, len(self._waiting))):
            self._waiting.popleft().on_budget()


class ReceiveBuffer:
    """The bytes of one connection that have arrived and are not served yet: ``view[start:end]``.

    ``frame_bytes`` below is the length of the frame that begins at ``start``, 0 if unknown."""

    __slots__ = (
        "_budget",
        "_charged_bytes",
        "_limit",
        "_owner",
        "_pool",
        "_wants_large",
        "end",
        "start",
        "view",
    )

    def __init__(self, owner: BudgetOwner, pool: BufferPool, budget: ByteBudget) -> None:
        self._owner = owner
        self._pool = pool
        self._budget = budget
        self._charged_bytes = 0
        # A peer whose last request was large gets a large buffer at once: all of a 1 MiB produce
        # is then received where it is parsed, without a copy of its first part.
        self._wants_large = False
        self.view: memoryview | None = None
        self.start = 0
        self.end = 0
        self._limit = 0

    @property
    def is_charged(self) -> bool:
        """Whether it holds a part of the budget."""
        return self._charged_bytes > 0

    def receive(self, source: _Receives) -> int:
        """One read into the free part. Raises what ``recv_into`` raises."""
        view = self.view
        if view is None:
            view = self.view = self._borrow()
            self._limit = len(view)
            # Nearly always: all of it is free, and need not be sliced.
            count = source.recv_into(view)
        else:
            # Room for nothing would read as 0 bytes, which means that the peer has finished.
            assert self.end < self._limit
            count = source.recv_into(view[self.end : self._limit])
        self.end += count
        if self.end == SMALL_BYTES:
            self._wants_large = True
        return count

    def make_room(self, frame_bytes: int) -> bool:
        """See that more of an unfinished frame can be received; False: wait for the budget."""
        view = self.view
        if view is None or self.start == self.end:
            self.release()
            return True
        capacity = len(view)
        if frame_bytes > capacity:
            self._wants_large = True
            if capacity == SMALL_BYTES and self.end - self.start >= GROW_AT_BYTES:
                return self._grow_to_large()
            if capacity == LARGE_BYTES and self.end - self.start == capacity:
                return self._grow_to_exact(frame_bytes)
            if self.start:
                self._compact(view)
        elif self.start + frame_bytes > capacity or self.end == capacity:
            # Who fills a small buffer has more to say: one large read costs less than several.
            is_busy = self._wants_large and capacity == SMALL_BYTES
            if not is_busy or not self._grow_to_large(wait=False):
                self._compact(view)
        elif self.end == self._limit:
            return self._grant(min(STEP_BYTES, capacity - self._limit))
        return True

    def release(self) -> None:
        """Give the buffer back, whatever is in it."""
        view = self.view
        if view is None:
            return
        if self.end <= SMALL_BYTES:
            self._wants_large = False
        self._pool.give(view)
        self.view = None
        self.start = self.end = self._limit = 0
        if self._charged_bytes:
            charged_bytes, self._charged_bytes = self._charged_bytes, 0
            self._budget.give(self._owner, charged_bytes)

    def _borrow(self) -> memoryview:
        if self._wants_large and self._budget.take(self._owner, LARGE_BYTES, wait=False):
            self._charged_bytes = LARGE_BYTES
            return self._pool.take_large()
        return self._pool.take_small()

    def _compact(self, view: memoryview) -> None:
        held_bytes = self.end - self.start
        view[:held_bytes] = view[self.start : self.end]
        self.start = 0
        self.end = held_bytes

    def _grow_to_large(self, *, wait: bool = True) -> bool:
        if not self._budget.take(self._owner, LARGE_BYTES, wait=wait):
            return False
        self._charged_bytes = LARGE_BYTES
        self._move_to(self._pool.take_large())
        self._limit = LARGE_BYTES
        return True

    def _grow_to_exact(self, frame_bytes: int) -> bool:
        step_bytes = min(STEP_BYTES, frame_bytes - LARGE_BYTES)
        if not self._budget.take(self._owner, step_bytes):
            return False
        self._charged_bytes += step_bytes
        self._move_to(reserve(frame_bytes))
        self._limit = LARGE_BYTES + step_bytes
        return True

    def _grant(self, step_bytes: int) -> bool:
        if not self._budget.take(self._owner, step_bytes):
            return False
        self._charged_bytes += step_bytes
        self._limit += step_bytes
        return True

    def _move_to(self, target: memoryview) -> None:
        assert self.view is not None
        held_bytes = self.end - self.start
        target[:held_bytes] = self.view[self.start : self.end]
        self._pool.give(self.view)
        self.view = target
        self.start = 0
        self.end = held_bytes
