"""Metadata (key 3), versions 0-13: brokers, topics and who leads them.

From 1 null asks for all topics; 4 can forbid auto-creation, 5 lists offline replicas (KIP-112), 7
leader epochs (KIP-320), 8 authorized operations (KIP-430), 9 is flexible, 10 answers with topic ids
and 12 takes them (KIP-516), 11 leaves the cluster's operations out (KIP-700), 13 has an error of
its own (KIP-1102).
"""

from ottla.protocol.ids import Uuid
from ottla.protocol.schema import (
    WireType,
    array,
    boolean,
    int16,
    int32,
    message,
    string,
    struct,
    uuid,
)


@struct
class MetadataRequestTopic:
    topic_id: Uuid = uuid("10+", ignorable=True)
    name: str | None = string(nullable="10+")


@message("0-13", flexible="9+")
class MetadataRequest:
    topics: list[MetadataRequestTopic] | None = array(MetadataRequestTopic, nullable="1+")
    allow_auto_topic_creation: bool = boolean("4+", default=True)
    include_cluster_authorized_operations: bool = boolean("8-10")
    include_topic_authorized_operations: bool = boolean("8+")


@struct
class MetadataResponseBroker:
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string("1+", nullable="1+", default=None, ignorable=True)


@struct
class MetadataResponsePartition:
    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32("7+", default=-1, ignorable=True)
    replica_nodes: list[int] = array(WireType.INT32)
    isr_nodes: list[int] = array(WireType.INT32)
    offline_replicas: list[int] = array(WireType.INT32, "5+", ignorable=True)


@struct
class MetadataResponseTopic:
    error_code: int = int16()
    name: str | None = string(nullable="12+")
    topic_id: Uuid = uuid("10+", ignorable=True)
    is_internal: bool = boolean("1+", ignorable=True)
    partitions: list[MetadataResponsePartition] = array(MetadataResponsePartition)
    topic_authorized_operations: int = int32("8+", default=-2147483648)


@message("0-13", flexible="9+")
class MetadataResponse:
    throttle_time_ms: int = int32("3+", ignorable=True)
    brokers: list[MetadataResponseBroker] = array(MetadataResponseBroker)
    cluster_id: str | None = string("2+", nullable="2+", default=None, ignorable=True)
    controller_id: int = int32("1+", default=-1, ignorable=True)
    topics: list[MetadataResponseTopic] = array(MetadataResponseTopic, kept=True)
    cluster_authorized_operations: int = int32("8-10", default=-2147483648)
    error_code: int = int16("13+", ignorable=True)
