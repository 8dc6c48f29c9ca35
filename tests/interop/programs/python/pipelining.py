"""What every Python pipeline shares: its parameters, its events, and where its records go.

A pipeline consumes one topic, writes each record to another and commits both in transactions of a
fixed size, until its standard input ends. It must run wherever an old client runs, so it uses
nothing but the standard library.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from tests.interop.programs.python.membership import Leaving, tell

__all__ = ["WAIT_S", "Leaving", "Orders", "Positions", "place_of", "tell"]

WAIT_S = 60.0


class Orders:
    """The second argument of the program, a JSON object."""

    def __init__(self) -> None:
        given: dict[str, Any] = json.loads(sys.argv[2])
        self.address: str = sys.argv[1]
        self.group: str = given["group"]
        self.source: str = given["source"]
        self.target: str = given["target"]
        self.target_partitions: int = given["target_partitions"]
        self.transactional_id: str = given["transactional_id"]
        self.batch: int = given["batch"]
        self.session_ms: int = given["session_ms"]
        self.transaction_timeout_ms: int = given["transaction_timeout_ms"]


def place_of(value: bytes, partitions: int) -> int:
    """Values are ``partition:number``; the number says where a record goes."""
    return int(value.rpartition(b":")[2]) % partitions


class Positions:
    """Next offset of each partition, for clients that may read again in the background what the
    open transaction has already read."""

    def __init__(self) -> None:
        self._next: dict[Any, int] = {}

    def is_new(self, where: Any, offset: int) -> bool:
        """Whether it was not read before; then it was now."""
        if offset < self._next.get(where, 0):
            return False
        self._next[where] = offset + 1
        return True

    def forget(self) -> None:
        """Everything is read again from where the group has committed."""
        self._next.clear()
