"""Keeps positions of consumer groups on the target, translated, so that they can go on there."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.client.mirror.settings import matches
from ottla.client.records.committed import Committed
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ottla.client.admin import Admin
    from ottla.client.mirror.translation import Notes
    from ottla.wire.errors import RequestRefused

logger = logging.getLogger(__name__)


class Carried(NamedTuple):
    """One position: of a group in a partition of the source, and what it is on the target. Without
    a ``target`` nothing is known that far back: the group has to begin at the beginning there.
    ``outcome`` is a word for what was done, or a sentence."""

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
    """A group's positions on the source as they are on the target; those of topics that are not
    copied are left out. Pure.

    Where several sources share a partition, no offset is right: behind what the group has read of
    one there may be records of another that it has not."""
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
    """The groups of that cluster that are meant. Raises ClientError."""
    return [
        group.group_id
        for group in await source.groups.list_all()
        if matches(wanted, group.group_id)
    ]


async def carry_over(
    source: Admin, target: Admin, notes: Notes, groups: Iterable[str], *, is_trial: bool = False
) -> list[Carried]:
    """Store translated positions on the target, for groups without members there, and never back
    from where they are. Raises ClientError."""
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
    return BUSY if refused.code is ErrorCode.UNKNOWN_MEMBER_ID else str(refused)
