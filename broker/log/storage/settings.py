"""A topic's settings for its logs, with Kafka's names and defaults."""

from __future__ import annotations

from dataclasses import field

from ottla.protocol.data_classes import dataclass

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Values of ``segment.bytes``, ``segment.ms`` and so on; replaced whole when they change."""

    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * 24 * 60 * 60 * 1000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 * 1024 * 1024
    index_interval_bytes: int = 4096
    flush_messages: int = INT64_MAX
    flush_ms: int = INT64_MAX
    file_delete_delay_ms: int = 60_000
    # Kafka sizes both index files by ``segment.index.bytes``; time entries are the larger.
    index_entries_max: int = field(init=False)
    # Whether ``flush.messages`` or ``flush.ms`` is set; rarely true, and read at every append.
    asks_for_flushes: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "index_entries_max", max(1, self.segment_index_bytes // 12))
        asks = self.flush_messages < INT64_MAX or self.flush_ms < INT64_MAX
        object.__setattr__(self, "asks_for_flushes", asks)
