"""What is set for single groups, typed once per change: every heartbeat asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.metadata.settings import GROUPS
from ottla.coordinator.configs.group_configs import GroupTimes, group_times

if TYPE_CHECKING:
    from ottla.broker.metadata.metadata import MetadataCache
    from ottla.coordinator.configs.configs import ConfigSources
    from ottla.coordinator.metadata.delta import MetadataDelta


class OwnTimes:
    """The groups with settings of their own; there are few. ``sources`` is the broker's file:
    none of its settings of groups can be changed while it runs."""

    def __init__(self, metadata: MetadataCache, sources: ConfigSources) -> None:
        self._metadata = metadata
        self._sources = sources
        self._known: dict[str, GroupTimes] = {}
        for entity_type, name in metadata.image.configs:
            self._take(entity_type, name)
        metadata.subscribe(self._on_metadata)

    def of(self, group_id: str) -> GroupTimes | None:
        """What counts for the group; None where nothing is set for it alone. HOT."""
        return self._known.get(group_id)

    def _on_metadata(self, delta: MetadataDelta) -> None:
        for entity_type, name in delta.configs:
            self._take(entity_type, name)

    def _take(self, entity_type: str, name: str) -> None:
        if entity_type != GROUPS:
            return
        overrides = self._metadata.config(GROUPS, name)
        if overrides:
            self._known[name] = group_times(overrides, self._sources)
        else:
            self._known.pop(name, None)
