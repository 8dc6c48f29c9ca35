"""``ottla backup`` on the command line."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from ottla import Cluster, Producer
from tests.client.cli.command import in_process, is_one_sentence

if TYPE_CHECKING:
    from pathlib import Path

    from tests.client.cli.command import Ottla

PATIENCE_S = 120


@pytest.fixture
def ottla(capfdbinary: pytest.CaptureFixture[bytes]) -> Ottla:
    return in_process(capfdbinary)


async def fill(servers: str, topic: str, count: int, size_bytes: int = 10) -> None:
    async with Producer(servers) as producer:
        for number in range(count):
            await producer.send(topic, b"%d" % number * size_bytes)


def test_a_backup_is_made_listed_checked_and_restored(
    source: Cluster, target: Cluster, ottla: Ottla, tmp_path: Path
) -> None:
    """The commands of the page, one after the other."""
    source.create_topic("orders", 2)
    asyncio.run(fill(source.bootstrap_servers, "orders", 50))
    place = str(tmp_path / "b")
    of_source, of_target = ("-b", source.bootstrap_servers), ("-b", target.bootstrap_servers)

    made = ottla("backup", "create", *of_source, place, "--json", "--with", "quotas")
    assert (made.status, made.errors) == (0, "")
    assert json.loads(made.output)["exact"] is True
    listed = ottla("backup", "list", place, "--json")
    assert [row["backup"] for row in json.loads(listed.output)] == [1]
    for options in ((*of_source, place), (place, "--files-only")):
        checked = ottla("backup", "verify", *options)
        assert checked.output.startswith(b"backup 1 is whole: 50 records in "), checked.errors
    restored = ottla("backup", "restore", *of_target, place)
    assert restored.output == (
        b"restored backup 1: 1 topics, 50 records, 0 positions of groups\n"
    ), restored.errors
    again = ottla("backup", "restore", *of_target, place)
    assert again.status == 1
    assert is_one_sentence(again.errors)
    assert "exists already" in again.errors


def test_a_bucket_keeps_backups_as_a_directory_does(
    source: Cluster, target: Cluster, ottla: Ottla, endpoint: str
) -> None:
    """Two backups, the second of what is new; both are restored from the bucket."""
    source.create_topic("orders", 2)
    place = ("s3://backups/kafka", "--s3-endpoint", endpoint)
    for count in (50, 30):
        asyncio.run(fill(source.bootstrap_servers, "orders", count))
        made = ottla("backup", "create", "-b", source.bootstrap_servers, *place)
        assert (made.status, made.errors) == (0, "")

    listed = ottla("backup", "list", *place, "--json")
    checked = ottla("backup", "verify", "-b", source.bootstrap_servers, *place)
    restored = ottla("backup", "restore", "-b", target.bootstrap_servers, *place)
    compared = ottla("backup", "verify", "-b", target.bootstrap_servers, *place)

    assert [row["backup"] for row in json.loads(listed.output)] == [1, 2]
    assert checked.output.startswith(b"backup 2 is whole: 80 records in "), checked.errors
    assert b"1 topics, 80 records" in restored.output, restored.errors
    assert compared.output.startswith(b"backup 2 is whole: 80 records in "), compared.errors


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("list", "s3://"), "names no bucket"),
        (("verify", "--files-only", "PLACE"), "there is no backup in"),
        (("create", "PLACE", "-t", "missing"), "topic 'missing' does not exist"),
    ],
)
def test_a_mistake_gets_one_sentence(
    source: Cluster, ottla: Ottla, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    """And no traceback."""
    found = ottla(
        *("backup", "-b", source.bootstrap_servers),
        *(str(tmp_path / "b") if word == "PLACE" else word for word in words),
    )

    assert found.status == 1
    assert is_one_sentence(found.errors)
    assert said in found.errors


def test_a_fault_is_told_and_ends_with_a_status(
    source: Cluster, ottla: Ottla, tmp_path: Path
) -> None:
    """A job that checks backups at night looks at the status."""
    source.create_topic("orders", 1)
    asyncio.run(fill(source.bootstrap_servers, "orders", 50))
    place = tmp_path / "b"
    ottla("backup", "create", "-b", source.bootstrap_servers, str(place))
    (file,) = place.rglob("*.batches")
    file.unlink()

    found = ottla("backup", "verify", str(place), "--files-only")

    assert found.status == 1
    assert found.errors == f"ottla: {file} is missing\n"
    assert found.output == b"backup 1 has faults: 0 records in 1 files\n"


@pytest.mark.soak
@pytest.mark.timeout(600)
async def test_a_large_backup_survives_kills_and_is_fast_enough(
    source: Cluster, tmp_path: Path
) -> None:
    """Processes that get SIGKILL while they copy 300 MB; the last one finishes."""
    source.create_topic("orders", 3)
    async with Producer(source.bootstrap_servers) as producer:
        values: list[bytes | None] = [b"%05d" % number * 200 for number in range(1_000)]
        for number in range(300):
            await producer.send_values("orders", values, partition=number % 3)
    place = tmp_path / "b"
    words = ("backup", "create", "-b", source.bootstrap_servers, str(place), "--json")
    kills = 0
    for _ in range(4):
        before = len(list(place.rglob("*.batches")))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "ottla", *words), stdout=asyncio.subprocess.DEVNULL
        )
        # However fast the machine is: the kill comes after the next file, and before the last one.
        while process.returncode is None and len(list(place.rglob("*.batches"))) == before:
            await asyncio.sleep(0.005)
        if process.returncode is None:
            process.send_signal(signal.SIGKILL)
            kills += 1
        await process.wait()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ottla", *words), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ottla", "backup", "verify"),
        *("-b", source.bootstrap_servers, str(place), "--json"),
        stdout=asyncio.subprocess.PIPE,
    )
    verified, _ = await process.communicate()

    assert kills > 0
    assert json.loads(output)["partitions"] == 3
    found = json.loads(verified)
    assert (found["faults"], found["records"]) == ([], 300_000)
