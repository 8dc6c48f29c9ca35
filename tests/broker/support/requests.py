"""Short ways to say the requests that these tests send."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ottla.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.protocol.records.builder import BatchOptions, encode_batch

if TYPE_CHECKING:
    from tests.support.raw_client import RawClient

TOPIC = "t"
NOW = 1_700_000_000_000


def batch(*values: bytes, **settings: Any) -> bytes:
    """A batch of keyless records."""
    entries = [(NOW + index, None, value, ()) for index, value in enumerate(values)]
    return encode_batch(entries, BatchOptions(**settings))


def produce(
    records: bytes, acks: int = -1, topic: str = TOPIC, partition: int = 0
) -> ProduceRequest:
    """A produce request for one partition."""
    data = [PartitionProduceData(index=partition, records=records)]
    return ProduceRequest(
        acks=acks,
        timeout_ms=5000,
        topic_data=[TopicProduceData(name=topic, partition_data=data)],
    )


def fetch(
    offset: int, *, topic: str = TOPIC, partition_bytes: int = 1 << 20, **more: Any
) -> FetchRequest:
    """A fetch of partition 0; it does not wait unless told to."""
    epoch = more.pop("current_leader_epoch", -1)
    wanted = FetchPartition(
        partition=0,
        current_leader_epoch=epoch,
        fetch_offset=offset,
        partition_max_bytes=partition_bytes,
    )
    settings = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, **more}
    return FetchRequest(topics=[FetchTopic(topic=topic, partitions=[wanted])], **settings)


def list_offsets(timestamp: int, topic: str = TOPIC, **more: Any) -> ListOffsetsRequest:
    """An offset look-up in partition 0."""
    wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    return ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])], **more
    )


async def create(client: RawClient, topic: str = TOPIC, partitions: int = 1, **configs: str) -> Any:
    """Create a topic and return its result."""
    wanted = CreatableTopic(
        name=topic,
        num_partitions=partitions,
        replication_factor=1,
        configs=[
            CreatableTopicConfig(name=name.replace("_", "."), value=value)
            for name, value in configs.items()
        ],
    )
    response = await client.call(7, CreateTopicsRequest(topics=[wanted], timeout_ms=5000))
    return response.topics[0]


async def created_meanwhile(client: RawClient, name: str) -> Any:
    """The metadata answer for a topic whose creation has begun, as soon as it shows."""
    asked = MetadataRequestTopic(name=name)
    request = MetadataRequest(topics=[asked], allow_auto_topic_creation=False)
    async with asyncio.timeout(30):
        while True:
            response = await client.call(9, request)
            topic = response.topics[0]
            if topic.error_code == 0 and all(part.leader_id >= 0 for part in topic.partitions):
                return response
            await asyncio.sleep(0.02)


async def produced(client: RawClient, records: bytes, version: int = 9, **more: Any) -> Any:
    """Produce one batch and return the partition's answer."""
    request = produce(records, **more)
    if version >= 13:
        for topic in request.topic_data:
            topic.topic_id = await topic_id_of(client, topic.name)
    response = await client.call(version, request)
    return response.responses[0].partition_responses[0]


async def fetched(client: RawClient, offset: int, version: int = 12, **more: Any) -> Any:
    """Fetch and return the partition's answer."""
    request = fetch(offset, **more)
    if version >= 13:
        await name_by_id(client, request)
    response = await client.call(version, request)
    return response.responses[0].partitions[0]


async def name_by_id(client: RawClient, request: FetchRequest) -> None:
    """Put the ids beside the names; a topic that does not exist has one that nothing has."""
    for topic in request.topics:
        topic.topic_id = await topic_id_of(client, topic.topic)


async def topic_id_of(client: RawClient, name: str) -> bytes:
    """The topic's id, or one that no topic has."""
    asked = MetadataRequestTopic(name=name)
    wanted = MetadataRequest(topics=[asked], allow_auto_topic_creation=False)
    (found,) = (await client.call(12, wanted)).topics
    return bytes(found.topic_id) if any(found.topic_id) else b"no such topic id"


async def listed(client: RawClient, timestamp: int, version: int = 9, **more: Any) -> Any:
    """Look an offset up and return the partition's answer."""
    response = await client.call(version, list_offsets(timestamp, **more))
    return response.topics[0].partitions[0]
