"""Counts the bytes and records of one topic on this broker since its start."""

from __future__ import annotations


class Traffic:
    """Shared by all partitions of the topic here, and kept when they leave: counters never go
    back. Plain numbers, because each produce request adds to two of them. HOT."""

    __slots__ = (
        "appended_bytes",
        "appended_count",
        "copied_bytes",
        "fetched_bytes",
        "lowered_count",
        "raised_count",
        "replicated_bytes",
    )

    def __init__(self) -> None:
        # Appended by clients of partitions led here; copies of followers are not included.
        self.appended_bytes = 0
        self.appended_count = 0
        # Fetched from leaders by followers on this broker.
        self.copied_bytes = 0
        # Sent to consumers, and to followers.
        self.fetched_bytes = 0
        self.replicated_bytes = 0
        # Records that were converted from and to the formats before record batches.
        self.raised_count = 0
        self.lowered_count = 0
