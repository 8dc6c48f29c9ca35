"""``ottla backup``: copies of topics, positions of groups and settings, and their restore."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ottla.client.admin import Admin
from ottla.client.backup.creating import BackupCreation
from ottla.client.backup.errors import BackupError
from ottla.client.backup.planning import BackupRequest
from ottla.client.backup.pruning import prune
from ottla.client.backup.restoring import RECORD_BYTES_MAX, Restoration, RestoreRequest
from ottla.client.backup.shelf import BackupShelf
from ottla.client.backup.store import open_store
from ottla.client.backup.verifying import Comparison, Verified, check_files
from ottla.client.cli.connection import with_given
from ottla.client.cli.output import json_document, table, write
from ottla.client.cli.run import FAILED, CommandError, run
from ottla.client.cli.settings import CALL_TIMEOUT_MS, CLIENT_ID, command_config
from ottla.client.producer import Producer
from ottla.client.settings.config import ProducerConfig
from ottla.wire.clock import RealClock

if TYPE_CHECKING:
    import argparse

    from ottla.client.backup.manifest import BackupManifest

ALL = ("^",)
DELIVERY_TIMEOUT_MS = 120_000
MEMORY_BYTES_MAX = 128 * 1024 * 1024
MIB = 1024 * 1024


def main(arguments: argparse.Namespace) -> int:
    """Run the command."""
    return run(perform, arguments, is_busy=arguments.verb != "list")


async def perform(arguments: argparse.Namespace) -> int:
    """Run the verb."""
    try:
        shelf = BackupShelf(open_store(arguments.place, arguments.s3_endpoint))
        match arguments.verb:
            case "create":
                return await create(arguments, shelf)
            case "list":
                return await show(arguments, shelf)
            case "prune":
                return await remove_old(arguments, shelf)
            case "verify":
                return await verify(arguments, shelf)
        assert arguments.verb == "restore"
        return await restore(arguments, shelf)
    except (BackupError, ImportError) as error:
        raise CommandError(str(error)) from error


def tell(sentence: str) -> None:
    """Write to standard error what a person may want to know meanwhile."""
    sys.stderr.write(f"ottla: {sentence}\n")


async def create(arguments: argparse.Namespace, shelf: BackupShelf) -> int:
    """Make a backup."""
    request = BackupRequest(
        topics=tuple(arguments.topics or ALL),
        exclude=tuple(arguments.exclude),
        groups=tuple(arguments.groups or ALL),
        parts=frozenset(arguments.parts),
        wait_ms=arguments.transaction_wait * 1_000,
        may_split=arguments.may_split,
    )
    clock = RealClock()
    begun_ms = clock.now_ms()
    async with Admin(arguments.bootstrap, command_config()) as admin:
        work = BackupCreation(admin, shelf, clock, request, tell)
        manifest = await work.run()
    for note in manifest.notes:
        tell(note)
    row = {
        **summary(manifest),
        "copied_bytes": work.copied_bytes,
        "seconds": round((clock.now_ms() - begun_ms) / 1_000, 1),
    }
    if arguments.format == "json":
        write(json_document(row))
    else:
        write(
            f"backup {manifest.number}: {row['topics']} topics, {row['partitions']} partitions, "
            f"{work.copied_bytes / MIB:.1f} MiB new, {row['positions']} positions of groups, "
            f"{row['seconds']} s\n"
        )
    return 0


def summary(manifest: BackupManifest) -> dict[str, object]:
    """What ``list`` shows of a backup."""
    time = datetime.fromtimestamp(manifest.time_ms / 1_000, UTC)
    return {
        "backup": manifest.number,
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "cluster_id": manifest.cluster_id,
        "topics": len(manifest.topics),
        "partitions": sum(len(topic.partitions) for topic in manifest.topics),
        "bytes": sum(file.size_bytes for file in manifest.files),
        "positions": len(manifest.positions),
        "exact": manifest.is_exact,
    }


async def show(arguments: argparse.Namespace, shelf: BackupShelf) -> int:
    """List the backups."""
    rows = [summary(await shelf.manifest(number)) for number in await shelf.numbers()]
    if arguments.format == "json":
        write(json_document(rows))
        return 0
    headings = ("BACKUP", "TIME", "CLUSTER", "TOPICS", "PARTITIONS", "BYTES", "POSITIONS")
    names = ("backup", "time", "cluster_id", "topics", "partitions", "bytes", "positions")
    write(table(headings, [[str(row[name]) for name in names] for row in rows]))
    return 0


async def remove_old(arguments: argparse.Namespace, shelf: BackupShelf) -> int:
    """Delete old backups."""
    done = await prune(shelf, arguments.keep, dry_run=arguments.dry_run)
    if arguments.format == "json":
        write(json_document(done._asdict()))
        return 0
    verb = "would delete" if arguments.dry_run else "deleted"
    kept = ", ".join(map(str, done.kept)) or "none"
    write(
        f"{verb} {len(done.deleted)} backups and {done.files} files, "
        f"{done.size_bytes / MIB:.1f} MiB; kept: {kept}\n"
    )
    return 0


async def verify(arguments: argparse.Namespace, shelf: BackupShelf) -> int:
    """Check a backup. The exit status is 1 if a fault is found."""
    manifest = await shelf.manifest(arguments.number)
    if arguments.files_only:
        found = await check_files(shelf, manifest)
    else:
        async with Admin(arguments.bootstrap, command_config()) as admin:
            comparison = Comparison(admin, shelf, arguments.topics or ALL)
            found = await comparison.run(manifest)
    report(arguments, manifest, found)
    return FAILED if found.faults else 0


def report(arguments: argparse.Namespace, manifest: BackupManifest, found: Verified) -> None:
    """Write what was compared, and the faults."""
    if arguments.format == "json":
        write(json_document({"backup": manifest.number, **found._asdict()}))
        return
    for fault in found.faults:
        tell(fault)
    expired = f", {found.expired} since deleted or compacted there" if found.expired else ""
    standing = "has faults" if found.faults else "is whole"
    write(
        f"backup {manifest.number} {standing}: {found.records} records in {found.files} files"
        f"{expired}\n"
    )


async def restore(arguments: argparse.Namespace, shelf: BackupShelf) -> int:
    """Restore a backup."""
    request = RestoreRequest(
        topics=tuple(arguments.topics or ALL),
        exclude=tuple(arguments.exclude),
        groups=tuple(arguments.groups or ALL),
        parts=frozenset(arguments.parts),
        replication_factor=arguments.replication_factor,
        fill_max=arguments.fill_max,
    )
    manifest = await shelf.manifest(arguments.number)
    config = with_given(
        ProducerConfig(
            client_id=CLIENT_ID,
            compression="lz4",
            request_bytes_max=RECORD_BYTES_MAX,
            memory_bytes_max=MEMORY_BYTES_MAX,
            call_timeout_ms=CALL_TIMEOUT_MS,
            delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
        )
    )
    async with (
        Admin(arguments.bootstrap, command_config()) as admin,
        Producer(arguments.bootstrap, config) as producer,
    ):
        done = await Restoration(admin, producer, shelf, request, tell).run(manifest)
    for note in done.notes:
        tell(note)
    if arguments.format == "json":
        write(json_document({"backup": manifest.number, **done._asdict()}))
    else:
        shifted = f", offsets differ in {done.shifted} partitions" if done.shifted else ""
        write(
            f"restored backup {manifest.number}: {done.topics} topics, {done.records} records, "
            f"{done.positions} positions of groups{shifted}\n"
        )
    return 0
