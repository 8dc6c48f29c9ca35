"""The state of every link between two hosts: delays, cuts, holds, and what waits for healing."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from tests.simulation.world.stream import Mark

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.world.loop import SimLoop
    from tests.simulation.world.random import SimRandom
    from tests.simulation.world.stream import Stream


# When something was delivered, and by which stream.
_HEAD = Struct(">di")


class NetProfile(NamedTuple):
    """How this seed's network behaves without faults."""

    latency_ms: float = 0.2
    spike_probability: float = 0.01
    spike_ms: float = 200.0
    fragment_probability: float = 0.5
    fragments_max: int = 5
    buffer_bytes: int = 128 * 1024
    sendfile: bool = True


class Links:
    """Asked by streams before each delivery. Directions are separate."""

    def __init__(
        self,
        loop: SimLoop,
        random: SimRandom,
        profile: NetProfile,
        digest: Callable[[bytes], object],
    ) -> None:
        self.loop = loop
        self.profile = profile
        self._random = random
        self._draw = random.random
        self._digest = digest
        self._cut: set[tuple[str, str]] = set()
        self._down: set[str] = set()
        self._slow: dict[tuple[str, str], float] = {}
        self._stalled: dict[Stream, None] = {}

    def delay_s(self, source: str, target: str) -> float:
        """The time one parcel takes; now and then a spike."""
        profile, draw = self.profile, self._draw
        delay_ms = profile.latency_ms * (0.5 + draw())
        if draw() < profile.spike_probability:
            delay_ms += draw() * profile.spike_ms
        if self._slow:
            delay_ms *= self._slow.get((source, target), 1.0)
        return delay_ms / 1_000.0

    def retransmission_s(self) -> float:
        """How long after healing the sender's timer fires; TCP's back-off makes it vary widely."""
        return self._random.choice((0.001, 0.2, 0.4, 1.0, 3.0)) * (0.5 + self._random.random())

    def fragments(self, size_bytes: int) -> list[int]:
        """Sizes that add up to the whole; often single bytes, to cut headers in two."""
        random = self._random
        if size_bytes < 2 or self._draw() >= self.profile.fragment_probability:
            return [size_bytes]
        sizes = []
        for _ in range(random.below(self.profile.fragments_max)):
            if size_bytes < 2:
                break
            limit = min(8, size_bytes - 1) if random.random() < 0.3 else size_bytes - 1
            size = 1 + random.below(limit)
            sizes.append(size)
            size_bytes -= size
        sizes.append(size_bytes)
        return sizes

    def is_blocked(self, source: str, target: str) -> bool:
        """Whether nothing gets from one to the other now."""
        if not self._cut and not self._down:
            return False
        return (source, target) in self._cut or source in self._down or target in self._down

    def stall(self, stream: Stream) -> None:
        """Remember to resume the stream after healing."""
        self._stalled[stream] = None

    def cut(self, source: str, target: str) -> None:
        """Drop every packet in that direction, without an error at either end."""
        self._cut.add((source, target))

    def heal(self, source: str, target: str) -> None:
        """Let packets pass again in that direction."""
        self._cut.discard((source, target))
        self._resume()

    def slow_down(self, source: str, target: str, factor: float) -> None:
        """Multiply the delays of that direction."""
        self._slow[source, target] = factor

    def heal_all(self) -> None:
        """A whole network again."""
        self._cut.clear()
        self._slow.clear()
        self._resume()

    def host_down(self, host: str) -> None:
        """A machine without power answers nothing."""
        self._down.add(host)

    def host_up(self, host: str) -> None:
        self._down.discard(host)
        self._resume()

    def trace(self, number: int, content: bytes | Mark) -> None:
        """Put a delivery into the run's digest."""
        what = content.name.encode() if isinstance(content, Mark) else content
        self._digest(_HEAD.pack(self.loop.now_s, number) + what)

    def _resume(self) -> None:
        stalled, self._stalled = self._stalled, {}
        for stream in stalled:
            stream.resume()
