"""Prebuilt request frames: the load generators must not be what is measured."""

from __future__ import annotations

import time

from ottla.protocol.compile import encode
from ottla.protocol.headers import RequestHeader, encode_request_header
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.protocol.records.builder import encode_batch

PRODUCE, PRODUCE_VERSION = 0, 9
FETCH, FETCH_VERSION = 1, 12
METADATA, METADATA_VERSION = 3, 9


def framed(api_key: int, api_version: int, body: bytes) -> bytes:
    """One request with its length prefix and correlation id 1."""
    header = bytearray()
    encode_request_header(header, RequestHeader(api_key, api_version, 1, "bench"))
    return (len(header) + len(body)).to_bytes(4) + bytes(header) + body


def batch_of(size_bytes: int, record_bytes: int) -> bytes:
    """A batch of about that size, of records of that size, made now.

    Old timestamps would have the retention delete what was written a moment ago."""
    value = (b"0123456789abcdef" * (record_bytes // 16 + 1))[:record_bytes]
    count = max(1, size_bytes // (record_bytes + 8))
    return encode_batch([(time.time_ns() // 1_000_000, None, value, ())] * count)


def produce_frame(topic: str, partition: int, batch: bytes, acks: int = 1) -> bytes:
    """A produce request with one batch for one partition."""
    request = ProduceRequest(
        acks=acks,
        timeout_ms=30_000,
        topic_data=[
            TopicProduceData(
                name=topic,
                partition_data=[PartitionProduceData(index=partition, records=batch)],
            )
        ],
    )
    return framed(PRODUCE, PRODUCE_VERSION, encode(request, PRODUCE_VERSION))


def fetch_frame(topic: str, partition: int, offset: int, max_bytes: int) -> bytes:
    """A fetch of one partition that does not wait."""
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=max_bytes,
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[
                    FetchPartition(
                        partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes
                    )
                ],
            )
        ],
    )
    return framed(FETCH, FETCH_VERSION, encode(request, FETCH_VERSION))


def metadata_frame(*, all_topics: bool = False) -> bytes:
    """Asks for the brokers, and for no topic or for all."""
    request = MetadataRequest(topics=None if all_topics else [], allow_auto_topic_creation=False)
    return framed(METADATA, METADATA_VERSION, encode(request, METADATA_VERSION))
