"""Simulated administrators: one makes and removes topics, one trims partitions.

A request whose answer was lost may still arrive, much later. So a topic's name is used again only
as long as every answer about it came; otherwise the name is retired and nothing is demanded of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.protocol.records.builder import encode_batch
from tests.simulation.clients.client import LATEST, RETRIABLE, Client, Refused
from tests.simulation.history import Watermarks

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.history import Partition


class TopicKeeper:
    """Makes, fills and removes small topics of one partition, the same names again and again."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._random = client.random
        self._surprises = client.history.surprises
        self._names_used = 0
        # Name -> records it has for certain, or None when the topic is certainly gone.
        self._known: dict[str, int | None] = {}

    async def run(self, go_on: Callable[[], bool]) -> None:
        """Until told to stop; what is known then must be true for ever."""
        while go_on():
            await self._client.ports.clock.sleep(self._random.exponential(250.0))
            if len(self._known) < 3:
                self._names_used += 1
                self._known[f"extra-{self._names_used}"] = None
            name = self._random.choice(list(self._known))
            if self._known[name] is None:
                await self._create(name)
            elif self._random.chance(0.5):
                await self._append(name)
            else:
                await self._delete(name)

    async def verify(self) -> None:
        """Existence and size of each topic that nothing was ever unclear about."""
        for name, count in self._known.items():
            request = MetadataRequest(
                topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
            )
            version = self._client.versions.metadata
            response = await self._client.ask(request, ApiKey.METADATA, version)
            exists = response.topics[0].error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if exists != (count is not None):
                self._surprises.append(
                    f"topic {name} {'is back' if exists else 'is gone'}, known as {count}"
                )
            elif count is not None and (name, 0) not in self._client.history.damaged:
                await self._check_size(name, count)

    async def _create(self, name: str) -> None:
        request = CreateTopicsRequest(topics=[CreatableTopic(name, 1, 1)], timeout_ms=3_000)
        response = await self._client.once(
            request, ApiKey.CREATE_TOPICS, self._client.versions.create_topics
        )
        code = None if response is None else ErrorCode(response.topics[0].error_code)
        if code is ErrorCode.TOPIC_ALREADY_EXISTS:
            self._surprises.append(f"topic {name} exists though it was deleted or never made")
        if code is not ErrorCode.NONE:
            del self._known[name]
            return
        self._known[name] = 0
        await self._check_size(name, 0)

    async def _append(self, name: str) -> None:
        count = 1 + self._random.below(20)
        now_ms = self._client.ports.clock.wall_ms()
        values = [f"{name} {number}".encode() for number in range(count)]
        records = encode_batch([(now_ms, None, value, ()) for value in values])
        data = TopicProduceData(name=name, partition_data=[PartitionProduceData(0, records)])
        response = await self._client.once(
            ProduceRequest(acks=-1, timeout_ms=2_000, topic_data=[data]),
            ApiKey.PRODUCE,
            self._client.versions.produce,
        )
        known = self._known[name]
        assert known is not None
        if response is None or response.responses[0].partition_responses[0].error_code:
            del self._known[name]
            return
        self._known[name] = known + count

    async def _delete(self, name: str) -> None:
        request = DeleteTopicsRequest(topic_names=[name], timeout_ms=3_000)
        response = await self._client.once(
            request, ApiKey.DELETE_TOPICS, self._client.versions.delete_topics
        )
        code = None if response is None else ErrorCode(response.responses[0].error_code)
        if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._surprises.append(f"topic {name} is unknown though it was made")
        if code is not ErrorCode.NONE:
            del self._known[name]
            return
        self._known[name] = None

    async def _check_size(self, name: str, count: int) -> None:
        """A new topic is empty; records of its namesake must not come back (C-22)."""
        history = self._client.history
        losses = len(history.losses)
        try:
            end = await self._client.list_offset((name, 0), LATEST, told=False)
        except Refused as refusal:
            self._surprises.append(str(refusal))
            return
        if end > count or (end < count and not history.losses) or (end and not count):
            self._surprises.append(
                f"topic {name} has {end} records instead of {count}, losses {losses}"
            )


class Trimmer:
    """Deletes records from the beginning of partitions."""

    def __init__(self, client: Client, partitions: list[Partition]) -> None:
        self._client = client
        self._partitions = partitions

    async def run(self, go_on: Callable[[], bool]) -> None:
        """Until told to stop. The answer is a promise: the log start never goes back (S-19)."""
        client, history = self._client, self._client.history
        while go_on():
            await client.ports.clock.sleep(client.random.exponential(500.0))
            partition = client.random.choice(self._partitions)
            asked = history.tick()
            found = await self._delete_records(partition, client.random.choice((-1, 0, 10, 100)))
            if found is None or found.error_code in RETRIABLE:
                continue
            if found.error_code == ErrorCode.NONE:
                history.watermarks.append(
                    Watermarks(
                        asked, history.tick(), partition, found.low_watermark, -1, promised=True
                    )
                )
            elif found.error_code != ErrorCode.OFFSET_OUT_OF_RANGE:
                code = ErrorCode(found.error_code)
                history.surprises.append(f"{client.name}: {code.name} for {partition}")

    async def _delete_records(self, partition: Partition, offset: int) -> Any:
        topic = DeleteRecordsTopic(partition[0], [DeleteRecordsPartition(partition[1], offset)])
        response = await self._client.once(
            DeleteRecordsRequest(topics=[topic], timeout_ms=2_000),
            ApiKey.DELETE_RECORDS,
            self._client.versions.delete_records,
        )
        return None if response is None else response.topics[0].partitions[0]
