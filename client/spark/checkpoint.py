"""Reads Spark's checkpoint files, where the driver's machine can access them."""

from __future__ import annotations

from pathlib import Path

HERE = ("file://", "file:")


def planned_at_ms(checkpoint: str | None, batch_id: int) -> float | None:
    """When Spark first planned this micro-batch, in ms since 1970: a repeated batch keeps its file.
    None if the file cannot be read, as with a checkpoint on HDFS."""
    if checkpoint is None:
        return None
    for prefix in HERE:
        checkpoint = checkpoint.removeprefix(prefix)
    try:
        return (Path(checkpoint) / "offsets" / str(batch_id)).stat().st_mtime * 1_000
    except OSError:
        return None
