"""Judges delegation tokens: no session lives on when its token is removed or has expired. Pure.

A session that a broker still serves, or a login that it accepts, is evidence. It may be late by the
grace. The grace begins anew when the broker, which was paused or cut off from the metadata store,
is back: it could not know earlier.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

# From the removal of a token, or from its end, to the end of its sessions.
GRACE_S = 2.0


class Served(NamedTuple):
    """A broker has answered a request of a token's session, or a login with it.

    ``asked_s``: when the request was sent. ``wall_ms``: the date on the broker at that time."""

    token_id: str
    broker: int
    asked_s: float
    wall_ms: float


@dataclass(slots=True)
class TokenEvidence:
    """Filled while the world runs.

    ``removed_s``: when the store removed a token. ``expiry_ms``: the latest end of a token that any
    answer or znode named. ``unable_s``: times at which a broker could not know, rising.
    """

    served: list[Served] = field(default_factory=list)
    removed_s: dict[str, float] = field(default_factory=dict)
    expiry_ms: dict[str, int] = field(default_factory=dict)
    unable_s: defaultdict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    refused_logins: int = 0
    # Requests and logins after a token's end that were refused or met a closed connection.
    ended: int = 0

    def is_dead(self, token_id: str, now_s: float, wall_ms: float) -> bool:
        """Whether no broker that can know may serve it any more."""
        removed_s = self.removed_s.get(token_id)
        if removed_s is not None and now_s > removed_s + GRACE_S:
            return True
        expiry_ms = self.expiry_ms.get(token_id)
        return expiry_ms is not None and wall_ms > expiry_ms + GRACE_S * 1_000.0

    def violations(self) -> list[str]:
        """Every session or login that a dead token had."""
        return [
            f"token: broker {one.broker} serves {one.token_id} at {one.asked_s:.2f} s, "
            f"removed at {self.removed_s.get(one.token_id)}, its end "
            f"{self.expiry_ms.get(one.token_id)}, the broker's date {one.wall_ms:.0f}"
            for one in self.served
            if self.is_dead(one.token_id, one.asked_s, one.wall_ms) and self._was_able(one)
        ]

    def _was_able(self, one: Served) -> bool:
        """Whether the broker has known its store for the whole grace before the request."""
        times = self.unable_s[one.broker]
        index = bisect_left(times, one.asked_s - GRACE_S)
        return index == len(times) or times[index] > one.asked_s
