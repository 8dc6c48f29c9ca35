"""``ottla topics trim``: deletes the oldest records of partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.cli.output import json_document, table, write
from ottla.client.cli.partitions import OffsetsOf, named_partitions
from ottla.client.cli.run import CommandError, sentence
from ottla.client.cli.start_offset import resolve
from ottla.client.fetching.positions import EARLIEST_TIMESTAMP
from ottla.wire.errors import ClientError

if TYPE_CHECKING:
    import argparse

    from ottla.client.admin import Admin
    from ottla.protocol.ids import TopicPartition


async def trim(admin: Admin, arguments: argparse.Namespace) -> int:
    """Delete the records before the place, and write the new first offset of each partition."""
    partitions = await named_partitions(admin, arguments.topics)
    offsets = OffsetsOf(admin)
    firsts = await offsets.at(dict.fromkeys(partitions, EARLIEST_TIMESTAMP))
    targets, _ends = await resolve(offsets.at, partitions, arguments.offset)
    failures = []
    rows: list[tuple[str, int, int, int]] = []
    results: dict[TopicPartition, int | ClientError] = {**targets}
    if not arguments.dry_run:
        results = {**await admin.delete_records(targets)}
    for where in partitions:
        result = results[where]
        if isinstance(result, ClientError):
            failures.append(sentence(result))
        else:
            rows.append((where.topic, where.partition, firsts[where].offset, result))
    if arguments.format == "json":
        names = ("topic", "partition", "from", "to")
        write(json_document([dict(zip(names, row, strict=True)) for row in rows]))
    else:
        write(table(("TOPIC", "PARTITION", "FROM", "TO"), rows))
    if failures:
        raise CommandError("; ".join(dict.fromkeys(failures)))
    return 0
