"""A broker in a process of its own, and what the kernel says about it in /proc (Linux)."""

from __future__ import annotations

import os
import socket
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import ottla
import ottla.sync
from benchmarks.frames import fetch_frame
from examples.why.showing import work_folder
from tests.support.broker_process import BrokerProcess

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MEBIBYTE = 1 << 20
# A batch of this size and its request fit the brokers' default limit of 1 MiB.
BATCH_BYTES = MEBIBYTE - 2_000
TOPIC = "flow"
# Segments are deleted soon, so that gigabytes pass over a small disk.
PASSING = {
    "log.segment.bytes": str(64 * MEBIBYTE),
    "log.retention.bytes": str(256 * MEBIBYTE),
    "log.retention.check.interval.ms": "500",
    "log.segment.delete.delay.ms": "0",
}
SECTOR_BYTES = 512


@contextmanager
def broker(options: dict[str, str] | None = None) -> Iterator[BrokerProcess]:
    """A broker with one topic of one partition; its data is deleted when it stops."""
    with (
        work_folder() as folder,
        BrokerProcess(folder / "data", options=options) as started,
    ):
        with ottla.sync.Admin(started.address) as admin:
            admin.create_topic(ottla.NewTopic(TOPIC, 1, 1))
        yield started


def segments(started: BrokerProcess) -> list[Path]:
    """The files that hold the topic's records, oldest first."""
    return sorted(started.data_dir.glob(f"**/{TOPIC}-0/*.log"))


def end_offset(started: BrokerProcess) -> int:
    """The offset that the topic's next record gets."""
    where = ottla.TopicPartition(TOPIC, 0)
    with ottla.sync.Consumer(started.address) as consumer:
        return consumer.end_offsets([where])[where]


def read_batches(
    started: BrokerProcess, offsets: Iterable[int], fetch_bytes_max: int = BATCH_BYTES
) -> int:
    """Fetch a batch at each offset, one after the other; the bytes of the answers."""
    received = 0
    room = memoryview(bytearray(MEBIBYTE))
    with socket.create_connection(("127.0.0.1", started.port)) as connection:
        for offset in offsets:
            connection.sendall(fetch_frame(TOPIC, 0, offset, fetch_bytes_max))
            left = int.from_bytes(connection.recv(4, socket.MSG_WAITALL))
            received += 4 + left
            while left:
                count = connection.recv_into(room, min(left, len(room)))
                if not count:
                    raise ConnectionError("the broker has closed the connection")
                left -= count
    return received


def resident_mib(process_id: int) -> float:
    """All memory of the process that is in RAM, shared libraries included."""
    for line in Path(f"/proc/{process_id}/status").read_text("utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("the kernel does not say how much memory a process has")


class Traffic(NamedTuple):
    """Bytes and calls of a process so far: by devices, and by its own reads and writes of files."""

    device_read_bytes: int
    device_written_bytes: int
    read_calls: int
    write_calls: int

    def since(self, before: Traffic) -> Traffic:
        return Traffic(*(now - then for now, then in zip(self, before, strict=True)))


def traffic(process_id: int) -> Traffic:
    """What /proc/PID/io says. Bytes count as written when a page becomes dirty."""
    lines = Path(f"/proc/{process_id}/io").read_text("utf-8").splitlines()
    found = {name: int(value) for name, value in (line.split(": ") for line in lines)}
    return Traffic(found["read_bytes"], found["write_bytes"], found["syscr"], found["syscw"])


def device_bytes(path: Path) -> tuple[int, int] | None:
    """Bytes that the device under a path has read and written, for all processes; None if the
    path is on no device of its own. This is what iostat shows."""
    number = os.stat(path).st_dev
    wanted = (str(os.major(number)), str(os.minor(number)))
    for line in Path("/proc/diskstats").read_text("utf-8").splitlines():
        fields = line.split()
        if (fields[0], fields[1]) == wanted:
            return int(fields[5]) * SECTOR_BYTES, int(fields[9]) * SECTOR_BYTES
    return None
