"""The picture of one partition: a bar for each replica's log, and lines for the offsets. Pure.

All numbers are units of the picture. The window shows the ends of the logs: it reaches from a
little below the lowest offset to the highest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.client.console.views.asked import Document

WIDTH = 400
LABEL_WIDTH = 92
TEXT_WIDTH = 64
LANE_HEIGHT = 18
# Minimum size of the window in offsets, so that one more record does not fill it.
SPAN_MIN = 20


def picture_of(row: Document) -> Document:
    """Return the lanes and lines of one partition for the page ``Alive``."""
    known = [one for one in (row["end"], row["stable"], *row["log_ends"]) if one is not None]
    high = max(known, default=0)
    low = min(known, default=0)
    span = max(SPAN_MIN, round((high - low) * 1.25))
    begin = high - span

    def x_of(offset: int) -> float:
        inner = WIDTH - LABEL_WIDTH - TEXT_WIDTH
        return round(LABEL_WIDTH + inner * (offset - begin) / span, 1)

    lanes = []
    pairs = zip(row["replicas"], row["log_ends"], strict=True)
    for index, (broker, end) in enumerate(pairs):
        role = _role(row, broker)
        # A leader returns its high watermark, whatever else is unknown.
        shown = row["end"] if end is None and role == "leader" else end
        lanes.append(
            {
                "broker": broker,
                "role": role,
                "y": index * LANE_HEIGHT + 3,
                "width": None if shown is None else round(x_of(shown) - LABEL_WIDTH, 1),
                "text": _text(shown, high),
            }
        )
    return {
        "topic": row["topic"],
        "partition": row["partition"],
        "height": len(lanes) * LANE_HEIGHT + 4,
        "lanes": lanes,
        "watermark_x": None if row["end"] is None else x_of(row["end"]),
        "stable_x": x_of(row["stable"]) if _is_held(row) else None,
        "sentence": sentence_of(row),
    }


def _is_held(row: Document) -> bool:
    return None not in (row["stable"], row["end"]) and bool(row["stable"] < row["end"])


def _role(row: Document, broker: int) -> str:
    if broker == row["leader"]:
        return "leader"
    return "follower" if broker in row["isr"] else "behind"


def _text(end: int | None, high: int) -> str:
    if end is None:
        return "?"
    return str(end) if end == high else f"−{high - end}"


def sentence_of(row: Document) -> str:
    """Describe the picture in words, for visitors who cannot see it."""
    if row["leader"] is None:
        parts = ["no leader"]
    else:
        parts = [f"broker {row['leader']} leads in epoch {row['leader_epoch']}"]
    parts.append(f"in sync: {', '.join(map(str, row['isr'])) or 'none'}")
    if behind := [one for one in row["replicas"] if one not in row["isr"]]:
        parts.append(f"not in sync: {', '.join(map(str, behind))}")
    if row["end"] is not None:
        parts.append(f"high watermark {row['end']}")
    for broker, end in zip(row["replicas"], row["log_ends"], strict=True):
        if end is not None:
            parts.append(f"log of broker {broker} ends at {end}")
    if _is_held(row):
        parts.append(f"an open transaction holds the stable offset at {row['stable']}")
    return f"{row['topic']}-{row['partition']}: {'; '.join(parts)}."
