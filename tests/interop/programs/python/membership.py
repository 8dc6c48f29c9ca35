"""What every Python member of a group shares: its parameters, and the events that it reports.

A member reads until its standard input ends, then leaves the group. A line of its standard input,
topic, partition and offset, makes it seek there. Each event is one line of JSON with a time of the
machine's monotonic clock, so that events of several processes can be ordered. It must run wherever
an old client runs, so it uses nothing but the standard library.
"""

from __future__ import annotations

import json
import queue
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

POLL_S = 0.1


class Orders:
    """The second argument of the program, a JSON object."""

    def __init__(self) -> None:
        given: dict[str, Any] = json.loads(sys.argv[2])
        self.address: str = sys.argv[1]
        self.group: str = given["group"]
        self.topics: list[str] = given["topics"]
        self.strategy: str = given["strategy"]
        self.protocol: str = given.get("protocol", "classic")
        self.instance: str | None = given.get("instance")
        self.session_ms: int = given.get("session_ms", 10_000)
        self.heartbeat_ms: int = given.get("heartbeat_ms", 300)
        # Between two polls, so that a backlog lasts for a while.
        self.pace_ms: int = given.get("pace_ms", 0)
        self.batch: int = given.get("batch", 500)


class Leaving:
    """Set when standard input has ended; earlier lines are offsets to seek to."""

    def __init__(self) -> None:
        self.is_set = False
        self._seeks: queue.SimpleQueue[tuple[str, int, int]] = queue.SimpleQueue()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        for line in sys.stdin:
            self._seeks.put(tuple(json.loads(line)))
        self.is_set = True

    def seeks(self) -> Iterator[tuple[str, int, int]]:
        """Topic, partition and offset of each; to be done before the next poll."""
        while not self._seeks.empty():
            yield self._seeks.get()
            tell("sought")


def tell(event: str, **fields: Any) -> None:
    """One event, at once."""
    line = json.dumps({"event": event, "time": time.monotonic(), **fields})
    # One call, since threads of a client report events, too.
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def tell_partitions(event: str, partitions: Iterable[tuple[str, int]]) -> None:
    """Partitions that were given or taken; nothing for none."""
    changed = sorted(partitions)
    if changed:
        tell(event, partitions=changed)


def tell_read(reads: dict[tuple[str, int], list[int]]) -> None:
    """The offsets that one poll brought, as ranges; a hole in them shows as a smaller count."""
    for (topic, partition), offsets in reads.items():
        tell(
            "read",
            topic=topic,
            partition=partition,
            first=offsets[0],
            last=offsets[-1],
            count=len(offsets),
        )
