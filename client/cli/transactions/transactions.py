"""``ottla transactions``: lists open transactions, what holds readers back, and aborts it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.administration.transaction_search import TransactionHealth, find_open
from ottla.client.cli.admin_verbs import AdminVerbs, run_admin_verb
from ottla.client.cli.output import json_document, table, write
from ottla.client.cli.run import CommandError, sentence
from ottla.client.cli.transactions.transaction_text import (
    advice,
    blame,
    described,
    found_document,
    open_transaction_text,
    wall_now_ms,
)
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from ottla.wire.errors import RequestRefused

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from ottla.client.admin import Admin
    from ottla.client.administration.transaction_search import FoundTransaction

OPEN_HEADINGS = ("TOPIC", "PARTITION", "FIRST-OFFSET", "PRODUCER-ID", "EPOCH", "TRANSACTIONAL-ID")


def main(arguments: argparse.Namespace) -> int:
    """Run the command."""
    return run_admin_verb(VERBS, arguments)


async def list_transactions(admin: Admin, arguments: argparse.Namespace) -> int:
    """Write one line per transactional id."""
    found = await admin.transactions.list_transactions(
        arguments.state,
        arguments.producer_id,
        longer_than_ms=arguments.longer_than,
        pattern=arguments.id,
    )
    if arguments.format == "json":
        names = ("transactional_id", "producer_id", "state", "coordinator")
        write(json_document([dict(zip(names, one, strict=True)) for one in found]))
        return 0
    write(table(("TRANSACTIONAL-ID", "PRODUCER-ID", "STATE", "COORDINATOR"), found))
    return 0


async def describe_transactions(admin: Admin, arguments: argparse.Namespace) -> int:
    """Write the description of each transactional id."""
    found = await admin.transactions.describe_transactions(arguments.ids)
    views = [view for view in found.values() if not isinstance(view, RequestRefused)]
    write(described(views, arguments.format))
    unknown = [repr(name) for name, view in found.items() if isinstance(view, RequestRefused)]
    if unknown:
        raise CommandError(
            f"no coordinator knows the transactional id {' or '.join(unknown)}; "
            "'ottla transactions list' shows those that are known"
        )
    return 0


async def find_hanging(admin: Admin, arguments: argparse.Namespace) -> int:
    """Write one line per hanging transaction and partition."""
    partitions = await _partitions(admin, arguments.topics)
    search = await find_open(admin.transactions, partitions, wall_now_ms())
    hanging = [one for one in search.found if one.standing is TransactionHealth.HANGING]
    unsure = [one for one in search.found if one.standing is TransactionHealth.UNKNOWN]
    if arguments.format == "json":
        write(json_document([found_document(one, None) for one in hanging]))
    elif hanging:
        write(table(OPEN_HEADINGS, [_row(one) for one in hanging]))
    elif not unsure and not search.unasked:
        write("no transaction hangs\n")
    if unsure:
        raise CommandError(
            f"{len(unsure)} open transactions may hang: not every coordinator can be asked"
        )
    if search.unasked:
        where, error = min(search.unasked.items())
        raise CommandError(
            f"{len(search.unasked)} partitions could not be looked at, {where} because: "
            f"{sentence(error)}"
        )
    return 0


def _row(one: FoundTransaction) -> tuple[str | int | None, ...]:
    return (
        one.partition.topic,
        one.partition.partition,
        one.first_offset,
        one.producer.producer_id,
        one.producer.producer_epoch,
        None if one.transaction is None else one.transaction.transactional_id,
    )


async def _partitions(
    admin: Admin, wanted: Sequence[tuple[str, list[int] | None]]
) -> list[TopicPartition]:
    """The named partitions; without names, every partition there is."""
    if not wanted:
        views = await admin.list_topics()
        return [TopicPartition(view.name, number) for view in views for number in view.partitions]
    found: dict[TopicPartition, None] = {}
    for topic, numbers in wanted:
        known = (await admin.describe_topic(topic)).partitions
        for number in known if numbers is None else numbers:
            found[TopicPartition(topic, number)] = None
    return list(found)


async def abort_transaction(admin: Admin, arguments: argparse.Namespace) -> int:
    """Abort one transaction in one partition."""
    where = arguments.partition
    search = await find_open(admin.transactions, [where], wall_now_ms())
    if where in search.unasked:
        raise search.unasked[where]
    chosen = _chosen(search.found, arguments)
    if chosen.standing is not TransactionHealth.HANGING and not arguments.force:
        raise CommandError(
            f"the transaction does not hang: {advice(chosen, wall_now_ms())}; --force ends it here "
            "all the same, and only here"
        )
    producer = chosen.producer
    try:
        await admin.transactions.abort_transaction(
            where, producer.producer_id, producer.producer_epoch, producer.coordinator_epoch
        )
    except RequestRefused as error:
        if error.code is not ErrorCode.INVALID_PRODUCER_EPOCH:
            raise
        raise CommandError(
            f"producer {producer.producer_id} has continued meanwhile; look again"
        ) from error
    if arguments.format == "json":
        write(json_document(found_document(chosen, None)))
    else:
        write(f"aborted {open_transaction_text(chosen)}\n")
    return 0


def _chosen(found: Sequence[FoundTransaction], arguments: argparse.Namespace) -> FoundTransaction:
    where = arguments.partition
    if not found:
        raise CommandError(f"no transaction is open in {where.topic}:{where.partition}")
    matching = [
        one
        for one in found
        if arguments.first_offset in (None, one.first_offset)
        and arguments.producer_id in (None, one.producer.producer_id)
    ]
    if len(matching) == 1:
        return matching[0]
    choices = ", ".join(
        f"{one.first_offset} (producer {one.producer.producer_id})" for one in found
    )
    raise CommandError(
        f"name one of the transactions in {where.topic}:{where.partition} by its --first-offset: "
        f"{choices}"
    )


VERBS: AdminVerbs = {
    "list": list_transactions,
    "describe": describe_transactions,
    "find-hanging": find_hanging,
    "abort": abort_transaction,
    "blame": blame,
}
