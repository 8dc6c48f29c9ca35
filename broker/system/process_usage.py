"""What this process takes of its machine, under the names that Prometheus' own libraries give.

Read from /proc where there is one; elsewhere only the processor time is known.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.broker.metrics.exposition import GAUGE, Family, counter, gauge

if sys.platform != "win32":
    import resource

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROC = Path("/proc")
# Fields of /proc/self/stat behind the name in parentheses, which may hold anything.
_START_TICKS, _VIRTUAL_BYTES, _RESIDENT_PAGES = 19, 20, 21


def process_families() -> Iterator[Family]:
    """Processor time, memory, descriptors, and when it all began."""
    seconds = time.process_time()
    yield counter("process_cpu_seconds_total", "Processor time, user and system.", seconds)
    implementation = (sys.implementation.name, ".".join(map(str, sys.version_info[:3])))
    yield Family(
        GAUGE,
        "python_info",
        "The Python that runs the broker.",
        ("implementation", "version"),
        ((implementation, 1),),
    )
    if sys.platform != "win32":
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        yield gauge("process_max_fds", "Descriptors that may be open.", limit)
    with contextlib.suppress(OSError):
        open_fds = len(os.listdir(_PROC / "self" / "fd"))
        yield gauge("process_open_fds", "Descriptors that are open.", open_fds)
    with contextlib.suppress(OSError):
        yield from _of_proc()


def _of_proc() -> Iterator[Family]:
    stat = (_PROC / "self" / "stat").read_text("latin1").rpartition(")")[2].split()
    resident = int(stat[_RESIDENT_PAGES]) * os.sysconf("SC_PAGE_SIZE")
    yield gauge("process_resident_memory_bytes", "Memory in use.", resident)
    virtual = int(stat[_VIRTUAL_BYTES])
    yield gauge("process_virtual_memory_bytes", "Address space in use.", virtual)
    boot = next(
        line for line in (_PROC / "stat").read_text("latin1").splitlines() if line[:6] == "btime "
    )
    started = int(boot.split()[1]) + int(stat[_START_TICKS]) / os.sysconf("SC_CLK_TCK")
    yield gauge("process_start_time_seconds", "When the process began, since 1970.", started)
