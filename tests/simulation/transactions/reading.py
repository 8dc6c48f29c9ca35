"""Reads committed records of one partition: an own reading of the aborted list (KIP-98)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.checker.history import Call, Kind, Read
from tests.simulation.clients.batches import read_batches
from tests.simulation.clients.client import EARLIEST
from tests.simulation.clients.wire import Gone
from tests.simulation.transactions.books import decode_value, key_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.clients.batches import Batch
    from tests.simulation.cluster.client import ClusterClient, PartitionClient
    from tests.simulation.history import Partition
    from tests.simulation.transactions.books import Books

READ_COMMITTED = 1
FETCH_VERSIONS = (4, 7, 11, 12)
ABORT = 0


class Shown(NamedTuple):
    """One record as an application sees it."""

    offset: int
    value: int
    source: int


class Fetched(NamedTuple):
    """Result of one fetch; ``is_end``: nothing committed or undecided lies behind it."""

    shown: list[Shown]
    next_offset: int
    is_end: bool
    high_watermark: int
    # Of transactions: what was shown, and the ends.
    batches: list[Batch]
    markers: list[Batch]


class CommittedReader:
    """One partition, from its leader; keeps no position."""

    def __init__(self, client: ClusterClient, partition: Partition) -> None:
        self.partition = partition
        self._view: PartitionClient = client.view(partition)
        self._random = client.random
        self._version = client.random.choice(FETCH_VERSIONS)

    async def fetch(self, offset: int, wait_ms: int = 200) -> Fetched | None:
        """From the offset on; None when nothing was learned."""
        topic, number = self.partition
        wanted = FetchPartition(
            partition=number,
            fetch_offset=offset,
            partition_max_bytes=self._random.choice((1, 500, 4_000, 20_000)),
        )
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            isolation_level=READ_COMMITTED,
            topics=[FetchTopic(topic=topic, partitions=[wanted])],
        )
        try:
            wire = await self._view.wire()
            response = await wire.call(request, ApiKey.FETCH, self._version)
        except Gone:
            await self._view.pause()
            return None
        found = response.responses[0].partitions[0]
        if found.error_code != ErrorCode.NONE:
            await self._view.pause()
            return None
        return _taken(found, offset)

    async def start(self) -> int:
        """The log start offset."""
        return await self._view.list_offset(self.partition, EARLIEST, told=False)


def _taken(found: Any, offset: int) -> Fetched:
    shown: list[Shown] = []
    batches: list[Batch] = []
    markers: list[Batch] = []
    position = offset
    aborted = sorted(
        (one.first_offset, one.producer_id) for one in found.aborted_transactions or ()
    )
    hidden: set[int] = set()
    for batch in read_batches(memoryview(found.records or b"")):
        while aborted and aborted[0][0] <= batch.last_offset:
            hidden.add(aborted.pop(0)[1])
        position = max(position, batch.last_offset + 1)
        if batch.control_type is not None:
            markers.append(batch)
            if batch.control_type == ABORT:
                hidden.discard(batch.producer_id)
            continue
        if batch.is_transactional and batch.producer_id in hidden:
            continue
        if batch.is_transactional:
            batches.append(batch)
        for place, content in batch.values:
            number = decode_value(content)
            if place >= offset and number is not None:
                shown.append(Shown(place, *number))
    is_end = position >= found.high_watermark and found.last_stable_offset >= found.high_watermark
    return Fetched(shown, position, is_end, found.high_watermark, batches, markers)


async def read_on(
    client: ClusterClient, books: Books, partition: Partition, go_on: Callable[[], bool]
) -> None:
    """Poll from the beginning, and write down what was shown."""
    reader = CommittedReader(client, partition)
    position = 0
    while go_on():
        books.note(client, Kind.INVOKE, Call.POLL)
        fetched = await reader.fetch(position)
        if fetched is None:
            books.note(client, Kind.FAIL, Call.POLL)
            continue
        position = fetched.next_offset
        for batch in fetched.batches:
            books.showings.shown(partition, batch, fetched.high_watermark)
        books.note(client, Kind.OK, Call.POLL, read=reads_of(partition, fetched.shown))


async def read_to_the_end(client: ClusterClient, books: Books, partition: Partition) -> None:
    """Everything that is committed, once nothing is undecided any more."""
    reader = CommittedReader(client, partition)
    position = await reader.start()
    final: list[tuple[int, int]] = []
    while True:
        books.note(client, Kind.INVOKE, Call.POLL)
        fetched = await reader.fetch(position)
        if fetched is None:
            books.note(client, Kind.FAIL, Call.POLL)
            continue
        position = fetched.next_offset
        books.note(client, Kind.OK, Call.POLL, read=reads_of(partition, fetched.shown))
        final += [(one.value, one.source) for one in fetched.shown]
        for marker in fetched.markers:
            books.showings.marker(partition, marker)
        if fetched.is_end:
            books.finals[partition] = final
            return


def reads_of(partition: Partition, shown: list[Shown]) -> list[Read]:
    """The records in the form that the checker takes."""
    return [Read(key_of(partition), one.offset, one.value) for one in shown]
