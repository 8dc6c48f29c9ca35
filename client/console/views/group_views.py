"""The pages about groups, as JSON documents. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.client.console.views.asked import Document
    from ottla.client.fetching.offsets import OffsetAt
    from ottla.client.group.requests import GroupListing, GroupView
    from ottla.client.records.committed import Committed
    from ottla.protocol.ids import TopicPartition
    from ottla.wire.errors import ClientError

    Ends = Mapping[TopicPartition, OffsetAt | ClientError]


def lag_of(position: int, end: OffsetAt | ClientError | None) -> int | None:
    """Return how far a position is behind the end; None if the end is unknown."""
    if end is None or isinstance(end, Exception):
        return None
    return max(0, end.offset - position)


def group_row(
    group: GroupListing, offsets: Mapping[TopicPartition, Committed] | None, ends: Ends
) -> Document:
    """Return one row of the list of groups; the lag is the sum over its partitions."""
    lags = [lag_of(one.offset, ends.get(where)) for where, one in (offsets or {}).items()]
    known = [lag for lag in lags if lag is not None]
    return {
        "group": group.group_id,
        "kind": group.kind or None,
        "protocol_type": group.protocol_type,
        "state": group.state or None,
        "partitions": None if offsets is None else len(offsets),
        "topics": None if offsets is None else sorted({where.topic for where in offsets}),
        "lag": sum(known) if known or offsets == {} else None,
    }


def group_document(
    view: GroupView, offsets: Mapping[TopicPartition, Committed], ends: Ends
) -> Document:
    """One group: its members, and the position and lag of each partition."""
    owners = {
        where: member.client_id for member in view.members for where in member.partitions or ()
    }
    partitions = []
    for where in sorted({*offsets, *owners}):
        committed = offsets.get(where)
        end = ends.get(where)
        partitions.append(
            {
                "topic": where.topic,
                "partition": where.partition,
                "committed": None if committed is None else committed.offset,
                "end_offset": None if end is None or isinstance(end, Exception) else end.offset,
                "lag": None if committed is None else lag_of(committed.offset, end),
                "metadata": None if committed is None else committed.metadata or None,
                "client_id": owners.get(where),
            }
        )
    members = [
        {
            "member_id": member.member_id,
            "instance_id": member.instance_id,
            "client_id": member.client_id,
            "client_host": member.client_host,
            "partitions": None
            if member.partitions is None
            else [f"{where.topic}:{where.partition}" for where in sorted(member.partitions)],
        }
        for member in view.members
    ]
    known = [row["lag"] for row in partitions if row["lag"] is not None]
    return {
        "group": view.group_id,
        "kind": view.kind,
        "state": view.state,
        "assignor": view.protocol or None,
        "coordinator": view.coordinator_id,
        "lag": sum(known) if known else None,
        "members": members,
        "partitions": partitions,
    }
