"""Handles termination signals: the first ends the work gracefully, the second at once.

A signal interrupts whatever the main thread does, for example a call to another process, whose
connection would be unusable afterwards. So the work runs in a thread of its own, and the main
thread, which receives the signals, waits for it.
"""

from __future__ import annotations

import signal
import sys
import threading
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, TracebackType

# Exit status of a process ended by a signal: this plus the signal's number, as in shells.
SIGNALLED = 128
LOOK_S = 0.2


def hangups() -> tuple[signal.Signals, ...]:
    """SIGHUP, sent when the terminal closes, unless this process ignores it.

    ``nohup`` starts commands that way so that they outlive the terminal. Windows has no SIGHUP."""
    if sys.platform == "win32" or signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return ()
    return (signal.SIGHUP,)


class Signals:
    """Context manager: stores the first signal in ``number``; the second raises KeyboardInterrupt.

    Does nothing outside of the main thread, where Python allows no handlers."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._before: dict[signal.Signals, Callable[[int, FrameType | None], object] | int] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM, *hangups()):
                self._before[number] = signal.signal(number, self._take) or signal.SIG_DFL
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @property
    def exit_status(self) -> int:
        """The exit status of a process ended by the received signal."""
        assert self.number is not None
        return SIGNALLED + self.number

    def _take(self, number: int, _: FrameType | None) -> None:
        if self.number is not None:
            raise KeyboardInterrupt
        self.number = number


class WorkThread(threading.Thread):
    """Runs ``work`` and keeps what it returns or raises. A daemon thread."""

    def __init__(self, work: Callable[[], str]) -> None:
        super().__init__(name="ottla-work", daemon=True)
        self._work = work
        self.told = ""
        self.error: BaseException | None = None

    def run(self) -> None:
        """Run the work, in the thread."""
        try:
            self.told = self._work()
        except BaseException as error:
            self.error = error

    def await_end(self, signals: Signals) -> bool:
        """Wait for the thread to end or for a signal; return whether it has ended."""
        while self.is_alive() and signals.number is None:
            self.pause()
        return not self.is_alive()

    def pause(self) -> None:
        """Wait ``LOOK_S`` seconds, or until the thread ends."""
        self.join(LOOK_S)
