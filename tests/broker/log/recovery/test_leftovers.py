"""Half-done deletions and replacements of segments are finished or undone before loading."""

from __future__ import annotations

import contextlib

import pytest

from ottla.broker.log.recovery.leftovers import tidy_directory
from ottla.broker.log.recovery.loading import Known
from ottla.broker.log.storage.settings import LogSettings
from tests.broker.log.crash_disk import CrashDisk, PowerCut
from tests.broker.log.log_under_test import DIRECTORY, LogUnderTest, batch_at, read_all
from tests.simulation.world.filesystem import SimFileSystem

BASES = (0, 12, 24)


def path(base_offset: int, suffix: str) -> str:
    return f"{DIRECTORY}/{base_offset:020d}{suffix}"


async def old_log(disk: CrashDisk) -> None:
    tested = LogUnderTest(disk, LogSettings(segment_bytes=600, index_interval_bytes=100))
    log = await tested.open()
    for _ in range(16):
        tested.append(log, 3)
    await log.flush()


async def test_deleted_and_temporary_files_go() -> None:
    """Their owner was about to remove them."""
    disk = CrashDisk()
    await old_log(disk)
    for name in (
        path(100, ".log.deleted"),
        path(100, ".index.deleted"),
        path(0, ".log.cleaned"),
        f"{DIRECTORY}/leader-epoch-checkpoint.tmp",
    ):
        disk.open(name, create=True)
    names = await tidy_directory(disk, DIRECTORY)
    assert sorted(disk.files.directory(DIRECTORY).entries) == sorted(names)
    assert not [name for name in names if name.endswith((".deleted", ".cleaned", ".tmp"))]
    assert len([name for name in names if name.endswith(".log")]) == 4


async def test_an_index_without_its_log_goes_and_a_snapshot_stays() -> None:
    """The log is removed first; snapshots may be of offsets at which no segment starts."""
    disk = CrashDisk()
    await old_log(disk)
    await disk.unlink(path(12, ".log"))
    disk.open(path(77, ".snapshot"), create=True)
    names = await tidy_directory(disk, DIRECTORY)
    assert f"{12:020d}.index" not in names
    assert f"{12:020d}.snapshot" in names
    assert f"{77:020d}.snapshot" in names
    assert f"{0:020d}.index" in names


async def replace_three_segments(disk: CrashDisk) -> None:
    """What compaction does: write the replacement, then swap it in, name by name."""
    cleaned = disk.open(path(0, ".log.cleaned"), create=True)
    # Two batches are left of the three segments.
    cleaned.append([batch_at(9, 3).view, batch_at(33, 3).view])
    await cleaned.fsync()
    disk.open(path(0, ".index.cleaned"), create=True)
    await disk.fsync_directory(DIRECTORY)
    await disk.rename(path(0, ".index.cleaned"), path(0, ".index.swap"))
    await disk.rename(path(0, ".log.cleaned"), path(0, ".log.swap"))
    await disk.fsync_directory(DIRECTORY)
    for base_offset in BASES:
        for suffix in (".log", ".index", ".timeindex"):
            await disk.rename(path(base_offset, suffix), path(base_offset, suffix + ".deleted"))
    await disk.rename(path(0, ".index.swap"), path(0, ".index"))
    await disk.rename(path(0, ".log.swap"), path(0, ".log"))
    await disk.fsync_directory(DIRECTORY)


@pytest.mark.parametrize("kill", [True, False])
async def test_a_crash_at_any_rename_of_a_replacement_leaves_the_old_or_the_new(kill: bool) -> None:
    """S-14: never both, never neither, and what was not replaced stays."""
    outcomes: set[str] = set()
    whole = CrashDisk(SimFileSystem())
    await old_log(whole)
    before = whole.changes
    await replace_three_segments(whole)
    for crash_at in range(before + 1, whole.changes + 2):
        disk = CrashDisk(SimFileSystem())
        await old_log(disk)
        for directory in ("/", "/data"):
            await disk.fsync_directory(directory)
        disk.crash_at = crash_at + 2
        with contextlib.suppress(PowerCut):
            await replace_three_segments(disk)
        after = disk.killed() if kill else disk.power_cut(crash_at)
        tested = LogUnderTest(after, LogSettings(segment_bytes=600, index_interval_bytes=100))
        log = await tested.open(Known(48))
        found = [(first, last) for first, last, _ in read_all(log)]
        old = [(offset, offset + 2) for offset in range(0, 48, 3)]
        new = [(9, 11), (33, 35), *((offset, offset + 2) for offset in range(36, 48, 3))]
        assert found in (old, new)
        outcomes.add("old" if found == old else "new")
        assert log.log_end_offset == 48
    assert outcomes == {"old", "new"}
