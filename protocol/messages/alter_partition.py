"""AlterPartition (key 56), versions 0-3: a leader proposes another in-sync set (KIP-497).

Brokers only. 1 carries the recovery state (KIP-704), 2 topic ids (KIP-841), 3 broker epochs
(KIP-903).
"""

from ottla.protocol.ids import Uuid
from ottla.protocol.schema import (
    Wire,
    array,
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
class BrokerState:
    broker_id: int = int32("3+")
    broker_epoch: int = int64("3+", default=-1)


@struct
class AlterPartitionRequestPartitionData:
    partition_index: int = int32()
    leader_epoch: int = int32()
    new_isr: list[int] = array(Wire.INT32, "0-2")
    new_isr_with_epochs: list[BrokerState] = array(BrokerState, "3+")
    leader_recovery_state: int = int8("1+")
    partition_epoch: int = int32()


@struct
class AlterPartitionRequestTopicData:
    topic_name: str = string("0-1", ignorable=True)
    topic_id: Uuid = uuid("2+", ignorable=True)
    partitions: list[AlterPartitionRequestPartitionData] = array(AlterPartitionRequestPartitionData)


@message("0-3", flexible="0+")
class AlterPartitionRequest:
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    topics: list[AlterPartitionRequestTopicData] = array(AlterPartitionRequestTopicData)


@struct
class AlterPartitionResponsePartitionData:
    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array(Wire.INT32)
    leader_recovery_state: int = int8("1+", ignorable=True)
    partition_epoch: int = int32()


@struct
class AlterPartitionResponseTopicData:
    topic_name: str = string("0-1", ignorable=True)
    topic_id: Uuid = uuid("2+", ignorable=True)
    partitions: list[AlterPartitionResponsePartitionData] = array(
        AlterPartitionResponsePartitionData
    )


@message("0-3", flexible="0+")
class AlterPartitionResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    topics: list[AlterPartitionResponseTopicData] = array(AlterPartitionResponseTopicData)
