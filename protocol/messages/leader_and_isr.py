"""LeaderAndIsr (key 4), versions 0-7: the controller tells replicas their role.

Brokers only. 1 marks new partitions, 2 groups by topic and carries the broker epoch (KIP-380), 3
the replicas that come and go (KIP-455), 4 is flexible, 5 carries topic ids and whether the list is
complete (KIP-516), 6 the recovery state (KIP-704), 7 tells a KRaft controller apart (KIP-866).
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
class LeaderAndIsrPartitionState:
    topic_name: str = string("0-1", ignorable=True)
    partition_index: int = int32()
    controller_epoch: int = int32()
    leader: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array(WireType.INT32)
    partition_epoch: int = int32()
    replicas: list[int] = array(WireType.INT32)
    adding_replicas: list[int] = array(WireType.INT32, "3+", ignorable=True)
    removing_replicas: list[int] = array(WireType.INT32, "3+", ignorable=True)
    is_new: bool = boolean("1+", ignorable=True)
    leader_recovery_state: int = int8("6+")
    # Ours: a leader that writes the ISR must know who else may lead (KIP-966). In a tagged field,
    # which brokers that do not know it skip.
    eligible_leaders: list[int] = array(WireType.INT32, "5+", tag=10_000)


@struct
class LeaderAndIsrTopicState:
    topic_name: str = string("2+")
    topic_id: Uuid = uuid("5+", ignorable=True)
    partition_states: list[LeaderAndIsrPartitionState] = array(LeaderAndIsrPartitionState, "2+")


@struct
class LeaderAndIsrLiveLeader:
    broker_id: int = int32()
    host_name: str = string()
    port: int = int32()


@message("0-7", flexible="4+")
class LeaderAndIsrRequest:
    controller_id: int = int32()
    is_kraft_controller: bool = boolean("7+")
    controller_epoch: int = int32()
    broker_epoch: int = int64("2+", default=-1, ignorable=True)
    type: int = int8("5+")
    ungrouped_partition_states: list[LeaderAndIsrPartitionState] = array(
        LeaderAndIsrPartitionState, "0-1"
    )
    topic_states: list[LeaderAndIsrTopicState] = array(LeaderAndIsrTopicState, "2+")
    live_leaders: list[LeaderAndIsrLiveLeader] = array(LeaderAndIsrLiveLeader)


@struct
class LeaderAndIsrPartitionError:
    topic_name: str = string("0-4", ignorable=True)
    partition_index: int = int32()
    error_code: int = int16()


@struct
class LeaderAndIsrTopicError:
    topic_id: Uuid = uuid("5+")
    partition_errors: list[LeaderAndIsrPartitionError] = array(LeaderAndIsrPartitionError, "5+")


@message("0-7", flexible="4+")
class LeaderAndIsrResponse:
    error_code: int = int16()
    partition_errors: list[LeaderAndIsrPartitionError] = array(LeaderAndIsrPartitionError, "0-4")
    topics: list[LeaderAndIsrTopicError] = array(LeaderAndIsrTopicError, "5+")
