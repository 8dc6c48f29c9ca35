"""What a job asks a cluster before it begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.errors import ClientError
from ottla.client.sync.admin import Admin
from ottla.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

END_TIME = -1


def partitions_of(bootstrap: str, topics: Iterable[str]) -> list[TopicPartition]:
    """All partitions of the topics. Raises RequestRefused for one that is not there."""
    with Admin(bootstrap) as admin:
        return [
            TopicPartition(topic, number)
            for topic in topics
            for number in admin.describe_topic(topic).partitions
        ]


def offsets_at_times(
    bootstrap: str, times: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The first offset at that time (ms since 1970) or later; the end if nothing is that late.

    Raises the first ClientError."""
    if not times:
        return {}
    with Admin(bootstrap) as admin:
        found = admin.list_offsets(times)
        late = [
            where
            for where, one in found.items()
            if not isinstance(one, ClientError) and one.offset < 0
        ]
        found = {**found, **admin.list_offsets(dict.fromkeys(late, END_TIME))}
    offsets = {}
    for where, answer in found.items():
        if isinstance(answer, ClientError):
            raise answer
        offsets[where] = answer.offset
    return offsets
