"""One direction of a simulated TCP connection: bytes in order, in fragments, with delays.

Bounded by the buffers at both ends together, so that a sender really meets BlockingIOError. A cut
link loses nothing: TCP retransmits until it is healed, and the sender gets no error.
"""

from __future__ import annotations

from collections import deque
from enum import Enum, auto
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.world.links import Links
    from tests.simulation.world.loop import SimLoop


class Mark(Enum):
    """A marker that can travel beside bytes."""

    END = auto()
    RESET = auto()


# When it arrives, in seconds, and what it is: a plain tuple, since there are many.
Parcel = tuple[float, "bytes | Mark"]


class Stream:
    """Owned by the sending socket; hands parcels to the receiving one."""

    __slots__ = (
        "_credit_bytes",
        "_deliver",
        "_last_arrival_s",
        "_links",
        "_loop",
        "_on_room",
        "_parcels",
        "_scheduled",
        "capacity_bytes",
        "dead",
        "number",
        "source",
        "target",
        "used_bytes",
    )

    def __init__(self, links: Links, number: int, ends: tuple[str, str], capacity_bytes: int):
        self._links = links
        self._loop: SimLoop = links.loop
        self.number = number
        self.source, self.target = ends
        self.capacity_bytes = capacity_bytes
        self.used_bytes = 0
        self.dead = False
        self._credit_bytes = 0
        self._parcels: deque[Parcel] = deque()
        self._last_arrival_s = 0.0
        self._scheduled = False
        self._deliver: Callable[[bytes | Mark], object] = lambda _: None
        self._on_room: Callable[[], object] = lambda: None

    def connect(
        self, deliver: Callable[[bytes | Mark], object], on_room: Callable[[], object]
    ) -> None:
        """Set the receiver, and the callback for when there is room again."""
        self._deliver, self._on_room = deliver, on_room

    @property
    def room_bytes(self) -> int:
        return self.capacity_bytes - self.used_bytes

    def send(self, content: bytes) -> None:
        """Take bytes that fit; they leave in as many fragments as the seed wants."""
        self.used_bytes += len(content)
        sizes = self._links.fragments(len(content))
        if len(sizes) == 1:
            self._enqueue(content)
            return
        position = 0
        for size in sizes:
            self._enqueue(content[position : position + size])
            position += size

    def mark(self, mark: Mark) -> None:
        """Send the end of the stream, or a reset, after what was sent before."""
        self._enqueue(mark)

    def freed(self, count: int) -> None:
        """The receiver has taken that many bytes out; the sender learns it a latency later."""
        self._credit_bytes += count
        if self._credit_bytes == count:
            loop = self._loop
            delay_s = self._links.delay_s(self.target, self.source)
            loop.call_later(delay_s, self._give_credit, context=loop.outside)

    def lose(self) -> None:
        """Forget what is on the way: the sending machine is gone."""
        self.dead = True
        self._parcels.clear()

    def resume(self) -> None:
        """The link is whole again: TCP's next retransmission finds that out."""
        if self._parcels and not self._scheduled:
            self._schedule(self._loop.time() + self._links.retransmission_s())
        if self._credit_bytes:
            self._give_credit()

    def hold(self, delay_s: float) -> None:
        """Delay all that comes from now on, as a stalled middlebox does."""
        self._last_arrival_s = max(self._last_arrival_s, self._loop.time()) + delay_s

    def _enqueue(self, content: bytes | Mark) -> None:
        if self.dead:
            return
        soon_s = self._loop.now_s + self._links.delay_s(self.source, self.target)
        if soon_s > self._last_arrival_s:
            self._last_arrival_s = soon_s
        self._parcels.append((self._last_arrival_s, content))
        if not self._scheduled and len(self._parcels) == 1:
            self._schedule(self._last_arrival_s)

    def _schedule(self, when_s: float) -> None:
        self._scheduled = True
        self._loop.call_at(when_s, self._arrive, context=self._loop.outside)

    def _arrive(self) -> None:
        self._scheduled = False
        if self._links.is_blocked(self.source, self.target):
            self._links.stall(self)
            return
        now_s, parcels = self._loop.now_s, self._parcels
        while parcels and parcels[0][0] <= now_s:
            content = parcels.popleft()[1]
            self._links.trace(self.number, content)
            self._deliver(content)
        if parcels:
            self._schedule(max(now_s, parcels[0][0]))

    def _give_credit(self) -> None:
        if self._links.is_blocked(self.target, self.source):
            self._links.stall(self)
            return
        self.used_bytes -= self._credit_bytes
        self._credit_bytes = 0
        self._on_room()
