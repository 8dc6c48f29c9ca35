"""Delays of the answers to failed logins. Pure.

The delay doubles with each failure from one address, up to a limit, and is reset after a time
without failures. A successful login is never delayed and no account is ever locked: both would let
an attacker lock the user out.
"""

from __future__ import annotations

from collections import OrderedDict

DELAY_MS_MAX = 5_000.0
FORGOTTEN_AFTER_MS = 60_000.0
HOSTS_MAX = 10_000
DOUBLINGS_MAX = 10


class FailureDelays:
    """Remembers failures by address; the address that has failed least recently is dropped first.

    Args:
        first_ms: The delay of the first failure; 0 for no delays at all.
    """

    def __init__(self, first_ms: float) -> None:
        self._first_ms = first_ms
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def failed(self, host: str, now_ms: float, chance: float) -> float:
        """Return the delay of this failure, plus up to a quarter at random (``chance`` from 0 to
        1)."""
        count, last_ms = self._failures.pop(host, (0, now_ms))
        if now_ms - last_ms >= FORGOTTEN_AFTER_MS:
            count = 0
        self._failures[host] = (count + 1, now_ms)
        if len(self._failures) > HOSTS_MAX:
            self._failures.popitem(last=False)
        delay_ms = self._first_ms * (1 << min(count, DOUBLINGS_MAX))
        return min(delay_ms, max(DELAY_MS_MAX, self._first_ms)) * (1 + chance / 4)

    def succeeded(self, host: str) -> None:
        """Forget the failures of the address."""
        self._failures.pop(host, None)
