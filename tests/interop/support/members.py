"""Members of one group, each an unmodified client in a separate process, and their events.

The judgement does not use the broker: which member had which partition when, by the members'
callbacks, and which offsets they have read. All times are of the machine's monotonic clock.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import subprocess
import threading
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.support.broker_process import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

Partition = tuple[str, int]


class Held(NamedTuple):
    """One member had one partition for that long."""

    since: float
    until: float
    member: str


class Member:
    """A running member. Use as a context manager: leaving it kills the process."""

    def __init__(
        self, name: str, command: Iterable[str | Path], orders: dict[str, Any], folder: Path
    ) -> None:
        self.name = name
        self.events: list[dict[str, Any]] = []
        # When it was asked to leave, or was killed: what it held then counts no more.
        self.ended = math.inf
        self.log = folder / f"{name}.stderr"
        words = [*map(str, command), json.dumps(orders)]
        with self.log.open("ab") as stderr:
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                text=True,
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                self.events.append(json.loads(line))

    @property
    def held(self) -> set[Partition]:
        """Partitions that it believes to have now."""
        now: set[Partition] = set()
        for event in list(self.events):
            changed = {(topic, number) for topic, number in event.get("partitions", ())}
            if event["event"] == "assigned":
                now |= changed
            elif event["event"] in ("revoked", "lost"):
                now -= changed
        return now if self.ended == math.inf else set()

    @property
    def rebalance_count(self) -> int:
        """How often it was given partitions."""
        return sum(event["event"] == "assigned" for event in self.events)

    def spans(self) -> dict[Partition, list[Held]]:
        """From when to when it had each partition; an open span ends with the member."""
        since: dict[Partition, float] = {}
        found: dict[Partition, list[Held]] = defaultdict(list)
        for event in self.events:
            for topic, number in event.get("partitions", ()):
                where = (topic, number)
                if event["event"] == "assigned":
                    since.setdefault(where, event["time"])
                elif where in since:
                    until = min(event["time"], self.ended)
                    found[where].append(Held(since.pop(where), until, self.name))
        for where, start in since.items():
            found[where].append(Held(start, self.ended, self.name))
        return found

    def seek(self, where: Partition, offset: int) -> None:
        """Make it seek in one of its partitions; it reports when it has done so."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([*where, offset]) + "\n")
        self._process.stdin.flush()

    def reads(self, where: Partition) -> list[dict[str, Any]]:
        """Its reads of one partition, in order."""
        return [
            event
            for event in list(self.events)
            if event["event"] == "read" and (event["topic"], event["partition"]) == where
        ]

    def leave(self, timeout_s: float = 60.0) -> None:
        """Let it close its consumer."""
        self.ended = time.monotonic()
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            status = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} does not leave: {self.said()}") from None
        self._reader.join(5)
        assert status == 0, self.said()

    def kill(self) -> None:
        """kill -9: the member does not leave its group."""
        if self.ended == math.inf:
            self.ended = time.monotonic()
        self._process.kill()
        self._process.wait()
        self._reader.join(5)

    def signal(self, number: int) -> None:
        """Send a signal to it, such as SIGSTOP; nothing if it has ended."""
        self._process.send_signal(number)

    def is_running(self) -> bool:
        return self._process.poll() is None

    def said(self) -> str:
        """The end of its standard error, for a failure."""
        return self.log.read_text("utf-8", "replace")[-2000:]

    def __enter__(self) -> Member:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            if not stream.closed:
                stream.close()


def wait_until(holds: Callable[[], bool], members: Iterable[Member], timeout_s: float) -> None:
    """Wait until ``holds``; raises AssertionError with the state and output of every member."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > deadline:
            state = [f"{one.name} {sorted(one.held)} {one.events[-6:]}" for one in members]
            said = [one.said() for one in members]
            raise AssertionError("\n".join([f"not within {timeout_s} s", *state, *said]))
        time.sleep(0.05)


def share(members: Iterable[Member], partitions: Iterable[Partition]) -> bool:
    """Whether these members hold all the partitions, each by exactly one of them."""
    held = [where for member in members for where in member.held]
    return len(held) == len(set(held)) and set(held) == set(partitions)


def overlaps(members: Iterable[Member]) -> list[str]:
    """Partitions that two members had at the same time; there must be none."""
    spans: dict[Partition, list[Held]] = defaultdict(list)
    for member in members:
        for where, held in member.spans().items():
            spans[where] += held
    found = []
    for where, held in spans.items():
        held.sort()
        for earlier, later in itertools.pairwise(held):
            if later.since < earlier.until:
                found.append(f"{where}: {earlier} and {later}")
    return found


def offsets_read(members: Iterable[Member]) -> dict[Partition, list[tuple[int, int]]]:
    """All ranges that were read, first and last offset, sorted."""
    found: dict[Partition, list[tuple[int, int]]] = defaultdict(list)
    for member in members:
        for event in member.events:
            if event["event"] == "read":
                assert event["count"] == event["last"] - event["first"] + 1, event
                found[(event["topic"], event["partition"])].append((event["first"], event["last"]))
    return {where: sorted(ranges) for where, ranges in found.items()}


def holes(members: Iterable[Member], ends: dict[Partition, int]) -> list[str]:
    """Ranges of offsets that no member has read."""
    read = offsets_read(members)
    found = []
    for where, end in ends.items():
        position = 0
        for first, last in read.get(where, ()):
            if first > position:
                found.append(f"{where}: {position}..{first - 1}")
            position = max(position, last + 1)
        if position < end:
            found.append(f"{where}: {position}..{end - 1}")
    return found


def count_read(members: Iterable[Member]) -> int:
    """Records read, counting each time."""
    return sum(
        last - first + 1 for ranges in offsets_read(members).values() for first, last in ranges
    )
