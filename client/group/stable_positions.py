"""Fetches a group's positions, without those that a transaction is about to replace.

Between the end of a transaction and the moment its positions count, the previous positions are
still visible. A consumer that began there would read again what the transaction has read, whatever
its isolation level: so every consumer waits, as Java's does (KIP-447).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.group.requests import (
    OFFSET_FETCH,
    STABLE_OFFSET_FETCH,
    committed_offsets,
    fetch_request,
)
from ottla.wire.errors import UnsupportedByBroker

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.client.cluster.coordinators import Coordinators
    from ottla.client.records.committed import Committed
    from ottla.protocol.ids import TopicPartition
    from ottla.protocol.messages.offset_fetch import OffsetFetchResponse
    from ottla.wire.connection import Connection


async def fetch_positions(
    coordinators: Coordinators,
    group_id: str,
    partitions: Iterable[TopicPartition] | None,
    *,
    require_stable: bool,
) -> dict[TopicPartition, Committed]:
    """Return the group's positions, all or some; partitions without one are left out.

    ``require_stable`` waits, up to the call's time limit, for transactions that are about to move a
    position; brokers before 2.5 cannot do that, and answer at once. Raises GroupRefused, with
    UNSTABLE_OFFSET_COMMIT if the time limit was too short."""
    wanted = None if partitions is None else list(partitions)

    def read(
        response: OffsetFetchResponse, _: int, connection: Connection
    ) -> dict[TopicPartition, Committed]:
        return committed_offsets(response, group_id, connection)

    if require_stable:
        request = fetch_request(group_id, wanted, require_stable=True)
        try:
            return await coordinators.ask(group_id, STABLE_OFFSET_FETCH, request, read)
        except UnsupportedByBroker:
            pass
    request = fetch_request(group_id, wanted, require_stable=False)
    return await coordinators.ask(group_id, OFFSET_FETCH, request, read)
