"""What ext4 leaves of a log when the power goes, shown on a file system of our own.

Needs root and loop devices. The kernel drops everything that is not on the device, at once.
"""

from __future__ import annotations

import ctypes
import gc
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ottla.broker.log.partition_log import PartitionLog
from ottla.broker.log.recovery.loading import Known, load_log
from ottla.broker.log.storage.directory_services import LogDirectoryServices, OpenSegments
from ottla.broker.log.storage.health import DirectoryHealth
from ottla.broker.log.storage.settings import LogSettings
from ottla.broker.system.real_disk import RealDisk
from ottla.protocol.errors import CorruptLogError
from tests.broker.log.log_under_test import (
    PARTITION,
    InlineOffload,
    Notebook,
    batch_at,
    read_all,
    seams_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

if sys.platform != "linux" or os.geteuid() != 0 or shutil.which("mkfs.ext4") is None:
    pytest.skip("needs root on Linux and mkfs.ext4", allow_module_level=True)

import fcntl

pytestmark = pytest.mark.soak

SHUTDOWN = 0x8004587D  # EXT4_IOC_SHUTDOWN
WITHOUT_LOG_FLUSH = (2).to_bytes(4, sys.byteorder)
WRITE_AND_WAIT = 7  # all three flags of sync_file_range(2)
PAGE_BYTES = 4096


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


class Machine:
    """A file system in a file; its power can be cut."""

    def __init__(self, folder: Path) -> None:
        self.image, self.root = str(folder / "disk.img"), str(folder / "mnt")
        os.mkdir(self.root)
        with open(self.image, "wb") as image:
            image.truncate(64 << 20)
        run("mkfs.ext4", "-q", self.image)
        run("mount", "-o", "loop", self.image, self.root)

    def cut_power(self) -> None:
        """And boot again: the journal is replayed by the mount."""
        root = os.open(self.root, os.O_RDONLY)
        fcntl.ioctl(root, SHUTDOWN, WITHOUT_LOG_FLUSH)
        os.close(root)
        self.unmount()
        run("mount", "-o", "loop", self.image, self.root)

    def unmount(self) -> None:
        """Unmounts the file system; no process may have a file open there."""
        gc.collect()
        run("umount", self.root)

    async def load(self, known: Known) -> PartitionLog:
        """The one log there, as after a start."""
        disk = RealDisk(InlineOffload())
        home = LogDirectoryServices(
            seams_of(disk), DirectoryHealth(disk, self.root), OpenSegments()
        )
        directory = f"{self.root}/orders-0"
        disk.make_directory(directory)
        await disk.fsync_directory(self.root)
        log = PartitionLog(home, directory, PARTITION, None, LogSettings(), Notebook())
        await load_log(log, known)
        return log


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    try:
        made = Machine(tmp_path)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no file system of our own: {error}")
    yield made
    made.unmount()


def write_back(path: str, position: int, count: int) -> None:
    """What the kernel's own flusher may do first, to any pages."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(path, os.O_RDWR)
    start, length = ctypes.c_int64(position), ctypes.c_int64(count)
    assert libc.sync_file_range(descriptor, start, length, WRITE_AND_WAIT) == 0
    os.close(descriptor)


def commit_journal(root: str) -> None:
    """Makes the larger size durable by an fsync of another file."""
    descriptor = os.open(f"{root}/other", os.O_RDWR | os.O_CREAT)
    os.write(descriptor, b"x")
    os.fsync(descriptor)
    os.close(descriptor)


async def test_a_power_cut_leaves_a_hole_and_the_log_ends_there(machine: Machine) -> None:
    """S-01: valid batches behind zeros are nothing strange, and nothing flushed is lost."""
    log = await machine.load(Known())
    for _ in range(28):
        log.append([batch_at(log.log_end_offset, value=b"f" * 900)], 0)
    await log.flush()
    flushed, end_offset, flushed_bytes = read_all(log), log.log_end_offset, log.size_bytes
    for _ in range(40):
        log.append([batch_at(log.log_end_offset, value=b"u" * 900)], 0)
    path = log.active.path
    write_back(path, (flushed_bytes // PAGE_BYTES + 3) * PAGE_BYTES, 4 * PAGE_BYTES)
    commit_journal(machine.root)
    del log
    machine.cut_power()

    content = RealDisk(InlineOffload()).open(path).pread(1 << 20, 0)
    assert content[flushed_bytes : flushed_bytes + PAGE_BYTES] == bytes(PAGE_BYTES)
    assert b"u" * 900 in content
    with pytest.raises(CorruptLogError):
        await machine.load(Known(end_offset))
    log = await machine.load(Known(end_offset, may_have_lost_writes=True))
    assert read_all(log) == flushed
    assert [name for name in os.listdir(log.directory) if name.endswith(".damaged")]
    del log
