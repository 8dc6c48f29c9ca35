"""Simulated consumers, and the reader that takes the final stock of every partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.simulation.clients.batches import Damaged, read_batches
from tests.simulation.clients.client import EARLIEST, LATEST, RETRIABLE, Client, Refused
from tests.simulation.clients.wire import Gone
from tests.simulation.history import FinalLog, Read, Watermarks

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.history import Partition


class Consumer:
    """Reads its partitions from the beginning, over and over, and writes down what it is shown."""

    def __init__(self, client: Client, partitions: list[Partition]) -> None:
        self._client = client
        self._history = client.history
        self._random = client.random
        self._positions = dict.fromkeys(partitions, 0)

    async def run(self, go_on: Callable[[], bool]) -> None:
        """Read until stopped; start over now and then."""
        while go_on():
            if self._random.chance(0.02):
                self._positions = dict.fromkeys(self._positions, 0)
            await self.poll(wait_ms=self._random.below(300))

    async def poll(self, wait_ms: int) -> None:
        """One Fetch for all partitions."""
        asked = self._history.tick()
        request = self._request(wait_ms)
        try:
            wire = await self._client.wire()
            response = await wire.call(request, ApiKey.FETCH, self._client.versions.fetch)
        except Gone:
            await self._client.pause()
            return
        calm = True
        for topic in response.responses:
            for found in topic.partitions:
                partition = (topic.topic, found.partition_index)
                calm &= await self._take(partition, found, asked)
        if not calm:
            await self._client.pause()

    async def _take(self, partition: Partition, found: Any, asked: int) -> bool:
        code = ErrorCode(found.error_code)
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            await self._reset(partition, asked)
            return False
        if code in RETRIABLE:
            return False
        if code is not ErrorCode.NONE:
            self._history.surprises.append(f"{self._client.name}: {code.name} from {partition}")
            return False
        answered = self._history.tick()
        self._history.watermarks.append(
            Watermarks(asked, answered, partition, found.log_start_offset, found.high_watermark)
        )
        try:
            self._show(partition, memoryview(found.records or b""), found, asked)
        except Damaged as damage:
            self._history.surprises.append(f"{self._client.name}: {partition}: {damage}")
        return True

    def _show(self, partition: Partition, records: memoryview, found: Any, asked: int) -> None:
        position = self._positions[partition]
        for batch in read_batches(records):
            for offset, value in batch.values:
                if offset < position:
                    continue
                if offset >= found.high_watermark:
                    self._history.surprises.append(
                        f"{self._client.name} was shown {partition} {offset} above the high "
                        f"watermark {found.high_watermark}"
                    )
                answered = self._history.tick()
                self._history.reads.append(
                    Read(asked, answered, self._client.name, partition, offset, value)
                )
            position = max(position, batch.last_offset + 1)
        self._positions[partition] = position

    async def _reset(self, partition: Partition, asked: int) -> None:
        """Out of range: trimmed from below, or shorter than it was, which needs a loss of power.

        A start that retention has moved may come back with a restart."""
        position = self._positions[partition]
        start = await self._client.list_offset(partition, EARLIEST)
        history = self._history
        expected = history.may_trim and history.restarted_since(asked)
        if position >= start and not history.losses and not expected:
            history.surprises.append(
                f"{self._client.name}: {partition} {position} out of range, it starts at {start}"
            )
        self._positions[partition] = start

    def _request(self, wait_ms: int) -> FetchRequest:
        topics: dict[str, FetchTopic] = {}
        for (topic, number), position in self._positions.items():
            entry = topics.setdefault(topic, FetchTopic(topic=topic, partitions=[]))
            entry.partitions.append(
                FetchPartition(
                    partition=number,
                    fetch_offset=position,
                    partition_max_bytes=self._random.choice((1, 500, 4_000, 20_000)),
                )
            )
        return FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=self._random.choice((0, 1, 1, 2_000)),
            max_bytes=self._random.choice((1, 3_000, 50_000_000)),
            topics=list(topics.values()),
        )


async def take_stock(client: Client, partition: Partition) -> None:
    """Read the partition from its start to its end and keep it as the final log.

    Retention may remove the start on the way; then it is read once more."""
    history = client.history
    final: FinalLog | None = None
    while final is None:
        try:
            start = await client.list_offset(partition, EARLIEST)
            end = await client.list_offset(partition, LATEST)
        except Refused as refusal:
            history.stuck.append(str(refusal))
            return
        final = await _read_all(client, partition, start, end)
    history.finals[partition] = final


async def _read_all(client: Client, partition: Partition, start: int, end: int) -> FinalLog | None:
    """Read to the end; None if the start has been removed."""
    records: list[tuple[int, bytes]] = []
    position = start
    while position < end:
        wanted = FetchPartition(
            partition=partition[1], fetch_offset=position, partition_max_bytes=20_000
        )
        request = FetchRequest(
            max_wait_ms=100,
            min_bytes=1,
            topics=[FetchTopic(topic=partition[0], partitions=[wanted])],
        )
        response = await client.ask(request, ApiKey.FETCH, client.versions.fetch)
        found = response.responses[0].partitions[0]
        if found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and client.history.may_trim:
            return None
        if found.error_code != ErrorCode.NONE:
            await client.pause()
            continue
        for batch in read_batches(memoryview(found.records or b"")):
            # Past the end are records that the network had delayed and no reader waited for.
            records += [entry for entry in batch.values if position <= entry[0] < end]
            position = max(position, batch.last_offset + 1)
    return FinalLog(start, end, records)
