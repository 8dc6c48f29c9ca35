"""What every KIP-848 group of a shard is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.coordinator.group.scope import Scope
    from ottla.coordinator.metadata.image import MetadataImage

Matcher = "Callable[[str], bool]"


@dataclass(slots=True)
class ConsumerContext:
    """``image`` is asked for the newest metadata at every heartbeat; a group sees by itself that
    topics have changed. ``compile_pattern`` turns an expression into a test of a whole topic
    name, or raises ValueError (patterns.py has the real one)."""

    scope: Scope
    image: Callable[[], MetadataImage]
    compile_pattern: Callable[[str], Callable[[str], bool]]
