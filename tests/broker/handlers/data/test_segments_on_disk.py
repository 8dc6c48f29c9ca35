"""Segment files of a real disk while a broker serves: which are written, how, and for how long."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from ottla.broker.system.real_disk import RealDisk, RealOffload
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records.batch import iterate_batches
from tests.broker.support.groups import commit, coordinated
from tests.broker.support.requests import batch, create, fetched, produced
from tests.support.broker_process import BrokerProcess
from tests.support.in_process import running_broker
from tests.support.raw_client import RawClient
from tests.support.tracing import can_trace

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

GROUPS = 20


def segments_of(directory: Path) -> list[Path]:
    """The data files of a partition, oldest first."""
    return sorted(directory.glob("*.log"))


def looks(files: list[Path]) -> Mapping[str, tuple[int, int]]:
    """Size and time of the last change of each, by name."""
    return {one.name: (one.stat().st_size, one.stat().st_mtime_ns) for one in files}


def bytes_in(directory: Path) -> int:
    """All that a partition takes on the disk, its indexes included."""
    return sum(one.stat().st_size for one in directory.iterdir())


@pytest.mark.requirement("LOG-04")
async def test_only_the_newest_segment_grows_and_the_others_keep_size_and_time(
    tmp_path: Path,
) -> None:
    """A sealed segment never changes, so it may be sent, copied and cached without a thought."""
    offload = RealOffload(2)
    async with (
        running_broker({"log.dirs": str(tmp_path)}, RealDisk(offload)) as running,
        running.connect() as client,
    ):
        await create(client, segment_bytes="1000")
        known: dict[str, tuple[int, int]] = {}
        sealed_count = 0
        for _ in range(12):
            await produced(client, batch(b"x" * 300))
            await running.broker.parts.housekeeping.flush_due()
            *sealed, _active = segments_of(tmp_path / "t-0")
            now = looks(sealed)
            assert {name: now[name] for name in known} == known
            known, sealed_count = dict(now), len(sealed)
    offload.close()

    assert sealed_count >= 3


@pytest.mark.skipif(not can_trace(), reason="strace is missing or may not trace here")
@pytest.mark.requirement("LOG-31", "LOG-33")
async def test_segment_files_are_only_appended_to_and_read_from_one_end_to_the_other(
    tmp_path: Path,
) -> None:
    """What a broker process asks the kernel for: no seek, no write at a place of its own or to an
    older segment, and for a consumer no step back."""
    trace = tmp_path / "trace"
    calls = "trace=openat,write,writev,pwrite64,pwritev,pwritev2,lseek,copy_file_range,sendfile"
    launcher = ("strace", "-D", "-f", "-y", "-e", calls, "-o", str(trace))
    with BrokerProcess(tmp_path / "data", launcher=launcher) as broker:
        host, _, port = broker.address.rpartition(":")
        async with RawClient(host, int(port)) as client:
            await create(client, segment_bytes="1000")
            for _ in range(10):
                await produced(client, batch(b"x" * 300))
            for offset in range(10):
                await fetched(client, offset)
    lines = [one for one in trace.read_text().splitlines() if re.search(r"/t-0/\d+\.log\b", one)]
    opened = [one for one in lines if " openat(" in one]
    done = {found.group(1) for one in lines if (found := re.search(r" (\w+)\(\d+<", one))}

    assert len({one.split('"')[1] for one in opened}) >= 3
    assert [one for one in opened if "O_APPEND" not in one] == []
    assert done - {"openat"} <= {"write", "writev", "sendfile"}
    writes = (re.search(r" writev?\(\d+<.*/(\d+)\.log", one) for one in lines)
    written = [found[1] for found in writes if found]
    sent = [
        (found[1], int(found[2]))
        for one in lines
        if (found := re.search(r" sendfile\(.*/(\d+)\.log>, \[(\d+)\]?", one))
    ]
    assert len(written) == 10
    assert written == sorted(written)
    assert len(sent) == 10
    assert sent == sorted(sent)


@pytest.mark.requirement("ARC-05", "ARC-06", "ARC-07")
async def test_twenty_groups_cost_no_byte_more_than_one_and_take_nothing_away(
    tmp_path: Path,
) -> None:
    """A record is stored once. That every group has read it and said so changes nothing: retention
    alone takes it away."""
    offload = RealOffload(2)
    settings = {"log.dirs": str(tmp_path), "offsets.topic.num.partitions": "1"}
    directory = tmp_path / "t-0"
    async with (
        running_broker(settings, RealDisk(offload)) as running,
        running.connect() as client,
    ):
        await create(client, segment_bytes="2000", retention_bytes="2000")
        for number in range(40):
            await produced(client, batch(b"%d" % number * 40))
        # A flush of sealed segments writes the leader epochs: not between two measurements.
        partition = running.broker.parts.partitions.find("t", 0)
        assert partition is not None
        await partition.log.flush()
        sizes, seen = [], []
        for number in range(GROUPS):
            group_id = f"group-{number}"
            await coordinated(client, group_id)
            seen.append(await read_all(client))
            assert await commit(client, {("t", 0): 40}, group_id) == {("t", 0): ErrorCode.NONE}
            sizes.append(bytes_in(directory))
        again = await read_all(client)
        await running.broker.parts.housekeeping.apply_retention()
        gone = await fetched(client, 0)
    offload.close()

    assert len(set(sizes)) == 1
    assert {*map(tuple, seen), tuple(again)} == {tuple(range(40))}
    assert gone.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


async def read_all(client: RawClient) -> list[int]:
    """The base offsets of all batches, from offset 0 on; each holds one record."""
    found: list[int] = []
    while len(found) < 40:
        answer = await fetched(client, len(found))
        assert answer.error_code == ErrorCode.NONE
        found += [one.base_offset for one in iterate_batches(bytes(answer.records))]
    return found
