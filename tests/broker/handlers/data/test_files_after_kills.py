"""What a broker process makes of its files after kill -9: damage at the end is cut, and what is in
the page cache is served from there."""

from __future__ import annotations

import os
import random
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.broker.system.real_disk import RealDisk, RealOffload
from tests.broker.support.requests import batch, create, fetched, listed, produced
from tests.support.broker_process import BrokerProcess
from tests.support.raw_client import RawClient

if TYPE_CHECKING:
    from collections.abc import Callable

COUNT = 10
LARGE = bytes(100_000)
DAMAGES: dict[str, tuple[Callable[[bytearray, int], None], int]] = {
    # What is done to the file, with the size of its last batch, and how many batches stay.
    "random bytes behind the end": (
        lambda data, _last: data.extend(random.Random(7).randbytes(4_096)),
        COUNT,
    ),
    "cut in the middle of the last batch": (
        lambda data, last: data.__delitem__(slice(-(last // 2), None)),
        COUNT - 1,
    ),
    "a flipped bit in the last batch": (
        lambda data, _last: data.__setitem__(-1, data[-1] ^ 1),
        COUNT - 1,
    ),
}


def client_of(broker: BrokerProcess) -> RawClient:
    """A connection for ``async with``."""
    host, _, port = broker.address.rpartition(":")
    return RawClient(host, int(port))


def read_from_storage_bytes(process_id: int) -> int:
    """What a process has made the kernel fetch from the disk itself."""
    found = re.search(r"^read_bytes: (\d+)$", Path(f"/proc/{process_id}/io").read_text(), re.M)
    assert found is not None
    return int(found.group(1))


@pytest.mark.requirement("LOG-25", "LOG-26", "LOG-27", "LOG-28")
async def test_a_broker_that_starts_cuts_the_newest_segment_behind_its_last_sound_batch(
    tmp_path: Path,
) -> None:
    """Each time the process is killed, its file is damaged in another way, and it starts again: it
    keeps what is whole up to there, and writes on behind it."""
    file = tmp_path / "data" / "t-0" / f"{0:020d}.log"
    broker = BrokerProcess(tmp_path / "data").start()
    async with client_of(broker) as client:
        await create(client)
    found = {}
    for name, (damage, kept) in DAMAGES.items():
        async with client_of(broker) as client:
            while (end := (await listed(client, -1)).offset) < COUNT:
                await produced(client, batch(b"%d" % end * 50))
        broker.kill()
        sound = file.read_bytes()
        size = len(sound) // COUNT
        damaged = bytearray(sound)
        damage(damaged, size)
        file.write_bytes(damaged)
        broker.start()
        async with client_of(broker) as client:
            end = (await listed(client, -1)).offset
        found[name] = (end, file.read_bytes() == sound[: kept * size])
    broker.stop()

    assert found == {name: (kept, True) for name, (_, kept) in DAMAGES.items()}


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="reads counters from /proc")
@pytest.mark.requirement("LOG-11")
async def test_a_restarted_broker_serves_recent_records_without_a_read_of_the_disk(
    tmp_path: Path,
) -> None:
    """The page cache belongs to the kernel, so it outlives the process: no cache has to warm up."""
    file = tmp_path / "data" / "t-0" / f"{0:020d}.log"
    broker = BrokerProcess(tmp_path / "data").start()
    async with client_of(broker) as client:
        await create(client)
        await create(client, "another")
        await produced(client, batch(b"x"), topic="another")
        for _ in range(50):
            await produced(client, batch(LARGE))
    broker.kill()

    async def full_read() -> tuple[int, int]:
        got_bytes = 0
        async with client_of(broker.start()) as client:
            # Code that is loaded with the first fetch may come from the disk.
            await fetched(client, 0, topic="another")
            before = read_from_storage_bytes(broker.process_id)
            for offset in range(50):
                got_bytes += len((await fetched(client, offset, partition_bytes=1)).records)
            read_bytes = read_from_storage_bytes(broker.process_id) - before
        broker.stop()
        return got_bytes, read_bytes

    warm = await full_read()
    size = file.stat().st_size
    is_cold = drop_from_cache(file)
    cold = await full_read()

    assert warm == (size, 0)
    # The counter is not always zero: without the page cache there is something to read. A file
    # system without a disk behind it has nothing else than the cache.
    assert cold[1] > 0 or not is_cold


def drop_from_cache(file: Path) -> bool:
    """Ask the kernel to forget the file's pages; whether it has."""
    descriptor = os.open(file, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)
    offload = RealOffload(1)
    opened = RealDisk(offload).open(str(file))
    is_cold = not opened.is_resident(0, opened.size_bytes)
    offload.close()
    return is_cold
