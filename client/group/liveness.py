"""Tracks two proofs of life: polls of the application and answered heartbeats. Pure.

A member that does not poll for ``max_poll_interval_ms`` leaves, so that another member reads its
partitions. A member without an answer for ``session_timeout_ms`` may have been expired: it hands
out no records until the coordinator has answered.
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
        """Record that the application waits for records: it is alive as long as it waits."""
        self._is_polling = True

    def exit_poll(self, now_ms: float) -> None:
        """Record that the application has stopped waiting; its poll interval begins."""
        self._is_polling = False
        self._polled_ms = now_ms

    def progress(self, now_ms: float) -> None:
        """Record that the application has taken a record, without a poll."""
        self._polled_ms = now_ms

    @property
    def silent_at_ms(self) -> float | None:
        """When the application will have been silent for too long; None while it polls."""
        if self._is_polling:
            return None
        return self._polled_ms + self._settings.max_poll_interval_ms

    def is_silent(self, now_ms: float) -> bool:
        """Return whether the application has not polled for too long."""
        silent_at_ms = self.silent_at_ms
        return silent_at_ms is not None and now_ms >= silent_at_ms

    def contact(self, sent_ms: float) -> None:
        """Record an answer to a request sent at that time: the session timer began no earlier."""
        self._contact_ms = max(self._contact_ms, sent_ms)

    def is_doubtful(self, now_ms: float) -> bool:
        """Return whether the coordinator may have expired the member."""
        return now_ms >= self._contact_ms + self._settings.session_timeout_ms
