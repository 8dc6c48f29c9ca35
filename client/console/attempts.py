"""Limits failed logins: by user, by address, and by both together. Pure.

The brokers check passwords; the console only slows down visitors who guess them. Some attempts are
free; each further one has to wait twice as long as the previous one. Limits for a user alone are
generous, so that an attacker can hardly lock that user out.
"""

from __future__ import annotations

import ipaddress

from ottla.protocol.named_tuples import NamedTuple

ENTRIES_MAX = 10_000
FORGOTTEN_AFTER_MS = 3_600_000.0
FIRST_DELAY_MS = 1_000.0
NAME_CHARACTERS = 256
_NETWORK_BITS = 64
_PAIR = "pair"


class AttemptLimit(NamedTuple):
    """How many attempts are free, and the longest delay after that."""

    free: int
    delay_ms_max: float


PAIR = AttemptLimit(5, 300_000.0)
ADDRESS = AttemptLimit(30, 300_000.0)
USER = AttemptLimit(60, 30_000.0)


class _Entry:
    """The attempts of one key, and when the next one is allowed."""

    __slots__ = ("count", "delay_ms", "last_ms", "next_ms")

    def __init__(self) -> None:
        self.count = 0
        self.delay_ms = self.last_ms = self.next_ms = 0.0


class LoginAttempts:
    """Counts attempts. Owned by one console."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, ...], _Entry] = {}

    def begin(self, user: str, host: str, now_ms: float) -> float:
        """Count an attempt, which fails unless ``succeeded`` follows.

        Args:
            user: The name that the visitor gave.
            host: The visitor's address.
            now_ms: The time.

        Returns:
            0 if the attempt may be made; otherwise after how many milliseconds the next one may.
        """
        keys = _keys(user, host)
        known = [self._entries.get(key) for key in keys]
        wait_ms = max((one.next_ms - now_ms for one in known if one is not None), default=0.0)
        if wait_ms > 0:
            return wait_ms
        for key, limit in keys.items():
            entry = self._entries.pop(key, None)
            if entry is None or now_ms - entry.last_ms > FORGOTTEN_AFTER_MS:
                entry = _Entry()
            entry.count += 1
            entry.last_ms = now_ms
            if entry.count >= limit.free:
                doublings = min(entry.count - limit.free, 30)
                entry.delay_ms = min(FIRST_DELAY_MS * 2**doublings, limit.delay_ms_max)
                entry.next_ms = now_ms + entry.delay_ms
            # The dict is ordered by the last attempts.
            self._entries[key] = entry
        while len(self._entries) > ENTRIES_MAX:
            del self._entries[next(iter(self._entries))]
        return 0.0

    def failed(self, user: str, host: str, now_ms: float) -> None:
        """The attempt has failed: the delay starts when the visitor gets the answer."""
        for key in _keys(user, host):
            entry = self._entries.get(key)
            if entry is not None and entry.delay_ms:
                entry.next_ms = now_ms + entry.delay_ms

    def succeeded(self, user: str, host: str) -> None:
        """The attempt has succeeded: it no longer counts, and the user's failures from this address
        are forgotten."""
        for key in _keys(user, host):
            entry = self._entries.get(key)
            if entry is None:
                continue
            entry.count -= 1
            entry.next_ms = 0.0
            if entry.count <= 0 or key[0] == _PAIR:
                del self._entries[key]


def _keys(user: str, host: str) -> dict[tuple[str, ...], AttemptLimit]:
    name, network = user[:NAME_CHARACTERS], network_of(host)
    return {
        (_PAIR, name, network): PAIR,
        ("address", network): ADDRESS,
        ("user", name): USER,
    }


def network_of(host: str) -> str:
    """Return an IPv4 address, or the network of an IPv6 address: a visitor may use all addresses in
    it."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((int(address), _NETWORK_BITS), strict=False))
