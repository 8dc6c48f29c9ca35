"""The log of state changes: every election, and, when it is turned up, every replica's states."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.coordinator.controller.states import StateChanges
from ottla.coordinator.metadata.changes import PartitionChanged

if TYPE_CHECKING:
    from ottla.coordinator.controller.events import Write
    from ottla.coordinator.metadata.image import MetadataImage

logger = logging.getLogger("ottla.state_change")


class StateLog:
    """Owned by one controllership; follows what the store has accepted."""

    def __init__(self, image: MetadataImage) -> None:
        # Following every replica costs memory and time; nobody pays who does not read it.
        wanted = logger.isEnabledFor(logging.DEBUG)
        self._changes = StateChanges(image) if wanted else None

    def take(self, before: MetadataImage, write: Write) -> None:
        """The write was done upon that image."""
        for change in write.changes:
            if isinstance(change, PartitionChanged) and change.state.is_recovering:
                self._warn(before, change)
            if self._changes is not None:
                for one in self._changes.take(change):
                    who = "" if one.node_id is None else f" on broker {one.node_id}"
                    logger.debug(
                        "%s-%d%s: %s -> %s", *one.item, who, one.before.value, one.after.value
                    )

    def _warn(self, before: MetadataImage, change: PartitionChanged) -> None:
        old, new = before.partition(change.topic, change.partition), change.state
        if old is None or old.leader_epoch == new.leader_epoch or new.leader in old.isr:
            return
        logger.warning(
            "%s-%d: broker %d leads with epoch %d though it was not in sync; "
            "records that only %s had are lost",
            change.topic,
            change.partition,
            new.leader,
            new.leader_epoch,
            ", ".join(str(node_id) for node_id in old.isr) or "others",
        )
