"""Copies positions of consumer groups to the target, where the groups can continue."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.client.mirror.settings import matches
from ottla.client.records.committed import Committed, is_busy
from ottla.protocol.ids import TopicPartition
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ottla.client.admin import Admin
    from ottla.client.mirror.translation import Notes
    from ottla.wire.errors import RequestRefused

logger = logging.getLogger(__name__)


class Carried(NamedTuple):
    """One position of a group in a source partition, and its translation. Without a ``target`` no
    note reaches that far back, and the group has to start at the beginning there. ``outcome`` says
    what was done, in words."""

    group: str
    where: TopicPartition
    offset: int
    target: TopicPartition | None
    target_offset: int | None
    outcome: str


CARRIED = "stored"
SAME = "there already"
WOULD = "not stored"
UNKNOWN = "no note reaches back that far"
SHARED = "not stored: records of other sources, which the group may not have read, are there too"
BUSY = "the group has members on the target"


def translated(group: str, positions: Mapping[TopicPartition, int], notes: Notes) -> list[Carried]:
    """Translate a group's positions to the target; skips topics that are not copied. Pure.

    If several sources share a partition, no offset is right: behind what the group has read of one
    source there may be unread records of another."""
    found = []
    for where, offset in sorted(positions.items()):
        if notes.target_topic(where) is None:
            continue
        place = notes.find(where, offset)
        if place is None:
            found.append(Carried(group, where, offset, None, None, UNKNOWN))
        else:
            topic, target_offset = place
            target = TopicPartition(topic, where.partition)
            outcome = SHARED if notes.is_shared(target) else WOULD
            found.append(Carried(group, where, offset, target, target_offset, outcome))
    return found


async def wanted_groups(source: Admin, wanted: tuple[str, ...]) -> list[str]:
    """The source's groups that match ``wanted``. Raises ClientError."""
    return [
        group.group_id
        for group in await source.groups.list_all()
        if matches(wanted, group.group_id)
    ]


async def carry_over(
    source: Admin, target: Admin, notes: Notes, groups: Iterable[str], *, is_trial: bool = False
) -> list[Carried]:
    """Store translated positions on the target, never backwards, for groups without members there.
    Raises ClientError."""
    told: list[Carried] = []
    for group in groups:
        positions = {
            where: found.offset for where, found in (await source.groups.offsets(group)).items()
        }
        carried = translated(group, positions, notes)
        if not is_trial:
            carried = await _store(target, group, carried)
        told += carried
    return told


async def _store(target: Admin, group: str, carried: list[Carried]) -> list[Carried]:
    there = await target.groups.offsets(group)
    ahead = {
        one.target: Committed(one.target_offset)
        for one in carried
        if one.outcome == WOULD
        and one.target is not None
        and one.target_offset is not None
        and (one.target not in there or there[one.target].offset < one.target_offset)
    }
    results = await target.groups.commit(group, ahead) if ahead else {}
    told = []
    for one in carried:
        outcome = one.outcome
        if one.outcome == WOULD:
            assert one.target is not None
            outcome = _outcome(results[one.target]) if one.target in results else SAME
        told.append(one._replace(outcome=outcome))
    return told


def _outcome(refused: RequestRefused | None) -> str:
    if refused is None:
        return CARRIED
    return BUSY if is_busy(refused) else str(refused)
