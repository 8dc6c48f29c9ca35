"""Encodes and decodes the JSON of znodes; tolerates what other versions and tools write."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterable

Ranges = Mapping[str, tuple[int, int]]
"""First and last level of each feature."""

NO_RANGES: Ranges = MappingProxyType({})


def build(value: Mapping[str, object]) -> bytes:
    """One line of JSON, as Kafka writes it."""
    return json.dumps(value, separators=(",", ":")).encode()


def parse(data: bytes) -> dict[str, Any]:
    """Return the document; None if the bytes are not one."""
    try:
        value = json.loads(data)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def number_of(value: object) -> int | None:
    """Return a number, or the number in a string; None for any other value."""
    try:
        return int(value)  # type: ignore[call-overload, no-any-return]
    except (ValueError, TypeError):
        return None


def ids_of(value: Iterable[object]) -> tuple[int, ...]:
    """Broker ids. Raises ValueError, TypeError."""
    return tuple(int(item) for item in value)  # type: ignore[call-overload]


def named(replicas: Mapping[int, tuple[int, ...]]) -> dict[str, list[int]]:
    """Replicas by partition, for JSON, whose keys are text."""
    return {str(index): list(replicas[index]) for index in sorted(replicas)}


def numbered(replicas: Mapping[str, Iterable[object]]) -> dict[int, tuple[int, ...]]:
    """The reverse. Raises ValueError, TypeError."""
    return {int(index): ids_of(replicas[index]) for index in sorted(replicas, key=int)}


def build_ranges(ranges: Ranges) -> dict[str, dict[str, int]]:
    """Encode a broker's supported levels for JSON."""
    return {
        name: {"min_version": first, "max_version": last} for name, (first, last) in ranges.items()
    }


def ranges_of(value: Mapping[str, Mapping[str, object]]) -> Ranges:
    """The reverse. Raises KeyError, ValueError, TypeError."""
    found = {
        str(name): ids_of((levels["min_version"], levels["max_version"]))
        for name, levels in value.items()
    }
    return {name: (levels[0], levels[1]) for name, levels in found.items()}


def build_levels(levels: Mapping[str, int]) -> bytes:
    """Encode the finalized levels; a feature of level 0 is omitted, as in Kafka."""
    features = {name: {"max_version_level": level} for name, level in levels.items() if level > 0}
    return build({"version": 2, "status": 1, "features": features})


def parse_levels(data: bytes) -> dict[str, int] | None:
    """Parse finalized levels, also of version 1; none while the status is not "enabled"."""
    value = parse(data)
    try:
        if int(value["status"]) != 1:
            return {}
        features = value["features"].items()
        return {str(name): int(levels["max_version_level"]) for name, levels in features}
    except (KeyError, ValueError, TypeError, AttributeError):
        return None


def quoted(name: str) -> str:
    """Quote any name for use as a znode's, which may not be "." or ".."; ``unquote`` reverses
    it."""
    if name in (".", ".."):
        return name.replace(".", "%2E")
    return quote(name, safe="").replace("~", "%7E")
