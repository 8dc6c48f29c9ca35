"""Which signals ask for an end, and work that the first lets end in order, the second at once.

A signal breaks whatever the main thread is at: a call to another process, say, whose connection is
of no use then. So the work has a thread of its own, and the main one, which signals reach, waits
for it and sees to its end.
"""

from __future__ import annotations

import signal
import sys
import threading
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, TracebackType

# The exit status of what a signal has ended is this and its number, as shells have it.
SIGNALLED = 128
LOOK_S = 0.2


def hangups() -> tuple[signal.Signals, ...]:
    """SIGHUP, which comes when the terminal is closed, unless this process was told to ignore it.

    ``nohup`` starts commands so, because they shall outlive the terminal. Windows has none."""
    if sys.platform == "win32" or signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return ()
    return (signal.SIGHUP,)


class Signals:
    """As a context: the first signal is kept for whoever looks, the second is KeyboardInterrupt.

    Outside of the main thread, where Python takes none, it does nothing."""

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
        """Of a process that was ended by the one that has come."""
        assert self.number is not None
        return SIGNALLED + self.number

    def _take(self, number: int, _: FrameType | None) -> None:
        if self.number is not None:
            raise KeyboardInterrupt
        self.number = number


class WorkThread(threading.Thread):
    """Runs ``work`` and keeps what it returns or raises. Does not keep the process."""

    def __init__(self, work: Callable[[], str]) -> None:
        super().__init__(name="ottla-work", daemon=True)
        self._work = work
        self.told = ""
        self.error: BaseException | None = None

    def run(self) -> None:
        """In the thread."""
        try:
            self.told = self._work()
        except BaseException as error:
            self.error = error

    def await_end(self, signals: Signals) -> bool:
        """Wait until it ends, or a signal comes; whether it has ended."""
        while self.is_alive() and signals.number is None:
            self.pause()
        return not self.is_alive()

    def pause(self) -> None:
        """For a moment, or until it ends."""
        self.join(LOOK_S)
