"""A topic's configuration in the terms of those who act on it: log, replica, retention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.log.storage.settings import INT64_MAX, LogSettings
from ottla.broker.policy.throttle import throttled_replicas
from ottla.broker.replica.append import AppendRules
from ottla.broker.replica.compaction import CompactionRules
from ottla.broker.replica.retention import SizeRetention, TimeRetention
from ottla.protocol.data_classes import dataclass
from ottla.protocol.records.compression import Codec

if TYPE_CHECKING:
    from ottla.broker.policy.throttle import ThrottledReplicas
    from ottla.broker.replica.retention import Policy
    from ottla.coordinator.configs.configs import TopicConfig

# As in Kafka these stand for the quick compressor, whatever the library calls that level.
GZIP_LEVEL_DEFAULT = -1
LZ4_LEVEL_DEFAULT = 9
# Kafka's settings go to 17, the library to 16; both compress alike from 12 on.
LZ4_LEVEL_LAST = 16
_CODECS = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """Made anew whenever the topic's configuration changes; shared by its partitions."""

    log: LogSettings
    append_rules: AppendRules
    policies: tuple[Policy, ...]
    # None: the topic is not compacted.
    compaction: CompactionRules | None
    min_insync_replicas: int
    unclean_leader_election: bool
    compresses_with_zstd: bool
    # Whether records are converted for consumers of older formats.
    lowers_formats: bool = True
    # Whether a replica has only what it has flushed.
    flush_before_ack: bool = False
    # Whether messages of format 1 are stored as they came.
    keeps_format: bool = False
    # None: no replica is throttled.
    throttled_leaders: ThrottledReplicas | None = None
    throttled_followers: ThrottledReplicas | None = None


def topic_settings(config: TopicConfig) -> TopicSettings:
    """Derive everything from one effective configuration."""
    is_compacted = config.is_compacted
    codec = _CODECS.get(config.compression_type)
    deletes = "delete" in config.cleanup_policy
    policies: tuple[Policy, ...] = ()
    if deletes:
        policies = (TimeRetention(config.retention_ms), SizeRetention(config.retention_bytes))
    return TopicSettings(
        log=LogSettings(
            segment_bytes=config.segment_bytes,
            # What is not sealed is not compacted (KIP-354).
            segment_ms=min(
                config.segment_ms, config.max_compaction_lag_ms if is_compacted else INT64_MAX
            ),
            segment_jitter_ms=config.segment_jitter_ms,
            segment_index_bytes=config.segment_index_bytes,
            index_interval_bytes=config.index_interval_bytes,
            # A flush that is due holds the acknowledgement; producers that wait share the next one.
            flush_messages=1 if config.flush_before_ack else config.flush_messages,
            flush_ms=config.flush_ms,
            file_delete_delay_ms=config.file_delete_delay_ms,
        ),
        append_rules=AppendRules(
            max_message_bytes=config.max_message_bytes,
            segment_bytes=config.segment_bytes,
            is_compacted=is_compacted,
            uses_append_time=config.message_timestamp_type == "LogAppendTime",
            timestamp_before_max_ms=config.message_timestamp_before_max_ms,
            timestamp_after_max_ms=config.message_timestamp_after_max_ms,
            codec=codec,
            compression_level=_compression_level(config, codec),
            validates=config.validate_records == "full",
        ),
        policies=policies,
        compaction=_compaction(config) if is_compacted else None,
        min_insync_replicas=config.min_insync_replicas,
        unclean_leader_election=config.unclean_leader_election_enable,
        compresses_with_zstd=codec is Codec.ZSTD,
        lowers_formats=config.message_downconversion_enable,
        flush_before_ack=config.flush_before_ack,
        keeps_format=config.keep_message_format,
        throttled_leaders=throttled_replicas(config.leader_replication_throttled_replicas),
        throttled_followers=throttled_replicas(config.follower_replication_throttled_replicas),
    )


def _compression_level(config: TopicConfig, codec: Codec | None) -> int | None:
    """The level for the topic's codec, None for the usual one (KIP-390)."""
    if codec is Codec.GZIP and config.compression_gzip_level != GZIP_LEVEL_DEFAULT:
        return config.compression_gzip_level
    if codec is Codec.LZ4 and config.compression_lz4_level != LZ4_LEVEL_DEFAULT:
        return min(config.compression_lz4_level, LZ4_LEVEL_LAST)
    return config.compression_zstd_level if codec is Codec.ZSTD else None


def _compaction(config: TopicConfig) -> CompactionRules:
    return CompactionRules(
        min_cleanable_dirty_ratio=config.min_cleanable_dirty_ratio,
        min_compaction_lag_ms=config.min_compaction_lag_ms,
        max_compaction_lag_ms=config.max_compaction_lag_ms,
        delete_retention_ms=config.delete_retention_ms,
    )
