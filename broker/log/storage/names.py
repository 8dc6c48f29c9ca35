"""Names of files and directories on disk: Kafka's, so that its tools find what they expect.

A segment is called after its base offset in twenty digits, a partition directory after topic and
partition. Nothing here touches a disk.
"""

from __future__ import annotations

from ottla.protocol.ids import TopicPartition

LOG = ".log"
OFFSET_INDEX = ".index"
TIME_INDEX = ".timeindex"
TXN_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"
# The files of one segment. The log comes first and must be removed first: an index without a log is
# garbage, but a log without an index is data.
SEGMENT_SUFFIXES = (LOG, OFFSET_INDEX, TIME_INDEX, TXN_INDEX, SNAPSHOT)

DELETED = ".deleted"
CLEANED = ".cleaned"
SWAP = ".swap"
# Data behind a hole left by a power loss, kept for the operator.
DAMAGED = ".damaged"

LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
# In the directory of a log that keeps messages of format 1; Kafka has no such file.
KEPT_FORMAT = "message-format-1"
KEPT_MARK = b"0\n"

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
# The last trusted wall clock; Kafka has no such file (hazard S-18).
WALL_CLOCK = "wall-clock-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
# The machine's boot in which the directory was last written; Kafka has no such file.
BOOT_MARK = "boot-checkpoint"
LOCK = ".lock"
# Where a broker without ZooKeeper keeps the cluster's metadata, beside its logs.
METADATA_STORE = "metadata-store"
# Certificates and passwords of a secure start.
SECURE_FILES = "secure"
# Directories beside those of partitions.
OTHER_DIRECTORIES = frozenset({METADATA_STORE, SECURE_FILES})

DELETE_MARK = "-delete"
FUTURE_MARK = "-future"
STRAY_MARK = "-stray"
NAME_BYTES_MAX = 255
_DIGITS = 20


def segment_name(base_offset: int, suffix: str) -> str:
    """``segment_name(42, LOG)`` is 00000000000000000042.log."""
    return f"{base_offset:020d}{suffix}"


def parse_segment_name(name: str) -> tuple[int, str] | None:
    """The base offset and the suffix (``.log``, ``.index.deleted``...); None for other names."""
    digits, suffix = name[:_DIGITS], name[_DIGITS:]
    if len(digits) != _DIGITS or not digits.isdecimal() or not digits.isascii():
        return None
    return (int(digits), suffix) if suffix.startswith(".") else None


def partition_name(partition: TopicPartition) -> str:
    """The directory of a partition inside a data directory."""
    return f"{partition.topic}-{partition.partition}"


def parse_partition_name(name: str) -> TopicPartition | None:
    """The partition of a directory; None if it is not a partition's directory."""
    topic, dash, number = name.rpartition("-")
    if not topic or not dash or not number.isdecimal() or not number.isascii():
        return None
    return TopicPartition(topic, int(number))


def marked_name(partition: TopicPartition, token: bytes, mark: str) -> str:
    """``<topic>-<partition>.<32 hex><mark>``: out of service, unique, at most 255 characters."""
    assert len(token) == 16
    tail = f"-{partition.partition}.{token.hex()}{mark}"
    return partition.topic[: NAME_BYTES_MAX - len(tail)] + tail


def parse_future_name(name: str) -> TopicPartition | None:
    """The partition that a ``-future`` directory is a copy of; None for any other name."""
    if mark_of(name) != FUTURE_MARK:
        return None
    return parse_partition_name(name.removesuffix(FUTURE_MARK).rpartition(".")[0])


def mark_of(name: str) -> str | None:
    """The mark that takes the directory out of service; None if it has none."""
    for mark in (DELETE_MARK, FUTURE_MARK, STRAY_MARK):
        if name.endswith(mark):
            return mark
    return None


def join(directory: str, name: str) -> str:
    """A path inside a directory; the disk port uses '/' on every platform."""
    return f"{directory}/{name}"


def parent_of(path: str) -> str:
    """The directory that holds a path."""
    return path.rpartition("/")[0] or "/"
