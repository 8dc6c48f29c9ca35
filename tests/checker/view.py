"""A history seen from all sides: who wrote a value, who read it, and each key's log.

A log is what was proven to be at each offset: by every poll, and by sends that must have taken
effect. Polls count even in transactions that failed: a reader must never be shown wrong data.
Offsets have holes (markers, aborted records), so places in the dense order are compared, not
offsets.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from tests.checker.history import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.checker.history import Event, Key, Value


class View:
    """Made once per history; the checks only read it."""

    def __init__(self, history: Sequence[Event]) -> None:
        self.history = history
        self.done = [
            event for event in history if event.kind is not Kind.INVOKE and event.moves_records
        ]
        self.invocation: dict[int, Event] = {}
        # Invoked without a later outcome: their outcome is unknown.
        self.unfinished = self._pair()
        self.writer: dict[tuple[Key, Value], Event] = {}
        self.readers: dict[tuple[Key, Value], list[Event]] = defaultdict(list)
        # What operations that succeeded have read.
        self.seen: dict[Key, set[Value]] = defaultdict(set)
        for event in self.done:
            self._take_in(event)
        for event in self.unfinished:
            for sent in event.sent:
                self.writer.setdefault((sent.key, sent.value), event)
        self.log: dict[Key, list[tuple[int, set[Value]]]] = {}
        # A value that is in the log twice has two positions.
        self.first_place: dict[Key, dict[Value, int]] = {}
        self.last_place: dict[Key, dict[Value, int]] = {}
        self._make_logs()

    def _pair(self) -> list[Event]:
        open_by_process: dict[str, Event] = {}
        for event in self.history:
            if event.kind is Kind.INVOKE:
                open_by_process[event.process] = event
            elif event.process in open_by_process:
                self.invocation[event.index] = open_by_process.pop(event.process)
        return [event for event in open_by_process.values() if event.moves_records]

    def _take_in(self, event: Event) -> None:
        for sent in event.sent:
            self.writer[sent.key, sent.value] = event
        for read in event.read:
            self.readers[read.key, read.value].append(event)
            if event.kind is Kind.OK:
                self.seen[read.key].add(read.value)

    def _make_logs(self) -> None:
        logs: dict[Key, dict[int, set[Value]]] = defaultdict(lambda: defaultdict(set))
        for event in self.done:
            if self.must_be_there(event):
                for sent in event.sent:
                    if sent.offset is not None:
                        logs[sent.key][sent.offset].add(sent.value)
            for read in event.read:
                logs[read.key][read.offset].add(read.value)
        for key, values_at in logs.items():
            self.log[key] = sorted(values_at.items())
            first: dict[Value, int] = {}
            last: dict[Value, int] = {}
            for place, (_offset, values) in enumerate(self.log[key]):
                for value in values:
                    first.setdefault(value, place)
                    last[value] = place
            self.first_place[key], self.last_place[key] = first, last

    def must_be_there(self, event: Event) -> bool:
        """Whether all that the operation wrote has to be in the logs: it succeeded, or its outcome
        is unknown and one of its records was read, so that the others belong there as well."""
        if event.kind is Kind.OK:
            return True
        if event.kind is Kind.FAIL:
            return False
        return any(sent.value in self.seen[sent.key] for sent in event.sent)

    def distance(self, key: Key, before: Value, after: Value) -> int:
        """How many places on: 1 is next. Of what is nowhere proven, nothing is claimed."""
        places = self.last_place.get(key, {})
        if before not in places or after not in places:
            return 1
        return places[after] - places[before]
