"""The one-shot watches of one session, by path."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.store.store import WatchEventKind

if TYPE_CHECKING:
    from ottla.coordinator.store.store import Watch, WatchEvent


class Watches:
    """Each fires once; the same function on the same path and for the same kind is one watch."""

    def __init__(self) -> None:
        # Dicts, not sets: watches fire in the order in which they were set.
        self._of_nodes: dict[str, dict[Watch, None]] = {}
        self._of_children: dict[str, dict[Watch, None]] = {}

    def watch_node(self, path: str, watch: Watch) -> None:
        """Watch a znode for creation, change of data, and deletion."""
        self._of_nodes.setdefault(path, {})[watch] = None

    def watch_children(self, path: str, watch: Watch) -> None:
        """Watch a znode for created and deleted children, and for its own deletion."""
        self._of_children.setdefault(path, {})[watch] = None

    def take(self, event: WatchEvent) -> list[Watch]:
        """Remove and return the watches that this event fires."""
        taken: dict[Watch, None] = {}
        if event.kind is not WatchEventKind.CHILDREN:
            taken |= self._of_nodes.pop(event.path, {})
        if event.kind in (WatchEventKind.CHILDREN, WatchEventKind.DELETED):
            taken |= self._of_children.pop(event.path, {})
        return list(taken)

    def clear(self) -> None:
        """Forget all watches: this session receives no more events."""
        self._of_nodes.clear()
        self._of_children.clear()
