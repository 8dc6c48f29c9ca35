"""Bugs about disks that fill up: through directories that are never removed, or under a leader."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from ottla.coordinator.controller import deletions
from ottla.coordinator.controller.context import ControllerContext
from tests.simulation.cluster.hazards import mixes
from tests.simulation.cluster.hazards.replacing import Hazard, Replacement


def _knows_of_no_full_disk(_before: Any) -> Any:
    return lambda _self, _room, _item, _replicas: frozenset()


def _tells_of_deletions_once(_before: Any) -> Any:
    return lambda _context, _writer, _node_id: iter(())


OF_DISKS = MappingProxyType(
    {
        "C-23": Hazard(
            "of a deletion only those brokers hear that live at that moment",
            (Replacement(deletions, "remind", _tells_of_deletions_once),),
            mixes.deleting,
        ),
        "S-11": Hazard(
            "who has no room on its disk leads for as long as it is full",
            (Replacement(ControllerContext, "with_room_below", _knows_of_no_full_disk),),
            mixes.filling,
        ),
    }
)
