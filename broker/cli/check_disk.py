"""``ottla doctor``: a data directory and the disk below it. Leaves everything as it was."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.broker.cli.findings import CheckFinding, ok, problem, warning
from ottla.broker.log.storage.names import (
    CLEAN_SHUTDOWN,
    DAMAGED,
    LOCK,
    META_PROPERTIES,
    STRAY_MARK,
    parse_partition_name,
)
from ottla.broker.system.real_disk import RealDisk, RealOffload
from ottla.client.cli.progress import amount
from ottla.coordinator.configs.broker_configs import ConfigError, parse_properties

if TYPE_CHECKING:
    from collections.abc import Iterator

FSYNCS = 15
FSYNC_BYTES = 4096
FSYNC_MS_WANTED = 25.0
SPACE_SHARE_WANTED = 0.1
SPACE_BYTES_NEEDED = 256 * 1024 * 1024
MOUNTS = Path("/proc/self/mountinfo")
# What is doubtful below a log, and what to do about it.
DOUBTFUL = {
    "tmpfs": ("keeps files in memory: they are gone after a reboot", "put the data on a disk"),
    "ramfs": ("keeps files in memory: they are gone after a reboot", "put the data on a disk"),
    "overlay": ("is a container's own layer, gone with the container", "mount a volume there"),
    "nfs": ("is a network file system: locks and fsync may not hold", "use a local disk"),
    "nfs4": ("is a network file system: locks and fsync may not hold", "use a local disk"),
    "cifs": ("is a network file system: locks and fsync may not hold", "use a local disk"),
    "9p": ("is shared from another system: fsync may not hold", "use a disk of its own"),
}


def check_disk(directory: Path) -> Iterator[CheckFinding]:
    """The directory, or where it will be made, and the disk that it is on."""
    directory = directory.absolute()
    if directory.exists() and not directory.is_dir():
        yield problem("data", f"{directory} is not a directory", "name another with --data-dir")
        return
    if directory.exists():
        yield from check_state(directory)
    else:
        yield ok("data", f"{directory} does not exist yet; the first start creates it")
    place = existing(directory)
    if not os.access(place, os.W_OK | os.X_OK):
        yield problem(
            "data",
            f"{place} cannot be written to by this user",
            f"chown it to user {os.getuid() if hasattr(os, 'getuid') else ''} or name another",
        )
        return
    try:
        usage = shutil.disk_usage(place)
        yield judge_space(usage.free, usage.total)
        yield judge_kind(place, kind_of(str(place.resolve()), mounts()))
        yield judge_fsync(measure_fsync(place))
    except OSError as error:
        advice = "look at the kernel's log and at the disk"
        yield problem("disk", f"{place} fails: {error.strerror or error}", advice)


def existing(directory: Path) -> Path:
    """The nearest parent that exists."""
    while not directory.exists():
        directory = directory.parent
    return directory


def check_state(directory: Path) -> Iterator[CheckFinding]:
    """Whose data it is, and how it was left."""
    meta = directory / META_PROPERTIES
    if not meta.is_file():
        brokers = [one for one in sorted(directory.glob(f"*/{META_PROPERTIES}"))]
        if brokers:
            for one in brokers:
                yield from check_state(one.parent)
        elif any(directory.iterdir()):
            yield problem(
                "data",
                f"{directory} holds files, and no broker's",
                "name an empty directory: a broker does not mix its data with others'",
            )
        else:
            yield ok("data", f"{directory} is empty; the first start initializes it")
        return
    try:
        said = parse_properties(meta.read_text("utf-8"))
    except (ConfigError, OSError, UnicodeDecodeError) as error:
        yield problem("data", f"{meta} cannot be read: {error}", "take it from a backup")
        return
    partitions = [one for one in directory.iterdir() if parse_partition_name(one.name) is not None]
    owner = f"broker {said.get('broker.id', '?')} of cluster {said.get('cluster.id', '?')}"
    text = f"{directory} is of {owner}, {len(partitions)} partitions"
    if is_locked(directory):
        yield ok("data", f"{text}, in use by a running broker")
    elif (directory / CLEAN_SHUTDOWN).exists() or not partitions:
        yield ok("data", f"{text}, left cleanly")
    else:
        yield warning(
            "data", f"{text}, not left cleanly", "the next start checks its logs, which takes time"
        )
    yield from check_remains(directory)


def is_locked(directory: Path) -> bool:
    """Whether a broker runs on it. Nothing is made for the question."""
    lock = directory / LOCK
    if not lock.exists():
        return False
    try:
        RealDisk(RealOffload()).lock(str(lock)).release()
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def check_remains(directory: Path) -> Iterator[CheckFinding]:
    """What should not lie there for ever."""
    strays = [one.name for one in directory.iterdir() if one.name.endswith(STRAY_MARK)]
    if strays:
        yield warning(
            "data",
            f"{len(strays)} partitions were put aside since no topic has them, such as {strays[0]}",
            "delete them if their records are not needed",
        )
    damaged = sorted(directory.glob(f"*/*{DAMAGED}"))
    if damaged:
        yield warning(
            "data",
            f"{len(damaged)} files hold what was cut off as damaged, such as {damaged[0]}",
            "look at them with 'ottla log dump', then delete them",
        )


def judge_space(free_bytes: int, total_bytes: int) -> CheckFinding:
    """A full disk stops a broker's writes."""
    text = f"{amount(free_bytes, 'bytes')} of {amount(total_bytes, 'bytes')} free"
    if free_bytes < SPACE_BYTES_NEEDED:
        return problem("disk", text, "delete something, or lower retention.ms of large topics")
    if total_bytes and free_bytes / total_bytes < SPACE_SHARE_WANTED:
        return warning("disk", text, "make room, or lower retention.ms of large topics")
    return ok("disk", text)


def mounts() -> list[tuple[str, str]]:
    """Mount points with their file systems; none where the kernel does not tell."""
    try:
        lines = MOUNTS.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        before, _, after = line.partition(" - ")
        point = before.split()[4].replace("\\040", " ")
        found.append((point, after.split()[0]))
    return found


def kind_of(path: str, mounted: list[tuple[str, str]]) -> str | None:
    """The file system of the longest mount point above the path; the last mounted covers others."""
    best, kind = "", None
    for point, system in mounted:
        stem = point.rstrip("/") + "/"
        if (path + "/").startswith(stem) and len(stem) >= len(best):
            best, kind = stem, system
    return kind


def judge_kind(place: Path, kind: str | None) -> CheckFinding:
    """Some file systems do not keep what they promise, or not for long."""
    if kind is None:
        return ok("disk", f"the file system of {place} is not known")
    lack = DOUBTFUL.get(kind)
    if lack is None:
        return ok("disk", f"{place} is on {kind}")
    return warning("disk", f"{place} is on {kind}, which {lack[0]}", lack[1])


def measure_fsync(place: Path) -> list[float]:
    """How long each of some small synced writes took, in ms. Raises OSError."""
    times = []
    with tempfile.NamedTemporaryFile(dir=place, prefix=".ottla-doctor-") as file:
        for _ in range(FSYNCS):
            os.write(file.fileno(), bytes(FSYNC_BYTES))
            begun = time.monotonic()
            os.fsync(file.fileno())
            times.append((time.monotonic() - begun) * 1000)
    return times


def judge_fsync(times_ms: list[float]) -> CheckFinding:
    """Metadata, and records of topics with ottla.flush.before.ack, wait for it."""
    median, slowest = statistics.median(times_ms), max(times_ms)
    text = f"fsync takes {median:.1f} ms, {slowest:.1f} ms at most of {len(times_ms)}"
    if median > FSYNC_MS_WANTED:
        return warning("disk", text, "use a faster disk, or one that others use less")
    return ok("disk", text)
