"""``ottla log``: looking into the files of a stopped broker, and cutting damaged logs."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from ottla.broker.system.real_disk import RealDisk, RealOffload
from tests.broker.support.requests import batch, create, fetched, listed, produced
from tests.support.broker_process import ROOT, BrokerProcess
from tests.support.in_process import running_broker

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from tests.support.in_process import RunningBroker

FIRST = "00000000000000000000.log"


def run_log(*arguments: str) -> subprocess.CompletedProcess[str]:
    """``ottla log``, as a user calls it."""
    return subprocess.run(
        [sys.executable, "-m", "ottla", "log", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def broker_on(path: Path) -> AbstractAsyncContextManager[RunningBroker]:
    """A broker of this process on a real directory."""
    return running_broker({"log.dirs": str(path)}, RealDisk(RealOffload()))


async def fill(path: Path, batches: int = 6, segment_bytes: int = 1 << 20) -> int:
    """A stopped broker's directory: topic t with batches of two records; the size of one."""
    one = batch(b"x" * 100, b"y" * 100)
    async with broker_on(path) as running, running.connect() as client:
        for name in ("t", "whole"):
            await create(client, name, segment_bytes=str(segment_bytes))
            for _ in range(batches):
                await produced(client, one, topic=name)
    return len(one)


def contents(directory: Path) -> dict[str, bytes]:
    """All files of a data directory, but for the metadata."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and "metadata-store" not in str(path)
    }


def flip(path: Path, position: int) -> None:
    """Flips one bit."""
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def rows(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


async def test_a_segment_is_dumped_as_text_and_as_json(tmp_path: Path) -> None:
    """One dump, in the words of Kafka's tool; scripts get the same fields."""
    size = await fill(tmp_path, batches=2)
    file = str(tmp_path / "t-0" / FIRST)
    text = run_log("dump", file, "--records")
    (first, *_), second = rows(run_log("dump", file, "--format", "json")), run_log("dump", file)

    assert (text.returncode, second.returncode) == (0, 0)
    assert second.stdout.startswith("baseOffset: 0 lastOffset: 1 count: 2 ")
    assert text.stdout.count("payload: " + "x" * 100) == 2
    assert (first["kind"], first["lastOffset"], first["size"]) == ("batch", 1, size)
    assert first["isvalid"] is True
    flip(tmp_path / "t-0" / FIRST, size + 90)
    assert run_log("dump", file).returncode == 1
    assert run_log("dump", str(tmp_path)).returncode == 1


async def test_whole_logs_are_whole(tmp_path: Path) -> None:
    """A check of sound logs changes no file."""
    await fill(tmp_path)
    before = contents(tmp_path)
    done = run_log("repair", str(tmp_path))

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "2 logs, 0 damaged\n"
    assert contents(tmp_path) == before


async def test_damage_is_told_with_its_price_and_nothing_is_changed(tmp_path: Path) -> None:
    """S-03: the operator must know what cutting costs before he wants it."""
    size = await fill(tmp_path)
    flip(tmp_path / "t-0" / FIRST, 2 * size + 90)
    before = contents(tmp_path)
    done = run_log("repair", str(tmp_path), "--format", "json")
    alone = run_log("repair", str(tmp_path / "t-0"))

    assert done.returncode == 1
    assert rows(done) == [
        {
            "partition": "t-0",
            "path": str(tmp_path / "t-0" / FIRST),
            "base_offset": 0,
            "position": 2 * size,
            "offset": 4,
            "problem": "the checksum does not match",
            "lost_bytes": 4 * size,
            "lost_batches": 3,
            "lost_records": 6,
            "last_offset": 11,
            "is_torn": False,
        }
    ]
    assert alone.returncode == 1
    assert "1 logs, 1 damaged" in alone.stdout
    assert f"loses {4 * size} bytes; 3 batches with 6 records" in alone.stdout
    assert "Nothing was changed" in alone.stdout
    assert contents(tmp_path) == before


@pytest.mark.parametrize("segment_bytes", [1 << 20, 400])
async def test_a_damaged_log_is_cut_on_demand_and_what_is_cut_is_kept(
    tmp_path: Path, segment_bytes: int
) -> None:
    """Afterwards the broker serves the remaining records, and a second check finds nothing."""
    size = await fill(tmp_path, segment_bytes=segment_bytes)
    if segment_bytes == 400:
        damaged, position = tmp_path / "t-0" / "00000000000000000004.log", 0
        lost = b"".join(
            (tmp_path / "t-0" / f"{offset:020d}.log").read_bytes() for offset in (4, 6, 8, 10)
        )
    else:
        damaged, position = tmp_path / "t-0" / FIRST, 2 * size
        lost = damaged.read_bytes()[position:]
    flip(damaged, position + 90)
    lost = lost[:90] + bytes([lost[90] ^ 1]) + lost[91:]
    done = run_log("repair", "--truncate", str(tmp_path))
    again = run_log("repair", str(tmp_path))
    kept = [path for path in (tmp_path / "t-0").iterdir() if ".damaged" in path.name]

    assert done.returncode == 0, done.stderr
    assert "t-0 was cut and ends at offset 4" in done.stdout
    assert [path.read_bytes() for path in kept] == [lost]
    assert (again.returncode, again.stdout) == (0, "2 logs, 0 damaged\n")
    async with broker_on(tmp_path) as running, running.connect() as client:
        assert (await listed(client, -1)).offset == 4
        assert len((await fetched(client, 0)).records) > 0
        assert (await produced(client, batch(b"z"))).base_offset == 4
        assert (await listed(client, -1, topic="whole")).offset == 12


async def test_a_torn_end_is_no_damage(tmp_path: Path) -> None:
    """S-01: the next start removes it by itself."""
    size = await fill(tmp_path)
    path = tmp_path / "t-0" / FIRST
    (tmp_path / "recovery-point-offset-checkpoint").unlink()
    path.write_bytes(path.read_bytes()[: 6 * size - 10])
    done = run_log("repair", "--truncate", str(tmp_path))

    assert done.returncode == 0
    assert f"ends in {size - 10} bytes that a write left unfinished" in done.stdout
    assert path.stat().st_size == 6 * size - 10


async def test_nothing_is_done_while_a_broker_runs(tmp_path: Path) -> None:
    """Two processes that write one log would corrupt it."""
    directory = tmp_path / "data"
    with BrokerProcess(directory):
        done = run_log("repair", "--truncate", str(directory))

    assert done.returncode == 1
    assert done.stderr == f"ottla: {directory} is in use by a broker. Stop it first.\n"
    assert done.stdout == ""


def test_a_directory_of_something_else_is_left_alone(tmp_path: Path) -> None:
    """The tool must not even create a lock file there."""
    (tmp_path / "photos").mkdir()
    done = run_log("repair", "--truncate", str(tmp_path / "photos"))

    assert done.returncode == 1
    assert "is no data directory of a broker" in done.stderr
    assert list((tmp_path / "photos").iterdir()) == []
