"""Formats numbers, sizes and times for people. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")
_LATEST_MS = 253_402_300_799_000


def size_text(size_bytes: int | None) -> str:
    """Return a size with its unit; a dash if unknown."""
    if size_bytes is None or size_bytes < 0:
        return "–"
    if size_bytes < 1024:
        return f"{size_bytes} B"
    power = 1
    while power < len(_UNITS) and size_bytes >= 1024 ** (power + 1):
        power += 1
    return f"{size_bytes / 1024**power:.1f} {_UNITS[power - 1]}"


def count_text(number: int | None) -> str:
    """Return a number in groups of three digits; a dash if unknown."""
    return "–" if number is None or number < 0 else f"{number:,}".replace(",", "\u202f")


def time_text(timestamp_ms: int | None) -> str:
    """Return a time in UTC with milliseconds; a dash if there is none."""
    if timestamp_ms is None or not 0 <= timestamp_ms <= _LATEST_MS:
        return "–"
    moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    return moment.isoformat(sep=" ", timespec="milliseconds").replace("+00:00", "Z")


def duration_text(ms: int | None) -> str:
    """Return a duration in its largest unit; a dash if unknown."""
    if ms is None or ms < 0:
        return "–"
    for unit, unit_ms in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000)):
        if ms >= unit_ms:
            return f"{ms / unit_ms:.1f} {unit}"
    return f"{ms} ms"
