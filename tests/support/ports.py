"""Ports for servers that need a fixed one: chosen now, taken by a process that starts later."""

from __future__ import annotations

import contextlib
import random
import socket

HOST = "127.0.0.1"
# Below the ports that systems give to outgoing connections and to listeners without a wish: one of
# those is taken by any client between the choice and the start, or while a broker is down that is
# to come back, perhaps by a client of that very port, which then talks to itself.
FIRST, LAST = 10_000, 32_000
TRIES_MAX = 200
# Hypothesis sets the seed of the shared one: two runs would choose the same ports.
_CHANCE = random.SystemRandom()


def free_ports(count: int) -> list[int]:
    """Ports that are free now."""
    found: list[int] = []
    while len(found) < count:
        port = free_row(1)
        if port not in found:
            found.append(port)
    return found


def free_row(count: int) -> int:
    """The first of so many free ports in a row."""
    for _ in range(TRIES_MAX):
        first = _CHANCE.randrange(FIRST, LAST - count)
        if all(_is_free(port) for port in range(first, first + count)):
            return first
    raise RuntimeError(f"no {count} free ports in a row")


def _is_free(port: int) -> bool:
    with contextlib.closing(socket.socket()) as probe:
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
