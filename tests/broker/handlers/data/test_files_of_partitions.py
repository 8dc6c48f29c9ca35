"""Directories and files of partitions on a real disk: names, places, sizes, and what retention
takes."""

from __future__ import annotations

import os
import re
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from ottla.broker.replica.retention import ModifiedTimeRetention
from ottla.broker.system.real_disk import RealDisk, RealOffload
from tests.broker.support.requests import batch, create, listed, produced
from tests.support.in_process import running_broker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.in_process import RunningBroker
    from tests.support.raw_client import RawClient

SUFFIXES = (".index", ".log", ".timeindex")
DAY_S = 86_400


@asynccontextmanager
async def on_disk(*folders: Path) -> AsyncIterator[tuple[RunningBroker, RawClient]]:
    """A broker with these log directories, and a client of it."""
    offload = RealOffload(2)
    settings = {"log.dirs": ",".join(map(str, folders))}
    async with running_broker(settings, RealDisk(offload)) as running, running.connect() as client:
        yield running, client
    offload.close()


def partitions_in(folder: Path) -> list[str]:
    """The names of all directories of partitions."""
    return sorted(one.name for one in folder.iterdir() if re.fullmatch(r".+-\d+", one.name))


def segment_files(directory: Path) -> dict[str, tuple[int, int]]:
    """Size and time of the last change of each file of a segment, by name."""
    files = [one for one in directory.iterdir() if one.suffix in SUFFIXES]
    return {one.name: (one.stat().st_size, one.stat().st_mtime_ns) for one in sorted(files)}


async def fill(client: RawClient, count: int, **configs: str) -> bytes:
    """A topic of segments that hold one batch each; returns the batch."""
    one = batch(b"x" * 1_000)
    await create(client, "t", 1, segment_bytes=str(len(one)), **configs)
    for _ in range(count):
        await produced(client, one)
    return one


@pytest.mark.requirement("LOG-01", "LOG-29")
async def test_partitions_get_directories_of_their_own_spread_over_the_log_dirs(
    tmp_path: Path,
) -> None:
    """Nine partitions are three in each of three directories, each under its own name."""
    folders = [tmp_path / name for name in ("d1", "d2", "d3")]
    async with on_disk(*folders) as (_, client):
        await create(client, "orders", 9)
        nine = [partitions_in(folder) for folder in folders]
        await create(client, "my_topic", 2)
        found = [name for folder in folders for name in partitions_in(folder)]

    assert [len(names) for names in nine] == [3, 3, 3]
    assert sorted(name for names in nine for name in names) == [f"orders-{n}" for n in range(9)]
    assert sorted(name for name in found if "my" in name) == ["my_topic-0", "my_topic-1"]


@pytest.mark.requirement("LOG-02", "LOG-03", "LOG-05")
async def test_a_full_segment_is_followed_by_three_files_named_by_the_next_offset(
    tmp_path: Path,
) -> None:
    """Kafka's tools and the broker's own start find records by these names alone."""
    one = batch(b"x" * 100, b"y" * 100)
    async with on_disk(tmp_path) as (_, client):
        # Room for four batches: the fifth append opens new files.
        await create(client, segment_bytes=str(4 * len(one) + 1))
        bases = []
        for _ in range(10):
            offset = (await produced(client, one)).base_offset
            bases.append((offset, len(list((tmp_path / "t-0").glob("*.log")))))
        files = segment_files(tmp_path / "t-0")

    assert bases[3:5] == [(6, 1), (8, 2)]
    assert bases[7:9] == [(14, 2), (16, 3)]
    assert list(files) == [f"{base:020d}{suffix}" for base in (0, 8, 16) for suffix in SUFFIXES]
    sizes = [files[f"{base:020d}.log"][0] for base in (0, 8, 16)]
    assert sizes == [4 * len(one), 4 * len(one), 2 * len(one)]


@pytest.mark.requirement("LOG-17", "LOG-21")
async def test_size_retention_takes_whole_files_of_the_oldest_segments_away(tmp_path: Path) -> None:
    """Data and indexes go together, and no file that stays is written again."""
    directory = tmp_path / "t-0"
    async with on_disk(tmp_path) as (running, client):
        one = await fill(client, 10, retention_bytes="3500", retention_ms="-1")
        # A flush writes sealed indexes: not between the two looks.
        await running.broker.parts.housekeeping.flush_due()
        before = segment_files(directory)
        await running.broker.parts.housekeeping.apply_retention()
        after = segment_files(directory)
        start = (await listed(client, -2)).offset

    first = 10 - -(-3500 // len(one))
    assert start == first > 0
    assert sorted(before) == [f"{n:020d}{suffix}" for n in range(10) for suffix in SUFFIXES]
    assert after == {name: look for name, look in before.items() if int(name[:20]) >= first}


@pytest.mark.requirement("LOG-20")
async def test_the_policy_by_file_time_deletes_segments_whose_files_are_older(
    tmp_path: Path,
) -> None:
    """The older rule looks at the time of the file, whatever the records in it say."""
    directory = tmp_path / "t-0"
    async with on_disk(tmp_path) as (running, client):
        await fill(client, 6, retention_ms="-1")
        housekeeping = running.broker.parts.housekeeping
        await housekeeping.flush_due()
        housekeeping.policies.append(ModifiedTimeRetention(7 * DAY_S * 1_000))
        await housekeeping.apply_retention()
        young = (await listed(client, -2)).offset
        eight_days_ago = time.time() - 8 * DAY_S
        for number in range(2):
            os.utime(directory / f"{number:020d}.log", (eight_days_ago, eight_days_ago))
        await housekeeping.apply_retention()
        start = (await listed(client, -2)).offset

    assert (young, start) == (0, 2)
    assert min(segment_files(directory)) == f"{2:020d}.index"
