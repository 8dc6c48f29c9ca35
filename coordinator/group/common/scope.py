"""State and settings that all groups of one shard share."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from ottla.coordinator.deadlines import Deadlines
from ottla.coordinator.effects import Moment
from ottla.coordinator.group.common.timeline import Timeline
from ottla.coordinator.outbox import Outbox
from ottla.protocol.data_classes import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from ottla.coordinator.configs.group_configs import GroupTimes
    from ottla.coordinator.group.common.settings import GroupSettings

_BEFORE_ALL = Moment(0.0, 0)


@dataclass(slots=True)
class GroupScope:
    """One per shard. ``new_id`` returns a random suffix for a member id, a UUID as text.

    Keys of ``deadlines`` are (group id, a key of the group). The shard passes a due key to that
    group's ``on_deadline(rest)``, and keys of the group id "", which no group with members can
    have, to the committed offsets. ``moment`` is that of the shard's current call. Code that
    changes its memory before its records are written sets ``must_reload`` if the write fails,
    because memory and log then differ.

    ``batch_limit`` returns the current size limit of a batch in the log, ``own_times`` the current
    settings of a group that overrides the broker's."""

    settings: GroupSettings
    new_id: Callable[[], str]
    outbox: Outbox = field(default_factory=Outbox)
    deadlines: Deadlines[tuple[str, Hashable]] = field(default_factory=Deadlines)
    timeline: Timeline = field(default_factory=Timeline)
    moment: Moment = _BEFORE_ALL
    must_reload: bool = False
    batch_limit: Callable[[], int] | None = None
    own_times: Callable[[str], GroupTimes | None] | None = None

    @property
    def batch_bytes_max(self) -> int:
        """The size limit of a batch that is appended now."""
        limit = self.batch_limit
        return self.settings.max_record_bytes if limit is None else limit()

    def session_timeout_ms(self, group_id: str) -> int:
        """How long a KIP-848 member of that group may be silent before it is removed. HOT."""
        own = self.own_times(group_id) if self.own_times is not None else None
        return self.settings.consumer_session_timeout_ms if own is None else own.session_timeout_ms

    def heartbeat_interval_ms(self, group_id: str) -> int:
        """The heartbeat interval for KIP-848 members of that group. HOT."""
        own = self.own_times(group_id) if self.own_times is not None else None
        settings = self.settings
        return settings.consumer_heartbeat_interval_ms if own is None else own.heartbeat_interval_ms
