"""Whether records were written and read in order: within an operation, within a process, and in
real time."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

from tests.checker.contents import Finding
from tests.checker.history import Call, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.checker.history import Event, Key, Read, Sent, Value
    from tests.checker.view import View


def internal_order(view: View) -> Iterator[Finding]:
    """Neighbours within one operation. Between two sends of a transaction others may write."""
    for event in view.done:
        for key, values in _by_key(event.read).items():
            if key not in event.rebalanced:
                names = "int-poll-skip", "int-nonmonotonic-poll"
                yield from _steps(view, event, key, values, names)
        for key, values in _by_key(event.sent).items():
            names = "int-send-skip", "int-nonmonotonic-send"
            yield from _steps(view, event, key, values, names)


def _steps(
    view: View, event: Event, key: Key, values: list[Value], names: tuple[str, str]
) -> Iterator[Finding]:
    for before, after in pairwise(values):
        distance = view.distance(key, before, after)
        if distance != 1:
            skip, back = names
            name = skip if distance > 1 else back
            told = f"{event.index} had {after} of {key} after {before}, {distance} places on"
            yield Finding(name, key, (before, after), told)


def external_order(view: View) -> Iterator[Finding]:
    """From one operation of a process to its next.

    A position moves on only with polls that succeeded: after an aborted transaction the next poll
    has to start where that one did, or records are never consumed.
    """
    read: dict[str, dict[Key, Value]] = defaultdict(dict)
    sent: dict[str, dict[Key, Value]] = defaultdict(dict)
    for event in view.history:
        if event.kind is Kind.INVOKE:
            continue
        polled, written = read[event.process], sent[event.process]
        if event.call in (Call.ASSIGN, Call.SUBSCRIBE):
            if event.kind is not Kind.FAIL:
                for positions in (polled, written):
                    for key in positions.keys() - set(event.keys):
                        del positions[key]
            continue
        for key, values in _by_key(event.read).items():
            if key in polled:
                names = "poll-skip", "nonmonotonic-poll"
                yield from _steps(view, event, key, [polled[key], values[0]], names)
            if event.kind is Kind.OK:
                polled[key] = values[-1]
        if event.kind is Kind.FAIL:
            continue
        for key, values in _by_key(event.sent).items():
            if key in written and view.distance(key, written[key], values[0]) < 1:
                told = f"{values[0]} of {key} ({event.index}) stands before {written[key]}"
                yield Finding("nonmonotonic-send", key, (written[key], values[0]), told)
            written[key] = values[-1]


def inversions(view: View) -> Iterator[Finding]:
    """A write that began after another was acknowledged got a lower offset: a deposed leader that
    still acknowledges, or offsets that were given out again after a cut."""
    moments: list[tuple[int, bool, Event]] = []
    for event in view.done:
        begun = view.invocation.get(event.index)
        if event.kind is Kind.OK and begun is not None and event.sent:
            moments += [(begun.index, True, event), (event.index, False, event)]
    highest: dict[Key, Sent] = {}
    floor: dict[tuple[int, Key], Sent | None] = {}
    for _index, is_begin, event in sorted(moments, key=lambda moment: moment[:2]):
        for one in event.sent:
            if is_begin:
                floor[event.index, one.key] = highest.get(one.key)
                continue
            if one.offset is None:
                continue
            below = floor[event.index, one.key]
            if below is not None and below.offset is not None and one.offset <= below.offset:
                told = (
                    f"{one.value} of {one.key} is at {one.offset}, {below.value} at "
                    f"{below.offset}, though that was acknowledged before this was sent"
                )
                yield Finding("realtime-inversion", one.key, (below.value, one.value), told)
            known = highest.get(one.key)
            if known is None or known.offset is None or one.offset > known.offset:
                highest[one.key] = one


def _by_key(records: Iterable[Read] | Iterable[Sent]) -> dict[Key, list[Value]]:
    found: dict[Key, list[Value]] = defaultdict(list)
    for record in records:
        found[record.key].append(record.value)
    return found
