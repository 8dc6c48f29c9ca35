"""Every setting of a topic that Kafka 3.9 has, and our own.

One line of facts per setting, one of what it means. The columns: name, type, default, legal
values, whether it has an effect here, and the broker settings that a topic inherits it from, the
strongest first.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from ottla.coordinator.configs.definitions import Definition, Update, define, read_table

if TYPE_CHECKING:
    from collections.abc import Mapping

_TABLE = """
cleanup.policy | list | delete | {compact, delete} | yes | log.cleanup.policy
    What becomes of old segments: deleted, compacted to the newest value per key, or both.
compression.gzip.level | int | -1 | -1, 1..9 | yes | compression.gzip.level
    Effort of gzip when the broker compresses with it; -1 is the library's choice.
compression.lz4.level | int | 9 | 1..17 | yes | compression.lz4.level
    Effort of lz4 when the broker compresses with it.
compression.type | string | producer | {uncompressed, zstd, lz4, snappy, gzip, producer} \
| yes | compression.type
    Codec that batches are stored in; producer keeps whatever each batch came with.
compression.zstd.level | int | 3 | -131072..22 | yes | compression.zstd.level
    Effort of zstd when the broker compresses with it.
delete.retention.ms | long | 86400000 | >=0 | yes | log.cleaner.delete.retention.ms
    How long a compacted topic keeps tombstones, so that slow readers still see them.
file.delete.delay.ms | long | 60000 | >=0 | yes | log.segment.delete.delay.ms
    How long a deleted segment's files stay, for readers that are still at them.
flush.messages | long | MAX | >=1 | yes | log.flush.interval.messages
    Appended records after which the log is forced to the disk.
flush.ms | long | MAX | >=0 | yes | log.flush.interval.ms, log.flush.scheduler.interval.ms
    Time after which appended records are forced to the disk.
follower.replication.throttled.replicas | list | "" | throttled | yes | -
    Replicas (partition:broker, or *) that the followers' rate limit covers.
index.interval.bytes | int | 4096 | >=0 | yes | log.index.interval.bytes
    Bytes of log between two entries of the offset index.
leader.replication.throttled.replicas | list | "" | throttled | yes | -
    Replicas (partition:broker, or *) that the leaders' rate limit covers.
local.retention.bytes | long | -2 | >=-2 | no | log.local.retention.bytes
    With tiered storage, the size kept on the broker's own disk; -2 means retention.bytes.
local.retention.ms | long | -2 | >=-2 | no | log.local.retention.ms
    With tiered storage, the time kept on the broker's own disk; -2 means retention.ms.
max.compaction.lag.ms | long | MAX | >=1 | yes | log.cleaner.max.compaction.lag.ms
    Longest time that a record may escape compaction.
max.message.bytes | int | 1048588 | >=0 | yes | message.max.bytes
    Largest batch that may be produced, as it is stored.
message.downconversion.enable | bool | true | - | yes | log.message.downconversion.enable
    Whether old consumers get batches converted to their format.
message.format.version | string | 3.0-IV1 | - | no | log.message.format.version
    Has had no meaning since Kafka 3.0: batches are stored in the newest format.
message.timestamp.after.max.ms | long | MAX | >=0 | yes | log.message.timestamp.after.max.ms
    How far a producer's timestamp may lie after the broker's clock.
message.timestamp.before.max.ms | long | MAX | >=0 | yes | log.message.timestamp.before.max.ms
    How far a producer's timestamp may lie before the broker's clock.
message.timestamp.difference.max.ms | long | MAX | >=0 | yes \
| log.message.timestamp.difference.max.ms
    Older form of the two limits on timestamps, for both directions at once.
message.timestamp.type | string | CreateTime | {CreateTime, LogAppendTime} | yes \
| log.message.timestamp.type
    Whose clock stamps records: the producer's or, at the append, the broker's.
min.cleanable.dirty.ratio | double | 0.5 | 0..1 | yes | log.cleaner.min.cleanable.ratio
    Part of a compacted log that must be uncompacted before it is worth a run.
min.compaction.lag.ms | long | 0 | >=0 | yes | log.cleaner.min.compaction.lag.ms
    Time during which a record is safe from compaction.
min.insync.replicas | int | 1 | >=1 | yes | min.insync.replicas
    Replicas that must have a write before acks=all is answered with success.
preallocate | bool | false | - | no | log.preallocate
    Whether a new segment's file takes its full size at once.
remote.log.copy.disable | bool | false | - | no | -
    With tiered storage, stops copying segments to the remote tier.
remote.log.delete.on.disable | bool | false | - | no | -
    With tiered storage, removes remote segments when it is switched off.
remote.storage.enable | bool | false | - | no | -
    Moves closed segments to a remote tier; there is none here.
retention.bytes | long | -1 | - | yes | log.retention.bytes
    Size of a partition beyond which its oldest segments are deleted; -1 is no limit.
retention.ms | long | 604800000 | >=-1 | yes \
| log.retention.ms, log.retention.minutes, log.retention.hours
    Age at which a segment is deleted; -1 is no limit.
segment.bytes | int | 1073741824 | >=14 | yes | log.segment.bytes
    Size at which the log starts its next segment file.
segment.index.bytes | int | 10485760 | >=4 | yes | log.index.size.max.bytes
    Largest size of a segment's offset index; a full index also starts a new segment.
segment.jitter.ms | long | 0 | >=0 | yes | log.roll.jitter.ms, log.roll.jitter.hours
    Random time taken off segment.ms, so that not all partitions roll at once.
segment.ms | long | 604800000 | >=1 | yes | log.roll.ms, log.roll.hours
    Age at which the log starts its next segment even if the last one is not full.
unclean.leader.election.enable | bool | false | - | yes | unclean.leader.election.enable
    Lets a replica that lacks acknowledged records lead when no other can.
ottla.flush.before.ack | bool | false | - | yes | -
    Whether a write is forced to the leader's disk before it is acknowledged, as flush.messages=1.
ottla.keep.message.format | bool | false | - | yes | -
    Whether messages of format 1 are stored as they came; set when a topic of one replica is made.
ottla.validate.records | string | full | {full, header} | yes | ottla.validate.records
    What is checked of produced batches: full reads all records, header the batch header alone.
"""

_UNIT_MS = {"hours": 3_600_000, "minutes": 60_000}


def milliseconds_per_unit(broker_setting: str) -> int:
    """What a number in that broker setting counts, where a topic's counts milliseconds."""
    return _UNIT_MS.get(broker_setting.rpartition(".")[2], 1)


def _read() -> Mapping[str, Definition]:
    # A topic's settings can all be changed at any time.
    definitions = [
        define(columns, words, Update.CLUSTER_WIDE) for columns, words in read_table(_TABLE)
    ]
    return MappingProxyType({definition.name: definition for definition in definitions})


TOPIC_CONFIGS = _read()
