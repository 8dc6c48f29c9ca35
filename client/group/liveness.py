"""Two proofs of life: the application's, by polling, and ours, by answered heartbeats. Pure.

A member that does not poll for ``max_poll_interval_ms`` leaves, so that somebody else reads its
partitions. A member that had no answer for ``session_timeout_ms`` may be out of the group without
knowing it: it hands nothing out until the coordinator has said what is true.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.client.group.change import MemberSettings


class Liveness:
    """Owned by one member."""

    __slots__ = ("_contact_ms", "_is_polling", "_polled_ms", "_settings")

    def __init__(self, settings: MemberSettings) -> None:
        self._settings = settings
        self._is_polling = False
        self._polled_ms = 0.0
        self._contact_ms = 0.0

    def enter_poll(self) -> None:
        """The application waits for records: it is alive for as long as it does."""
        self._is_polling = True

    def exit_poll(self, now_ms: float) -> None:
        """The application is on its own from now on."""
        self._is_polling = False
        self._polled_ms = now_ms

    def progress(self, now_ms: float) -> None:
        """The application has taken a record, without a poll."""
        self._polled_ms = now_ms

    @property
    def silent_at_ms(self) -> float | None:
        """When the application will have been silent for too long; None while it polls."""
        if self._is_polling:
            return None
        return self._polled_ms + self._settings.max_poll_interval_ms

    def is_silent(self, now_ms: float) -> bool:
        """Whether the application has not polled for too long."""
        silent_at_ms = self.silent_at_ms
        return silent_at_ms is not None and now_ms >= silent_at_ms

    def contact(self, sent_ms: float) -> None:
        """The coordinator has answered what was sent then: its timer began no earlier."""
        self._contact_ms = max(self._contact_ms, sent_ms)

    def is_doubtful(self, now_ms: float) -> bool:
        """Whether the coordinator may have expired the member meanwhile."""
        return now_ms >= self._contact_ms + self._settings.session_timeout_ms
