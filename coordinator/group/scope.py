"""What all groups of one shard share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.coordinator.deadlines import Deadlines
from ottla.coordinator.group.outbox import Outbox

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from ottla.coordinator.group.settings import GroupSettings


@dataclass(slots=True)
class Scope:
    """``new_id`` draws a random member id suffix, a UUID as text.

    Keys of ``deadlines`` are (group id, anything the group understands); the shard hands an
    expired key to that group's ``on_deadline(rest, moment)``."""

    settings: GroupSettings
    new_id: Callable[[], str]
    outbox: Outbox = field(default_factory=Outbox)
    deadlines: Deadlines[tuple[str, Hashable]] = field(default_factory=Deadlines)
