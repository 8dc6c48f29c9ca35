"""UpdateMetadata (key 6), versions 0-8: the controller tells every broker about the cluster.

Brokers only. 4 lists offline replicas (KIP-112), 5 groups by topic and carries the broker epoch
(KIP-380), 6 is flexible, 7 carries topic ids (KIP-516), 8 tells a KRaft controller apart (KIP-866).
"""

from ottla.protocol.ids import Uuid
from ottla.protocol.schema import (
    WireType,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    message,
    string,
    struct,
    uuid,
)


@struct
class UpdateMetadataPartitionState:
    topic_name: str = string("0-4", ignorable=True)
    partition_index: int = int32()
    controller_epoch: int = int32()
    leader: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array(WireType.INT32)
    zk_version: int = int32()
    replicas: list[int] = array(WireType.INT32)
    offline_replicas: list[int] = array(WireType.INT32, "4+", ignorable=True)
    # Ours: who may lead beside the ISR (KIP-966), for clients that ask.
    eligible_leaders: list[int] = array(WireType.INT32, "7+", tag=10_000)


@struct
class UpdateMetadataTopicState:
    topic_name: str = string("5+")
    topic_id: Uuid = uuid("7+", ignorable=True)
    partition_states: list[UpdateMetadataPartitionState] = array(UpdateMetadataPartitionState, "5+")


@struct
class UpdateMetadataEndpoint:
    port: int = int32("1+")
    host: str = string("1+")
    listener: str = string("3+", ignorable=True)
    security_protocol: int = int16("1+")


@struct
class UpdateMetadataBroker:
    id: int = int32()
    v0_host: str = string("0", ignorable=True)
    v0_port: int = int32("0", ignorable=True)
    endpoints: list[UpdateMetadataEndpoint] = array(UpdateMetadataEndpoint, "1+", ignorable=True)
    rack: str | None = string("2+", nullable="2+", ignorable=True)


@message("0-8", flexible="6+")
class UpdateMetadataRequest:
    controller_id: int = int32()
    is_kraft_controller: bool = boolean("8+")
    type: int = int8("8+", tag=0)
    controller_epoch: int = int32()
    broker_epoch: int = int64("5+", default=-1, ignorable=True)
    ungrouped_partition_states: list[UpdateMetadataPartitionState] = array(
        UpdateMetadataPartitionState, "0-4"
    )
    topic_states: list[UpdateMetadataTopicState] = array(UpdateMetadataTopicState, "5+")
    live_brokers: list[UpdateMetadataBroker] = array(UpdateMetadataBroker)


@message("0-8", flexible="6+")
class UpdateMetadataResponse:
    error_code: int = int16()
