"""A log of formats 0, 1 and 2: taken over, compacted, killed, recovered, shortened.

Apache's DumpLogSegments reads the files after each step, and checks their indexes.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

import pytest

from ottla.broker.log.storage.names import CLEAN_SHUTDOWN
from ottla.broker.system.real_disk import RealDisk, RealOffload
from ottla.protocol.records.builder import BatchOptions, encode_batch
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.old_messages import read_any
from tests.broker.support.requests import NOW, create, fetched
from tests.broker.test_compaction import partition_of
from tests.interop.support.clients import JAVA_VERSIONS, needs
from tests.interop.support.environments import java_classpath
from tests.protocol.records.old_bytes import Made, message_set, wrapper
from tests.support.in_process import RunningBroker, running_broker
from tests.zookeeper.sessions import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

TOPIC = "t"
KEYS = 7
# Of each of the six segments; the first two have messages of format 0, and so on.
SEGMENT_RECORDS = 20
RECORD_LINE = re.compile(r"\| offset: (\d+) .*? key: (\S*) payload: (\S*)")


class Line(NamedTuple):
    """A record as the tool prints it."""

    offset: int
    key: str
    value: str


def _made(start: int) -> list[Made]:
    numbers = range(start, start + SEGMENT_RECORDS)
    return [Made(n, NOW + n, b"k%d" % (n % KEYS), b"v%d" % n) for n in numbers]


def _batch(made: Sequence[Made], codec: Codec) -> bytes:
    entries = [(one.timestamp, one.key, one.value, ()) for one in made]
    options = BatchOptions(base_offset=made[0].offset, leader_epoch=0, codec=codec)
    return encode_batch(entries, options)


def _segments() -> dict[int, bytes]:
    """By base offset: plain and compressed messages of each format, as three Kafkas wrote them."""
    parts = [
        message_set(0, _made(0)),
        wrapper(0, _made(20), Codec.GZIP),
        message_set(1, _made(40)),
        wrapper(1, _made(60), Codec.SNAPPY),
        # Upgraded in the midst of a segment.
        message_set(1, _made(80)[:10]) + _batch(_made(80)[10:], Codec.NONE),
        _batch(_made(100), Codec.LZ4),
    ]
    return {SEGMENT_RECORDS * number: content for number, content in enumerate(parts)}


@asynccontextmanager
async def _broker(folder: Path) -> AsyncIterator[RunningBroker]:
    settings = {
        "log.dirs": str(folder),
        "log.cleaner.enable": "false",
        "log.retention.check.interval.ms": "100",
        "log.segment.delete.delay.ms": "0",
    }
    async with running_broker(settings, RealDisk(RealOffload())) as running:
        yield running


def _has_content(path: Path) -> bool:
    """A segment of one batch has no index."""
    return path.exists() and path.stat().st_size > 0


async def _dumped(folder: Path) -> list[Line]:
    """All records in the order of the segments; the tool complains about none of the files."""
    names = sorted(
        str(path)
        for path in (folder / f"{TOPIC}-0").iterdir()
        if path.suffix in (".log", ".index", ".timeindex")
        if path.suffix == ".log" or _has_content(path.with_suffix(".index"))
    )
    command = [
        *("java", "-Xmx256m", "-cp", java_classpath(JAVA_VERSIONS[0])),
        *("kafka.tools.DumpLogSegments", "--print-data-log", "--files", ",".join(names)),
    ]
    done = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
    for complaint in ("mismatch", "Non-consecutive", "isvalid: false", "Exception", "Found "):
        assert complaint not in done.stdout, done.stdout[-2000:]
    return [Line(int(one[0]), one[1], one[2]) for one in RECORD_LINE.findall(done.stdout)]


async def _read(running: RunningBroker) -> list[Line]:
    one, found = partition_of(running), list[Line]()
    offset = one.log.log_start_offset
    async with running.connect() as client:
        while offset < one.log.log_end_offset:
            data = bytes((await fetched(client, offset, partition_bytes=1 << 20)).records)
            records = [each for each in read_any(data) if each.offset >= offset]
            found += [
                Line(each.offset, str(each.key, "utf-8"), str(each.value, "utf-8"))
                for each in records
                if each.key is not None
                if each.value is not None
            ]
            offset = records[-1].offset + 1
    return found


async def _take_over(folder: Path, **settings: str) -> None:
    """Put the old segments in the place of an empty log."""
    async with _broker(folder) as running, running.connect() as client:
        await create(client, TOPIC, 1, retention_ms="-1", index_interval_bytes="1", **settings)
    # With that mark it would be a log of Ottla.
    (folder / CLEAN_SHUTDOWN).unlink()
    place = folder / f"{TOPIC}-0"
    for path in place.glob("0*"):
        path.unlink()
    for base_offset, content in _segments().items():
        (place / f"{base_offset:020}.log").write_bytes(content)


def _written() -> list[Line]:
    return [
        Line(one.offset, str(one.key, "utf-8"), str(one.value, "utf-8"))
        for start in _segments()
        for one in _made(start)
        if one.key is not None
        if one.value is not None
    ]


async def test_a_log_of_three_formats_is_compacted_and_recovered(tmp_path: Path) -> None:
    """What consumers read and what Apache's tool finds in the files is the same after each step."""
    needs("java", "mvn")
    written = _written()
    latest = {one.key: one for one in written}
    await _take_over(tmp_path, cleanup_policy="compact")
    async with _broker(tmp_path) as running:
        assert await _read(running) == written
        one = partition_of(running)
        await one.log.flush()
        assert await _dumped(tmp_path) == written

        one.log.roll(one.log.log_end_offset, 0)
        assert await running.broker.parts.cleaning.clean(one)
        compacted = await _read(running)
        assert compacted == sorted(latest.values())
        await one.log.flush()
        assert await _dumped(tmp_path) == compacted
    # The mark of a clean stop and the indexes are gone, as after a crash.
    (tmp_path / CLEAN_SHUTDOWN).unlink()
    for path in (tmp_path / f"{TOPIC}-0").glob("*index"):
        path.unlink()
    async with _broker(tmp_path) as running:
        assert await _read(running) == compacted
        await partition_of(running).log.flush()
        assert await _dumped(tmp_path) == compacted


async def test_retention_takes_the_oldest_of_three_formats_first(tmp_path: Path) -> None:
    """Whole segments, and the offsets of the others stay."""
    needs("java", "mvn")
    written = _written()
    await _take_over(tmp_path, retention_bytes="700")
    async with _broker(tmp_path) as running:
        one = partition_of(running)
        await until(lambda: one.log.log_start_offset > 0)
        start = one.log.log_start_offset
        assert start in _segments()
        assert await _read(running) == written[start:]
        await one.log.flush()
        assert await _dumped(tmp_path) == written[start:]
