"""Reads the pages about transactions, reassignments of replicas and security."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from ottla.client.administration.transaction_search import find_open
from ottla.client.console.views.operation_views import (
    blocking_row,
    held_back,
    move_rows,
    quota_rows,
    rule_rows,
    transaction_row,
    user_rows,
)
from ottla.client.console.views.paging import cut, selected
from ottla.client.fetching.positions import LATEST_TIMESTAMP
from ottla.client.settings.config import Isolation
from ottla.protocol.ids import TopicPartition
from ottla.wire.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from ottla.client.console.connections import ConsoleConnection
    from ottla.client.console.views.asked import Document, Question

    Found = TypeVar("Found")

# The page reads two offsets of each partition; above this number it reads only the first ones.
PARTITIONS_MAX = 20_000


async def read_transactions(connection: ConsoleConnection, question: Question) -> Document:
    """Return the transactions that hold back the last stable offset, and all transactional ids."""
    admin = await connection.admin()
    page = question.page()
    topics = await connection.topics()
    partitions = [
        TopicPartition(view.name, number) for view in topics for number in view.partitions
    ]
    wanted = dict.fromkeys(partitions[:PARTITIONS_MAX], LATEST_TIMESTAMP)
    ends = await admin.list_offsets(wanted) if wanted else {}
    stable = await admin.list_offsets(wanted, Isolation.READ_COMMITTED) if wanted else {}
    behind = held_back(ends, stable)
    wall_ms = connection.environment.clock.wall_ms()
    search = await find_open(admin.transactions, sorted(behind), wall_ms)
    listed = await admin.transactions.list_transactions()
    rows, facts = cut(selected(listed, page.search, lambda one: one.transactional_id), page)
    return {
        **facts,
        "blocking": [blocking_row(one, behind, wall_ms) for one in search.found],
        "unasked": [f"{where.topic}:{where.partition}" for where in sorted(search.unasked)],
        "partitions_left_out": max(0, len(partitions) - PARTITIONS_MAX),
        "transactions": [transaction_row(one) for one in rows],
    }


async def read_moves(connection: ConsoleConnection, question: Question) -> Document:
    """Return the reassignments in progress."""
    admin = await connection.admin()
    moves = await admin.placements.moves()
    topics = sorted({where.topic for where in moves})
    log_dirs = await admin.brokers.log_dirs(topics=topics) if topics else {}
    return {"moves": move_rows(moves, log_dirs)}


async def read_security(connection: ConsoleConnection, question: Question) -> Document:
    """Return users, access rules and quotas; a sentence in place of those that cannot be read."""
    admin = await connection.admin()
    users, rules, quotas = await asyncio.gather(
        _rows(admin.users.describe_users(), user_rows),
        _rows(admin.acls.describe_acls(), rule_rows),
        _rows(admin.quotas.describe_quotas(), quota_rows),
    )
    return {"users": users, "rules": rules, "quotas": quotas}


async def _rows(
    reading: Awaitable[list[Found]], rows_of: Callable[[Iterable[Found]], list[Document]]
) -> Document:
    """Return the rows, or why there are none: a cluster without users refuses to list rules."""
    try:
        return {"rows": rows_of(await reading), "refused": None}
    except ClientError as error:
        return {"rows": [], "refused": str(error)}
