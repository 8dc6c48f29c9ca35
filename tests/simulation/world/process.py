"""One simulated operating-system process: signals, abort, and the domain its code runs in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Never

from tests.simulation.world.loop import DOMAIN, Domain, SimLoop

if TYPE_CHECKING:
    from collections.abc import Callable


class ProcessEnded(BaseException):
    """Unwinds code of a process that is no more; nothing it does on the way out has effect."""


class SimProcess:
    """``ports.Process`` for one incarnation of a node."""

    def __init__(self, loop: SimLoop, name: str, pid: int) -> None:
        self.domain = Domain(name)
        self.pid = pid
        self.abort_reason: str | None = None
        self.on_abort: Callable[[], object] = lambda: None
        self._loop = loop
        self._stop_callbacks: list[Callable[[], object]] = []

    @property
    def running(self) -> bool:
        return not self.domain.dead

    def on_stop(self, callback: Callable[[], object]) -> None:
        """Remember what SIGTERM calls."""
        self._stop_callbacks.append(callback)

    def abort(self, reason: str) -> None:
        """End at once; the caller does not continue."""
        self.abort_reason = reason
        self.on_abort()
        self.ended()

    def terminate(self) -> None:
        """SIGTERM: the callbacks run inside the process on its loop, once."""
        for callback in self._stop_callbacks:
            self._loop.call_soon(callback, context=self.domain.context())
        self._stop_callbacks = []

    def check(self) -> None:
        """Every seam calls this first, so that the dead cannot touch the world."""
        if self.domain.dead:
            self.ended()
        running = DOMAIN.get()
        assert running is None or running is self.domain, (
            f"code of {running.name} uses a seam of {self.domain.name}"
        )

    def ended(self) -> Never:
        raise ProcessEnded(self.domain.name)
