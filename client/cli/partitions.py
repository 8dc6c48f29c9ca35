"""Resolves the partitions of a command line, and offsets in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.cli.run import CommandError
from ottla.client.settings.config import Isolation
from ottla.protocol.ids import TopicPartition
from ottla.wire.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ottla.client.admin import Admin
    from ottla.client.fetching.offsets import OffsetAt


async def named_partitions(
    admin: Admin, topics: Sequence[tuple[str, list[int] | None]]
) -> list[TopicPartition]:
    """The partitions of ``TOPIC[:P,P] ...``, in order; without names those of all topics but
    internal ones. Raises CommandError for one that does not exist."""
    if not topics:
        views = [view for view in await admin.list_topics() if not view.is_internal]
        return sorted(
            TopicPartition(view.name, number) for view in views for number in view.partitions
        )
    found: set[TopicPartition] = set()
    for topic, numbers in topics:
        known = (await admin.describe_topic(topic)).partitions
        for number in known if numbers is None else numbers:
            if number not in known:
                raise CommandError(
                    f"topic {topic!r} has no partition {number}; it has {len(known)}, counted "
                    "from 0"
                )
            found.add(TopicPartition(topic, number))
    return sorted(found)


class OffsetsOf:
    """Looks up offsets as a consumer does, with an Admin client."""

    def __init__(self, admin: Admin, isolation: Isolation = Isolation.READ_UNCOMMITTED) -> None:
        self._admin = admin
        self._isolation = isolation

    async def at(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAt]:
        """For each partition the first offset at that time. Raises the first ClientError."""
        found = {}
        for where, answer in (await self._admin.list_offsets(times, self._isolation)).items():
            if isinstance(answer, ClientError):
                raise answer
            found[where] = answer
        return found
