"""Looking into the logs of a site, and answers that are held up or made up."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.protocol.records.batch import iterate_batches
from ottla.protocol.records.record import read_records
from tests.broker.support.replica_wire import TOPIC_ID

if TYPE_CHECKING:
    from tests.broker.support.replica_site import Site


def records(site: Site, node_id: int) -> list[bytes]:
    """The values in a broker's log."""
    found = []
    for batch in iterate_batches(site.nodes[node_id].content()):
        found += [bytes(record.value or b"") for record in read_records(batch, 1 << 20)]
    return found


def visible(site: Site, node_id: int) -> list[bytes]:
    """The records that consumers could read there."""
    return records(site, node_id)[: site.nodes[node_id].partition().replica.high_watermark]


class Held:
    """Answers to one broker that wait for a word."""

    def __init__(self, site: Site, source: int) -> None:
        self.count = 0
        self.change: FetchResponse | None = None
        self._source = source
        self._door = asyncio.Event()
        site.on_answer = self._hold

    async def _hold(self, source: int, _target: int, answer: FetchResponse) -> FetchResponse:
        if source != self._source or self._door.is_set():
            return answer
        self.count += 1
        await self._door.wait()
        changed, self.change = self.change, None
        return changed or answer

    def release(self) -> None:
        self._door.set()


def says(**part: object) -> FetchResponse:
    """An answer about partition 0 as ``serve`` would make it, with other contents."""
    data = PartitionData(partition_index=0, records=b"")
    for name, value in part.items():
        setattr(data, name, value)
    return FetchResponse(responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[data])])
