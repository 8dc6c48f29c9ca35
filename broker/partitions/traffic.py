"""What went in and out of the partitions of one topic on this broker, counted since its start."""

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
        # By clients of a partition that is led here; what a follower copies is not among it.
        self.appended_bytes = 0
        self.appended_count = 0
        # From the leader, of a partition that is followed here.
        self.copied_bytes = 0
        # To consumers, and to followers.
        self.fetched_bytes = 0
        self.replicated_bytes = 0
        # Records that were converted from and to the formats before record batches.
        self.raised_count = 0
        self.lowered_count = 0
