"""The broker settings of the group coordinator, with Kafka's names."""

from __future__ import annotations

from ottla.protocol.data_classes import dataclass

DAY_MS = 86_400_000
INT32_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Times in milliseconds; ``offsets_retention_ms`` counts from when a group became empty."""

    initial_rebalance_delay_ms: int = 3_000
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = INT32_MAX
    offsets_retention_ms: int = 7 * DAY_MS
    offsets_retention_check_interval_ms: int = 600_000
    offset_metadata_max_bytes: int = 4_096
    # Largest value of a group's own record: message.max.bytes of the offsets topic bounds it.
    max_record_bytes: int = 1_000_000
    consumer_session_timeout_ms: int = 45_000
    consumer_heartbeat_interval_ms: int = 5_000
    consumer_max_size: int = INT32_MAX
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    # KIP-848: disabled, upgrade, downgrade, bidirectional.
    consumer_migration_policy: str = "bidirectional"
