"""ControlledShutdown (key 7), versions 0-3: a broker asks to be relieved of its leaderships.

Brokers only. The request of version 0 has a header without client id. 2 carries the broker epoch
(KIP-380), 3 is flexible.
"""

from ottla.protocol.schema import array, int16, int32, int64, message, string, struct


@message("0-3", flexible="3+")
class ControlledShutdownRequest:
    broker_id: int = int32()
    broker_epoch: int = int64("2+", default=-1, ignorable=True)


@struct
class RemainingPartition:
    topic_name: str = string()
    partition_index: int = int32()


@message("0-3", flexible="3+")
class ControlledShutdownResponse:
    error_code: int = int16()
    remaining_partitions: list[RemainingPartition] = array(RemainingPartition)
