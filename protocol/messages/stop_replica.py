"""StopReplica (key 5), versions 0-4: the controller takes replicas away.

Brokers only. 1 groups by topic and carries the broker epoch (KIP-380), 2 is flexible, 3 gives each
partition its own leader epoch and says whether to delete it (KIP-570), 4 tells a KRaft controller
apart (KIP-866).

The topic's id in tagged field 10000 is not Kafka's. With it a broker deletes what it holds of that
topic and nothing of a later topic of the same name.
"""

from ottla.protocol.ids import Uuid
from ottla.protocol.schema import (
    WireType,
    array,
    boolean,
    int16,
    int32,
    int64,
    message,
    string,
    struct,
    uuid,
)


@struct
class StopReplicaPartitionV0:
    topic_name: str = string("0")
    partition_index: int = int32("0")


@struct
class StopReplicaTopicV1:
    name: str = string("1-2")
    partition_indexes: list[int] = array(WireType.INT32, "1-2")


@struct
class StopReplicaPartitionState:
    partition_index: int = int32("3+")
    leader_epoch: int = int32("3+", default=-1)
    delete_partition: bool = boolean("3+")


@struct
class StopReplicaTopicState:
    topic_name: str = string("3+")
    partition_states: list[StopReplicaPartitionState] = array(StopReplicaPartitionState, "3+")
    topic_id: Uuid = uuid("3+", tag=10_000)


@message("0-4", flexible="2+")
class StopReplicaRequest:
    controller_id: int = int32()
    is_kraft_controller: bool = boolean("4+")
    controller_epoch: int = int32()
    broker_epoch: int = int64("1+", default=-1, ignorable=True)
    delete_partitions: bool = boolean("0-2")
    ungrouped_partitions: list[StopReplicaPartitionV0] = array(StopReplicaPartitionV0, "0")
    topics: list[StopReplicaTopicV1] = array(StopReplicaTopicV1, "1-2")
    topic_states: list[StopReplicaTopicState] = array(StopReplicaTopicState, "3+")


@struct
class StopReplicaPartitionError:
    topic_name: str = string()
    partition_index: int = int32()
    error_code: int = int16()


@message("0-4", flexible="2+")
class StopReplicaResponse:
    error_code: int = int16()
    partition_errors: list[StopReplicaPartitionError] = array(StopReplicaPartitionError)
