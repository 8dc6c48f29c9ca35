"""What clients did and saw, in the order of one clock: the input of the checker.

One operation is two events: ``invoke`` before the call and its outcome after it. ``INFO`` is an
unknown outcome, as is that of an invocation whose process died. A key is one partition; values are
unique per key, and no application ever sends one again: only client libraries repeat.

A wrong ``FAIL`` hides losses and invents aborted reads, so only what certainly did not happen may
be called that. A process that has lost its client continues under a new name.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import TextIO

Key = str
Value = int


class Kind(Enum):
    """What is known of an operation's outcome."""

    INVOKE = "invoke"
    OK = "ok"
    FAIL = "fail"
    INFO = "info"


class Call(Enum):
    """``TXN`` is a transaction of sends and polls; ``ASSIGN`` and ``SUBSCRIBE`` name the keys that
    keep their positions."""

    SEND = "send"
    POLL = "poll"
    TXN = "txn"
    ASSIGN = "assign"
    SUBSCRIBE = "subscribe"


MOVES_RECORDS = frozenset({Call.SEND, Call.POLL, Call.TXN})


class Sent(NamedTuple):
    """One record that was, or was to be, written; its offset is None while it is not known."""

    key: Key
    value: Value
    offset: int | None = None


class Read(NamedTuple):
    """One record that was polled."""

    key: Key
    offset: int
    value: Value


@dataclass(slots=True)
class Event:
    """``index`` is its place in the history, ``time_ns`` monotonic and of one process for all.

    ``rebalanced``: keys that went or came during the operation, whose order means nothing."""

    index: int
    time_ns: int
    process: str
    kind: Kind
    call: Call
    sent: tuple[Sent, ...] = ()
    read: tuple[Read, ...] = ()
    keys: tuple[Key, ...] = ()
    rebalanced: frozenset[Key] = field(default_factory=frozenset)

    @property
    def moves_records(self) -> bool:
        return self.call in MOVES_RECORDS


class Recorder:
    """Collects events of all clients of one run; to a file too, line by line, so that what a dying
    test has seen is not lost."""

    def __init__(self, file: TextIO | None = None) -> None:
        self.events: list[Event] = []
        self._file = file

    def note(
        self,
        time_ns: int,
        process: str,
        kind: Kind,
        call: Call,
        *,
        sent: Iterable[Sent] = (),
        read: Iterable[Read] = (),
        keys: Iterable[Key] = (),
        rebalanced: Iterable[Key] = (),
    ) -> Event:
        """Add an event; its index is its place."""
        event = Event(
            len(self.events),
            time_ns,
            process,
            kind,
            call,
            tuple(sent),
            tuple(read),
            tuple(keys),
            frozenset(rebalanced),
        )
        self.events.append(event)
        if self._file is not None:
            self._file.write(as_line(event) + "\n")
            self._file.flush()
        return event


def as_line(event: Event) -> str:
    """One event as a line of JSON."""
    row = {
        "i": event.index,
        "t": event.time_ns,
        "p": event.process,
        "type": event.kind.value,
        "f": event.call.value,
        "sent": [list(one) for one in event.sent],
        "read": [list(one) for one in event.read],
        "keys": list(event.keys),
        "rebalanced": sorted(event.rebalanced),
    }
    return json.dumps({name: value for name, value in row.items() if value or value == 0})


def read_lines(lines: Iterable[str]) -> Iterator[Event]:
    """The events of a file that a recorder has written; a line that was cut short ends them."""
    for line in lines:
        try:
            row = json.loads(line)
        except ValueError:
            return
        yield Event(
            row["i"],
            row["t"],
            row["p"],
            Kind(row["type"]),
            Call(row["f"]),
            tuple(Sent(*one) for one in row.get("sent", ())),
            tuple(Read(*one) for one in row.get("read", ())),
            tuple(row.get("keys", ())),
            frozenset(row.get("rebalanced", ())),
        )
