"""What all KIP-848 groups of a shard share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.data_classes import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.coordinator.group.common.record_values import GroupMetadataValue
    from ottla.coordinator.group.common.scope import GroupScope
    from ottla.coordinator.metadata.image import MetadataImage


@dataclass(slots=True)
class ConsumerContext:
    """One per shard. ``image`` returns the newest metadata; a group calls it at every heartbeat and
    detects by itself that topics have changed. ``compile_pattern`` turns an expression into a
    predicate for a whole topic name, or raises ValueError (patterns.py has the real one).
    ``on_downgrade`` is called in the same call in which the group of that id has deleted itself
    from the log and written the record of the classic group that replaces it."""

    scope: GroupScope
    image: Callable[[], MetadataImage]
    compile_pattern: Callable[[str], Callable[[str], bool]]
    on_downgrade: Callable[[str, GroupMetadataValue], object]
