"""An owner of requests that has no connection, for tests of what happens to requests alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class UnconnectedPeer:
    """Takes everything and counts what matters."""

    def __init__(self) -> None:
        self.connection_id = "unconnected"
        self.listener = self.client_host = self.principal = ""
        self.closed = False
        self.has_hung_up = False
        self.is_dirty = False
        self.unsent_bytes = 0
        self.opened_count = 0
        self.room_count = 0
        self.respond: Callable[[Any], None] = lambda _owner: None

    def on_close(self, callback: Callable[[], object]) -> None: ...

    def flush_answers(self) -> None: ...

    def close(self, reason: str) -> None: ...

    def mute(self, mute_ms: float) -> None: ...

    def end(self, reason: str) -> None: ...

    def stop_serving(self, reason: str) -> None: ...

    def open_lane(self) -> None:
        self.opened_count += 1

    def on_channel_room(self) -> None:
        self.room_count += 1
