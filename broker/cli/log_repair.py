"""``ottla log repair [--truncate] DIR``: what is damaged in the logs of a stopped broker.

A damaged log keeps its partition offline, since cutting it throws records away that were promised;
that is the operator's choice, and this is where it is made. Says first what the choice costs. Exit
status: 0 if nothing is damaged (any more), 1 otherwise, or if it cannot be done.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import TYPE_CHECKING

from ottla.broker.log.directories.directory import LogDirectory
from ottla.broker.log.recovery.examining import Damage, examine
from ottla.broker.log.storage.directory_services import LogDirectoryServices, OpenSegments
from ottla.broker.log.storage.health import DirectoryHealth
from ottla.broker.log.storage.names import LOCK, META_PROPERTIES, mark_of, parse_partition_name
from ottla.broker.log.storage.settings import LogSettings
from ottla.broker.replica.history import ReplicaHistory
from ottla.broker.system.real_disk import RealDisk, RealOffload
from ottla.client.cli.output import json_line
from ottla.protocol.errors import CorruptLogError, KafkaError
from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.clock import RealClock
from ottla.wire.real import RealRandom

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ottla.protocol.ids import TopicPartition
    from ottla.protocol.ports import Clock, Disk, Offload, Random


class _Seams(NamedTuple):
    """What logs need of the machine."""

    clock: Clock
    random: Random
    disk: Disk
    offload: Offload


class CannotRepair(Exception):
    """Carries one sentence for a person."""


def repair(directory: Path, *, truncate: bool, as_json: bool) -> int:
    """Run the command; returns the exit status."""
    # What the log says while it is mended belongs to the report.
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="ottla: %(message)s")
    try:
        return asyncio.run(_Repair(directory, truncate=truncate, as_json=as_json).run())
    except CannotRepair as error:
        sys.stderr.write(f"ottla: {error}\n")
    except (KafkaError, CorruptLogError) as error:
        sys.stderr.write(f"ottla: {getattr(error, 'message', None) or error}\n")
    except OSError as error:
        sys.stderr.write(f"ottla: {error.filename or directory}: {error.strerror}\n")
    return 1


class _Repair:
    """One run of the command over one data directory."""

    def __init__(self, directory: Path, *, truncate: bool, as_json: bool) -> None:
        self._truncate = truncate
        self._as_json = as_json
        given = directory.resolve()
        self._only = parse_partition_name(given.name)
        if self._only is not None and (given.parent / META_PROPERTIES).is_file():
            given = given.parent
        else:
            self._only = None
        if not (given / META_PROPERTIES).is_file():
            raise CannotRepair(f"{directory} is no data directory of a broker, nor a partition's")
        self._path = given
        offload = RealOffload()
        seams = _Seams(RealClock(), RealRandom(), RealDisk(offload), offload)
        self._disk = seams.disk
        home = LogDirectoryServices(seams, DirectoryHealth(seams.disk, str(given)), OpenSegments())
        self._directory = LogDirectory(home, lambda _partition: (LogSettings(), ReplicaHistory()))

    async def run(self) -> int:
        try:
            lock = self._disk.lock(str(self._path / LOCK))
        except BlockingIOError:
            raise CannotRepair(f"{self._path} is in use by a broker. Stop it first.") from None
        try:
            return await self._look_at_all()
        finally:
            lock.release()

    async def _look_at_all(self) -> int:
        checkpoints = self._directory.checkpoints
        checkpoints.read()
        count = damaged_count = left_count = 0
        for partition in [self._only] if self._only else await self._partitions():
            path = str(self._path / f"{partition.topic}-{partition.partition}")
            recovery_point = checkpoints.recovery_points.get(partition, 0)
            damage = await examine(self._disk, path, recovery_point)
            count += 1
            if damage is None:
                continue
            self._report(partition, damage)
            if damage.is_torn:
                continue
            damaged_count += 1
            if not self._truncate:
                left_count += 1
            else:
                await self._cut(partition, damage)
        self._conclude(count, damaged_count, left_count)
        return 1 if left_count else 0

    async def _partitions(self) -> list[TopicPartition]:
        names = await self._disk.scan(str(self._path))
        found = [parse_partition_name(name) for name in names if mark_of(name) is None]
        return sorted(one for one in found if one is not None)

    async def _cut(self, partition: TopicPartition, damage: Damage) -> None:
        """Cut the log at the damage, as the next start will find it."""
        log = await self._directory.repair(partition, damage.base_offset)
        if log is None:
            raise CannotRepair(self._directory.damaged[partition])
        checkpoints = self._directory.checkpoints
        high_watermark = checkpoints.high_watermarks.get(partition)
        if high_watermark is not None:
            checkpoints.high_watermarks[partition] = min(high_watermark, log.log_end_offset)
        await log.close()
        await checkpoints.save_recovery_points()
        await checkpoints.save_log_starts()
        await checkpoints.save_high_watermarks()
        self._write({"partition": str(partition), "ends": log.log_end_offset}, _cut_text)

    # ---- telling ----

    def _report(self, partition: TopicPartition, damage: Damage) -> None:
        self._write({"partition": str(partition), **damage._asdict()}, _damage_text)

    def _conclude(self, count: int, damaged_count: int, left_count: int) -> None:
        if self._as_json:
            return
        sys.stdout.write(f"{count} logs, {damaged_count} damaged\n")
        if left_count:
            sys.stdout.write(
                "Nothing was changed. If other replicas exist, move the directory of a damaged "
                "partition away and let the broker fetch it again. With --truncate this command "
                "cuts the logs at the damage and keeps a copy of what it cuts.\n"
            )

    def _write(self, row: dict[str, object], to_text: Callable[[dict[str, object]], str]) -> None:
        text = json_line(row).removesuffix("\n") if self._as_json else to_text(row)
        sys.stdout.write(text + "\n")


def _cut_text(row: dict[str, object]) -> str:
    return f"{row['partition']} was cut and ends at offset {row['ends']}"


def _damage_text(row: dict[str, object]) -> str:
    where = f"{row['path']} at position {row['position']}, offset {row['offset']}: {row['problem']}"
    if row["is_torn"]:
        return (
            f"{row['partition']} ends in {row['lost_bytes']} bytes that a write left unfinished; "
            f"the next start removes them\n  {where}"
        )
    readable = (
        f"{row['lost_batches']} batches with {row['lost_records']} records, the last at offset "
        f"{row['last_offset']}, can still be read in them"
        if row["lost_batches"]
        else "no batch can be read in them"
    )
    return (
        f"{row['partition']} is damaged\n  {where}\n"
        f"  cutting it there loses {row['lost_bytes']} bytes; {readable}"
    )
