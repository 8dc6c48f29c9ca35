"""``ottla doctor``: Python, packages, limits, memory and the clock of this machine."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from ottla import __version__
from ottla.broker.cli.findings import CheckFinding, ok, problem, warning
from ottla.broker.system.file_limits import reachable
from ottla.client.cli.progress import amount
from ottla.protocol.records import codec

if sys.platform != "win32":
    import resource

if TYPE_CHECKING:
    from collections.abc import Iterator

# What a package is for, if it is missing.
PACKAGES = {
    "uvloop": "brokers and clients run on asyncio's own loop, which is slower",
    "crc32c": "checksums are computed in Python, which is many times slower",
    "lz4": "records compressed with lz4 cannot be written or read",
    "zstandard": "records compressed with zstd cannot be written or read",
    "python-snappy": "records compressed with snappy cannot be written or read",
    "kazoo": "brokers cannot meet in ZooKeeper",
    "google-re2": "patterns of group members are not matched",
}
OPEN_FILES_WANTED = 10_000
OPEN_FILES_NEEDED = 1_024
MEMORY_WANTED_BYTES = 256 * 1024 * 1024
# No clock that was ever set shows an earlier time: 2024-01-01.
PAST_SECONDS = 1_704_067_200
# From adjtimex(2): the kernel has not heard from a time server for long.
TIME_ERROR = 5
TIMEX_BYTES = 256


def check_machine() -> Iterator[CheckFinding]:
    """All of it."""
    yield ok(
        "versions",
        f"ottla {__version__}, {platform.python_implementation()} {platform.python_version()}, "
        f"{platform.system()} {platform.release()}, {os.cpu_count() or 1} processors",
    )
    yield check_codec()
    yield from check_packages()
    if sys.platform != "win32":
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        # A start raises its own limit to that.
        yield judge_open_files(reachable(soft, hard), hard)
    yield from check_memory()
    yield check_clock(time.time(), kernel_clock_state())


def check_codec() -> CheckFinding:
    """Whether records are encoded by the compiled twin."""
    if codec.IS_COMPILED:
        return ok("codec", "records are encoded and decoded by compiled code")
    if os.environ.get("OTTLA_PURE"):
        return warning("codec", "OTTLA_PURE keeps the compiled codec away", "unset it for speed")
    return warning(
        "codec",
        "records are encoded and decoded in Python, which is slower",
        "install a wheel of ottla, or build it where there is a C compiler",
    )


def check_packages() -> Iterator[CheckFinding]:
    """Which versions are there, on one line, and a line for each that is missing."""
    versions = {}
    for name, lack in PACKAGES.items():
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            if name != "uvloop" or sys.platform != "win32":
                yield warning("packages", f"{name} is missing: {lack}", f"pip install {name}")
    if versions:
        yield ok("packages", ", ".join(f"{name} {one}" for name, one in versions.items()))


def judge_open_files(soft: int, hard: int) -> CheckFinding:
    """Every segment is an open file or three, every connection another."""
    if soft == -1 or soft >= OPEN_FILES_WANTED:
        return ok("open files", "no limit" if soft == -1 else f"up to {soft:,}")
    advice = "raise it with 'ulimit -n 65536', or LimitNOFILE= of the service"
    if hard != -1 and hard < OPEN_FILES_WANTED:
        advice += f" (the hard limit, {hard:,}, has to be raised by the administrator first)"
    text = f"at most {soft:,}, and every segment and connection needs some"
    judge = problem if soft < OPEN_FILES_NEEDED else warning
    return judge("open files", text, advice)


def check_memory() -> Iterator[CheckFinding]:
    """How much there is for brokers and for the page cache, where the kernel tells."""
    try:
        lines = Path("/proc/meminfo").read_text("latin1").splitlines()
    except OSError:
        return
    sizes = {line.partition(":")[0]: int(line.split()[1]) * 1024 for line in lines}
    available, total = sizes.get("MemAvailable"), sizes.get("MemTotal")
    if available is None or total is None:
        return
    text = f"{amount(available, 'bytes')} of {amount(total, 'bytes')} available"
    if available < MEMORY_WANTED_BYTES:
        yield warning("memory", text, "stop something, or expect reads to wait for the disk")
    else:
        yield ok("memory", text)


def kernel_clock_state() -> int | None:
    """What the kernel thinks of its clock (adjtimex); None where it cannot be asked."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        # All zero, so that nothing is changed.
        return int(ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(TIMEX_BYTES)))
    except (OSError, AttributeError):
        return None


def check_clock(now_seconds: float, state: int | None) -> CheckFinding:
    """Timestamps, retention and lookups by time live on it."""
    shown = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now_seconds))
    if now_seconds < PAST_SECONDS:
        return problem("clock", f"shows {shown}, which is long past", "set it, and run NTP")
    if state == TIME_ERROR:
        return warning(
            "clock",
            f"shows {shown}; the kernel says that no time server keeps it right",
            "run chrony or systemd-timesyncd, here or on the host of the container",
        )
    return ok("clock", f"shows {shown}" + (", kept by a time server" if state == 0 else ""))
