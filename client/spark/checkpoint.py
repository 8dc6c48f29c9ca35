"""What the files of Spark's checkpoint tell, where the driver's machine can see them."""

from __future__ import annotations

from pathlib import Path

HERE = ("file://", "file:")


def planned_at_ms(checkpoint: str | None, batch_id: int) -> float | None:
    """When Spark has planned this micro-batch for the first time, in ms since 1970: a batch that is
    repeated keeps its file. None where nobody can tell, as with a checkpoint on HDFS."""
    if checkpoint is None:
        return None
    for prefix in HERE:
        checkpoint = checkpoint.removeprefix(prefix)
    try:
        return (Path(checkpoint) / "offsets" / str(batch_id)).stat().st_mtime * 1_000
    except OSError:
        return None
