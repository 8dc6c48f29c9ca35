"""Looks at a cluster, and fixes what a backup has: topics, positions of groups, and where it ends.

docs/internals/backup.md says which moment that is, and why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.backup.cut import CutSearch, Round
from ottla.client.backup.errors import BackupError
from ottla.client.backup.manifest import GroupPosition
from ottla.client.cluster.config_requests import ResourceType
from ottla.client.mirror.settings import matches
from ottla.client.mirror.topics import id_text
from ottla.protocol.configs import ConfigSource
from ottla.protocol.errors import ErrorCode
from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.errors import ClientError, RequestRefused, UnsupportedByBroker

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ottla.client.admin import Admin
    from ottla.client.administration.transaction_requests import TransactionView
    from ottla.client.cluster.metadata import TopicView
    from ottla.protocol.ids import TopicPartition
    from ottla.protocol.ports import Clock

BEGINNING, END = -2, -1
# After so many rounds positions of groups may be older than the transactions.
WHOLE_ROUNDS_MAX = 10
PAUSE_MS = 20.0
OLD_CLUSTER = (
    "this cluster cannot say which transactions are open: one that wrote to several partitions "
    "while the backup began may be in it in part"
)
NOT_EXACT = (
    "producers committed transactions all the time: positions of groups are somewhat older than "
    "the records, so that after a restore groups may process some records again"
)


class BackupRequest(NamedTuple):
    """What to copy: names, or patterns that begin with ``^``.

    ``parts`` are of "acls", "quotas" and "users". ``wait_ms``: how long to look for a moment at
    which no transaction is half committed; ``may_split``: go on without one."""

    topics: tuple[str, ...] = ("^",)
    exclude: tuple[str, ...] = ()
    groups: tuple[str, ...] = ("^",)
    parts: frozenset[str] = frozenset()
    wait_ms: float = 30_000
    may_split: bool = False


class FixedMoment(NamedTuple):
    """Where the backup ends, and which commits near the end are too late for it."""

    ends: dict[TopicPartition, int]
    cuts: dict[TopicPartition, dict[int, int]]
    positions: list[GroupPosition]
    is_exact: bool
    notes: tuple[str, ...]


async def wanted_topics(admin: Admin, request: BackupRequest) -> dict[str, TopicView]:
    """The topics to copy. Raises BackupError and ClientError."""
    views = {
        view.name: view
        for view in await admin.list_topics()
        if not view.is_internal
        and matches(request.topics, view.name)
        and not matches(request.exclude, view.name)
    }
    for name in request.topics:
        if not name.startswith("^") and name not in views:
            raise BackupError(f"topic {name!r} does not exist")
    for view in views.values():
        if view.error is not ErrorCode.NONE or not view.partitions:
            raise RequestRefused(view.error, topic=view.name)
    return views


async def topic_configs(admin: Admin, topic: str) -> dict[str, str]:
    """The configs that are set on the topic. Raises RequestRefused."""
    return {
        entry.name: entry.value
        for entry in await admin.describe_configs(ResourceType.TOPIC, topic)
        if entry.source is ConfigSource.TOPIC and entry.value is not None
    }


async def offsets_of(
    admin: Admin, partitions: Iterable[TopicPartition], time: int
) -> dict[TopicPartition, int]:
    """The first or the last offset of each partition. Raises ClientError."""
    answers = await admin.list_offsets(dict.fromkeys(partitions, time))
    found = {}
    for where, answer in answers.items():
        if isinstance(answer, ClientError):
            raise answer
        found[where] = answer.offset
    return found


async def fix_moment(
    admin: Admin, partitions: list[TopicPartition], request: BackupRequest, clock: Clock
) -> FixedMoment:
    """Fix where the backup ends. Raises BackupError and ClientError."""
    search = CutSearch()
    deadline_ms = clock.now_ms() + request.wait_ms
    first_positions: list[GroupPosition] | None = None
    for number in range(1, 2**31):
        before = await _transactions(admin)
        positions = await _positions(admin, request)
        ends = await offsets_of(admin, partitions, END)
        if before is None:
            return FixedMoment(ends, {}, positions, False, (OLD_CLUSTER,))
        after = await _transactions(admin)
        search.take(Round(before, ends, after or {}))
        if search.is_whole:
            return FixedMoment(ends, {}, positions, True, ())
        first_positions = positions if first_positions is None else first_positions
        is_over = clock.now_ms() >= deadline_ms
        if not search.unsteady and (number >= WHOLE_ROUNDS_MAX or is_over):
            return FixedMoment(ends, search.cuts(), first_positions, False, (NOT_EXACT,))
        if is_over and not request.may_split:
            names = ", ".join(sorted(search.unsteady)[:5])
            raise BackupError(
                f"no moment was found at which no transaction is half committed, for {names}: "
                "raise --transaction-wait, or accept such transactions with --may-split"
            )
        if is_over:
            note = f"transactions of {', '.join(sorted(search.unsteady))} may be split"
            return FixedMoment(ends, search.cuts(), first_positions, False, (NOT_EXACT, note))
        await clock.sleep(PAUSE_MS)
    raise AssertionError("unreachable")


async def _transactions(admin: Admin) -> Mapping[str, TransactionView] | None:
    """What the coordinators know; None if the cluster is too old to say."""
    try:
        listed = await admin.transactions.list_transactions()
        found = await admin.transactions.describe_transactions(
            [one.transactional_id for one in listed]
        )
    except UnsupportedByBroker:
        return None
    return {name: view for name, view in found.items() if not isinstance(view, RequestRefused)}


async def _positions(admin: Admin, request: BackupRequest) -> list[GroupPosition]:
    found = []
    for group in await admin.groups.list_all():
        if matches(request.groups, group.group_id):
            committed = await admin.groups.offsets(group.group_id, require_stable=False)
            found += [
                GroupPosition(group.group_id, *where, position.offset, position.metadata)
                for where, position in sorted(committed.items())
            ]
    return found


def topic_ids(views: Iterable[TopicView]) -> dict[str, str]:
    """The ids of topics as text; empty where the cluster has none."""
    return {view.name: id_text(view.topic_id) for view in views}
