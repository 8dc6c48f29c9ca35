"""How far a link is, for those who watch it."""

from __future__ import annotations

from ottla.protocol.named_tuples import NamedTuple


class MirrorProgress(NamedTuple):
    """Of one source: what was copied since the mirror began, and how many offsets it is behind in
    all its partitions; None while that is not known."""

    source: str
    records: int
    size_bytes: int
    partitions: int
    lag: int | None
    failures: int

    def line(self) -> str:
        """For people."""
        lag = "unknown" if self.lag is None else f"{self.lag:,}"
        mebibytes = self.size_bytes / 1024 / 1024
        return (
            f"{self.source}: {self.records:,} records, {mebibytes:,.1f} MiB copied; "
            f"{self.partitions} partitions, lag {lag}"
        )
