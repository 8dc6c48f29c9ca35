"""The simulated disk keeps what was synced and nothing else it was not told to keep."""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING, Any

import pytest

from ottla.broker.testing.faulty_disk import DiskFault
from tests.simulation.world.disk import DiskProfile, SimDisk
from tests.simulation.world.filesystem import SimFileSystem
from tests.simulation.world.loop import SimLoop
from tests.simulation.world.process import ProcessEnded, SimProcess
from tests.simulation.world.random import SimRandom

if TYPE_CHECKING:
    from collections.abc import Coroutine

CALM = DiskProfile(spike_probability=0.0)


class Bench:
    """One disk with one process at a time."""

    def __init__(self, capacity_bytes: int = 1 << 40) -> None:
        self.loop = SimLoop(SimRandom(1))
        self.files = SimFileSystem(capacity_bytes)
        self.disk = self.boot()

    def boot(self) -> SimDisk:
        self.process = SimProcess(self.loop, "broker", 1)
        self.disk = SimDisk(self.loop, self.files, self.process, SimRandom(2), CALM)
        return self.disk

    def run(self, coroutine: Coroutine[Any, Any, object]) -> None:
        self.loop.run_until_complete(coroutine)

    def power_cut(self, seed: int, *, ordered: bool = False) -> SimDisk:
        self.loop.drop(self.process.domain)
        self.files.lose_power(SimRandom(seed), ordered=ordered)
        return self.boot()


def content(disk: SimDisk, path: str) -> bytes | None:
    return disk.open(path).pread(1 << 20, 0) if disk.exists(path) else None


@pytest.mark.parametrize("ordered", [False, True])
def test_what_was_synced_with_its_name_survives_every_power_cut(ordered: bool) -> None:
    """This is the only promise a program may build on."""
    for seed in range(200):
        bench = Bench()
        file = bench.disk.open("/0.log", create=True)
        file.append([b"a" * 5000])

        bench.run(file.fsync())
        bench.run(bench.disk.fsync_directory("/"))
        file.append([b"b" * 9000])
        after = content(bench.power_cut(seed, ordered=ordered), "/0.log")
        assert after is not None
        assert after[:5000] == b"a" * 5000
        assert len(after) <= 14000
        bench.loop.close()


def test_unsynced_bytes_are_lost_torn_zeroed_or_kept() -> None:
    """Each of these is what recovery must cope with (S-01, S-02): all of them must occur."""
    seen = set()
    for seed in range(300):
        bench = Bench()
        file = bench.disk.open("/0.log", create=True)
        bench.run(bench.disk.fsync_directory("/"))
        file.append([b"a" * 9000])
        file.append([b"b" * 9000])
        after = content(bench.power_cut(seed), "/0.log")
        assert after is not None
        whole = b"a" * 9000 + b"b" * 9000
        if after == whole:
            seen.add("kept")
        elif after == b"":
            seen.add("empty")
        elif after == whole[: len(after)]:
            seen.add("prefix")
        if b"\0" * 512 in after and after.rstrip(b"\0") != after:
            seen.add("zeros at the end")
        if b"\0" * 512 in after.rstrip(b"\0"):
            seen.add("hole")
        bench.loop.close()

    assert seen == {"kept", "empty", "prefix", "zeros at the end", "hole"}


def test_what_is_called_durable_survives_every_power_cut() -> None:
    """The oracle may demand no less: a page that grew keeps what was synced of it."""
    for seed in range(100):
        bench = Bench()
        file = bench.disk.open("/0.log", create=True)
        bench.run(bench.disk.fsync_directory("/"))
        whole = bytes(range(1, 251)) * 100
        file.append([whole[:5000]])
        bench.run(file.fsync())
        file.append([whole[5000:]])
        assert bench.files.file("/0.log").durable_prefix_bytes == 5000
        after = content(bench.power_cut(seed), "/0.log")
        assert after is not None
        assert after[:5000] == whole[:5000]
        bench.loop.close()


def test_only_a_power_cut_begins_another_run_of_the_machine() -> None:
    """By this name brokers distinguish a crash of the machine from one of their process."""
    bench = Bench()
    before = bench.disk.boot_id()
    assert bench.boot().boot_id() == before
    assert bench.power_cut(1).boot_id() != before
    bench.loop.close()


def test_ordered_cuts_leave_a_prefix() -> None:
    """With a journal and ordered data there are no holes, so recovery must never give up."""
    for seed in range(200):
        bench = Bench()
        file = bench.disk.open("/0.log", create=True)
        bench.run(bench.disk.fsync_directory("/"))
        whole = bytes(range(1, 251)) * 100
        file.append([whole[:5000]])
        bench.run(file.fsync())
        file.append([whole[5000:]])
        after = content(bench.power_cut(seed, ordered=True), "/0.log")
        assert after is not None
        assert after == whole[: len(after)]
        assert len(after) >= 5000
        bench.loop.close()


def test_a_name_without_directory_fsync_may_be_gone() -> None:
    """A segment whose bytes were synced and whose name was not is lost (S-07)."""
    outcomes = set()
    for seed in range(50):
        bench = Bench()
        file = bench.disk.open("/0.log", create=True)
        file.append([b"x"])
        bench.run(file.fsync())
        outcomes.add(content(bench.power_cut(seed), "/0.log"))
        bench.loop.close()

    assert outcomes == {None, b"x"}


def test_an_unsynced_rename_leaves_the_old_or_the_new_file_never_a_mixture() -> None:
    """Atomic renames are why checkpoints are replaced by rename (S-08)."""
    outcomes = set()
    for seed in range(80):
        bench = Bench()

        async def scenario(disk: SimDisk = bench.disk) -> None:
            for name, text in (("/point", b"old"), ("/point.tmp", b"new")):
                file = disk.open(name, create=True)
                file.append([text])
                await file.fsync()
            await disk.fsync_directory("/")
            await disk.rename("/point.tmp", "/point")

        bench.run(scenario())
        assert content(bench.disk, "/point") == b"new"
        disk = bench.power_cut(seed)
        outcomes.add((content(disk, "/point"), content(disk, "/point.tmp")))
        bench.loop.close()

    assert outcomes == {(b"old", b"new"), (b"new", None)}


def test_a_kill_loses_nothing_but_a_later_power_cut_still_may() -> None:
    """The page cache outlives the process; it is not the disk."""
    lengths = set()
    for seed in range(20):
        bench = Bench()
        file = bench.disk.open("/0.log", create=True)
        bench.run(bench.disk.fsync_directory("/"))
        file.append([b"x" * 100])
        bench.loop.drop(bench.process.domain)
        with pytest.raises(ProcessEnded):
            file.append([b"from the grave"])
        assert content(bench.boot(), "/0.log") == b"x" * 100
        lengths.add(len(content(bench.power_cut(seed), "/0.log") or b""))
        bench.loop.close()

    assert 0 in lengths


def test_bytes_appended_during_an_fsync_are_not_covered_by_it() -> None:
    """The fsync of a busy segment promises only what was there when it was called."""
    losses = 0
    for seed in range(60):
        bench = Bench()

        async def scenario(disk: SimDisk = bench.disk) -> None:
            file = disk.open("/0.log", create=True)
            await disk.fsync_directory("/")
            file.append([b"before"])
            syncing = asyncio.ensure_future(file.fsync())
            await asyncio.sleep(0)
            file.append([b"after"])
            await syncing

        bench.run(scenario())
        after = content(bench.power_cut(seed), "/0.log")
        assert after is not None
        assert after[:6] == b"before"
        losses += after != b"beforeafter"
        bench.loop.close()

    assert losses > 0


def test_after_a_failed_fsync_the_next_one_succeeds_and_the_bytes_are_gone() -> None:
    """Linux reports a lost write once; believing the second fsync loses data (S-09)."""
    bench = Bench()
    bench.disk.losing_fsyncs.add(DiskFault(frozenset({"fsync"}), times=1))

    async def scenario() -> None:
        file = bench.disk.open("/0.log", create=True)
        await bench.disk.fsync_directory("/")
        file.append([b"x" * 100])
        with pytest.raises(OSError, match="Input/output"):
            await file.fsync()
        assert file.pread(1, 0) == b"x"
        await file.fsync()

    bench.run(scenario())
    assert bench.disk.failed_fsyncs == {"/0.log": 1}
    assert content(bench.power_cut(1), "/0.log") == bytes(100)
    bench.loop.close()


def test_cancelling_who_waits_for_a_rename_does_not_undo_it() -> None:
    """A worker thread is not affected by cancelled tasks (P-04)."""
    bench = Bench()

    async def scenario() -> None:
        bench.disk.open("/a", create=True)
        waiting = asyncio.ensure_future(bench.disk.rename("/a", "/b"))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.sleep(1)
        assert await bench.disk.scan("/") == ["b"]

    bench.run(scenario())
    bench.loop.close()


def test_a_full_disk_takes_a_part_and_locks_die_with_their_process() -> None:
    """ENOSPC tears a batch; a lock left by a crash must not keep the broker from starting."""
    bench = Bench(capacity_bytes=10)
    file = bench.disk.open("/0.log", create=True)
    with pytest.raises(OSError, match="No space") as full:
        file.append([b"x" * 12])
    assert (full.value.errno, file.size_bytes) == (errno.ENOSPC, 10)

    bench.disk.lock("/.lock")
    with pytest.raises(BlockingIOError):
        bench.disk.lock("/.lock")
    bench.loop.drop(bench.process.domain)
    bench.boot().lock("/.lock")
    bench.loop.close()
