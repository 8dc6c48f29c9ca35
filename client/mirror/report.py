"""Reports the progress of a link."""

from __future__ import annotations

from ottla.protocol.named_tuples import NamedTuple


class MirrorProgress(NamedTuple):
    """Of one source: what was copied since the mirror started, and its total lag in offsets; None
    if unknown."""

    source: str
    records: int
    size_bytes: int
    partitions: int
    lag: int | None
    failures: int

    def line(self) -> str:
        """The progress as a line of text."""
        lag = "unknown" if self.lag is None else f"{self.lag:,}"
        mebibytes = self.size_bytes / 1024 / 1024
        return (
            f"{self.source}: {self.records:,} records, {mebibytes:,.1f} MiB copied; "
            f"{self.partitions} partitions, lag {lag}"
        )
