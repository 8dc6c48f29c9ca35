"""The JSON of znodes: tolerant of what other versions and tools write."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def build(value: Mapping[str, object]) -> bytes:
    """One line of JSON, as Kafka writes it."""
    return json.dumps(value, separators=(",", ":")).encode()


def parse(data: bytes) -> dict[str, Any]:
    """The document; empty for what is none."""
    try:
        value = json.loads(data)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def number_of(value: object) -> int | None:
    """A number, or a string that is one; None for anything else."""
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
