"""``ottla groups migrate``: copy committed offsets between ZooKeeper and Kafka, and check them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.classic.migration import ZooKeeperGroup, compared
from ottla.client.classic.reaching import open_zookeeper
from ottla.client.cli.groups.coordinator_lack import with_reason
from ottla.client.cli.groups.group_moves import has_members
from ottla.client.cli.output import json_document, table, write
from ottla.client.cli.run import CommandError
from ottla.client.records.committed import Committed, refusal_of
from ottla.coordinator.store.store import StoreError
from ottla.wire.errors import ClientError

if TYPE_CHECKING:
    import argparse

    from ottla.client.admin import Admin
    from ottla.client.classic.migration import StoredOffsets

FAILED = 1
KAFKA = "kafka"
DUAL = "or move the group while it runs, with dual.commit.enabled: see docs/classic.md"


async def migrate(admin: Admin, arguments: argparse.Namespace) -> int:
    """Copy or compare the offsets, and write them side by side."""
    try:
        store = await open_zookeeper(arguments.zookeeper, None)
        session = await store.connect()
    except (StoreError, ValueError) as error:
        raise CommandError(str(error)) from error
    try:
        group = ZooKeeperGroup(session, arguments.group)
        if not arguments.check:
            await _refuse_members(group, arguments.group)
            await _copy(admin, group, arguments)
            # A member that has come meanwhile may have committed in between.
            await _refuse_members(group, arguments.group)
        found = await _compared(admin, group, arguments.group)
    except StoreError as error:
        raise CommandError(f"ZooKeeper: {error}") from error
    except ClientError as error:
        raise await with_reason(admin, error) from error
    finally:
        await session.close()
    if not found:
        raise CommandError(f"group {arguments.group!r} has no offsets in ZooKeeper nor in Kafka")
    _tell(arguments, found)
    behind = [one for one in found if _there(one, arguments.to) != one.newest]
    if behind and not arguments.check:
        raise CommandError(f"{len(behind)} offsets were not copied: run the command again")
    return FAILED if behind else 0


def _there(stored: StoredOffsets, to: str) -> int | None:
    return stored.in_kafka if to == KAFKA else stored.in_zookeeper


async def _refuse_members(group: ZooKeeperGroup, name: str) -> None:
    members = await group.members()
    if members:
        raise CommandError(
            f"group {name!r} has the members {', '.join(members)} in ZooKeeper: stop them first, "
            f"{DUAL}"
        )


async def _compared(admin: Admin, group: ZooKeeperGroup, name: str) -> list[StoredOffsets]:
    in_kafka = {where: one.offset for where, one in (await admin.groups.offsets(name)).items()}
    return compared(await group.offsets(), in_kafka)


async def _copy(admin: Admin, group: ZooKeeperGroup, arguments: argparse.Namespace) -> None:
    """Give the target the newest offsets that it does not have."""
    found = await _compared(admin, group, arguments.group)
    newest = {one.where: one.newest for one in found if _there(one, arguments.to) != one.newest}
    if arguments.to != KAFKA:
        await group.write(newest)
        return
    results = {}
    if newest:
        positions = {where: Committed(offset) for where, offset in newest.items()}
        results = await admin.groups.commit(arguments.group, positions)
    refusal = refusal_of(results, has_members(arguments.group))
    if refusal is not None:
        raise refusal


def _tell(arguments: argparse.Namespace, found: list[StoredOffsets]) -> None:
    if arguments.format == "json":
        write(
            json_document(
                [
                    {
                        "topic": one.where.topic,
                        "partition": one.where.partition,
                        "zookeeper": one.in_zookeeper,
                        "kafka": one.in_kafka,
                        "same": one.is_same,
                    }
                    for one in found
                ]
            )
        )
        return
    rows = [(one.where.topic, one.where.partition, one.in_zookeeper, one.in_kafka) for one in found]
    write(table(("TOPIC", "PARTITION", "ZOOKEEPER", "KAFKA"), rows))
