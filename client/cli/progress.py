"""Shows the progress of long work on a line of standard error, if that is a terminal."""

from __future__ import annotations

import os
import shutil
import sys
import time
from typing import TYPE_CHECKING, Self, TextIO

if TYPE_CHECKING:
    from types import TracebackType

BAR_WIDTH = 24
# More often flickers, less often seems stuck.
SECONDS_BETWEEN = 0.1
CLEAR_LINE = "\r\x1b[K"


def amount(number: float, unit: str) -> str:
    """A short text for a number of bytes or other units: ``1.5 MiB``, ``12,345 records``."""
    if unit != "bytes":
        return f"{number:,.0f} {unit}"
    for name in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.0f} {name}" if name == "B" else f"{number:.1f} {name}"
        number /= 1024
    return f"{number:.1f} TiB"


def bar_line(done: int, total: int | None, seconds: float, unit: str) -> str:
    """The text of the line; without a total the amount and rate, but no bar."""
    rate = amount(done / seconds if seconds > 0 else 0, unit)
    if not total:
        return f"{amount(done, unit)}  {rate}/s"
    share = min(1.0, done / total)
    filled = round(share * BAR_WIDTH)
    left = f"  {(total - done) * seconds / done:.0f} s left" if 0 < done < total else ""
    return (
        f"{'█' * filled}{'·' * (BAR_WIDTH - filled)} {share:4.0%}  {amount(done, unit)}  "
        f"{rate}/s{left}"
    )


def width_of(stream: TextIO) -> int:
    """The terminal's width in characters. Of a longer line only the end could be cleared."""
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        columns = 0
    return columns or shutil.get_terminal_size().columns


class ProgressLine:
    """Used as ``with ProgressLine("records", total) as progress: progress.add(n)``.

    Writes nothing unless standard error is a terminal, and clears the line at the end."""

    def __init__(self, unit: str, total: int | None = None, stream: TextIO | None = None) -> None:
        self.done = 0
        self._unit = unit
        self._total = total
        self._stream = sys.stderr if stream is None else stream
        # A dumb terminal cannot clear a line.
        is_able = os.environ.get("TERM") != "dumb"
        self._is_shown = is_able and self._stream is not None and self._stream.isatty()
        self._begun = self._last = time.monotonic()

    def add(self, count: int) -> None:
        """Add to the work done."""
        self.done += count
        if not self._is_shown:
            return
        now = time.monotonic()
        if now - self._last >= SECONDS_BETWEEN:
            self._last = now
            line = bar_line(self.done, self._total, now - self._begun, self._unit)
            self._stream.write(f"{CLEAR_LINE}{line[: width_of(self._stream) - 1]}")
            self._stream.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._is_shown:
            self._stream.write(CLEAR_LINE)
            self._stream.flush()


class WaitingNote:
    """Says once, on standard error if that is a terminal, that no record is left to be read."""

    def __init__(self, *, is_wanted: bool, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._is_due = is_wanted and self._stream is not None and self._stream.isatty()

    def tell(self) -> None:
        """A read has found nothing."""
        if self._is_due:
            self._is_due = False
            self._stream.write("ottla: waiting for new records; Ctrl-C ends\n")
            self._stream.flush()
