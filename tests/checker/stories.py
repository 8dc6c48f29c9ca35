"""Builds histories for the checker's own tests."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tests.checker.history import Call, Kind, Read, Recorder, Sent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.checker.history import Event, Key

OK, FAIL, INFO = Kind.OK, Kind.FAIL, Kind.INFO


class Story:
    """Each call adds one operation; ``p`` is the process."""

    def __init__(self) -> None:
        self._recorder = Recorder()

    @property
    def events(self) -> list[Event]:
        return self._recorder.events

    def begin(self, p: int, call: Call, sent: Iterable[Sent] = ()) -> None:
        self._add(p, Kind.INVOKE, call, [one._replace(offset=None) for one in sent])

    def end(self, p: int, kind: Kind, call: Call, sent: Iterable[Sent] = ()) -> None:
        self._add(p, kind, call, sent)

    def send(self, p: int, *sent: Sent, kind: Kind = OK) -> Story:
        self.begin(p, Call.SEND, sent)
        return self._add(p, kind, Call.SEND, sent)

    def poll(self, p: int, *read: Read, kind: Kind = OK, rebalanced: Iterable[Key] = ()) -> Story:
        self.begin(p, Call.POLL)
        return self._add(p, kind, Call.POLL, (), read, rebalanced)

    def transact(self, p: int, *sent: Sent, read: Iterable[Read] = (), kind: Kind = OK) -> Story:
        self.begin(p, Call.TXN, sent)
        return self._add(p, kind, Call.TXN, sent, read)

    def assign(self, p: int, *keys: Key) -> Story:
        self._recorder.note(0, str(p), OK, Call.ASSIGN, keys=keys)
        return self

    def _add(
        self,
        p: int,
        kind: Kind,
        call: Call,
        sent: Iterable[Sent],
        read: Iterable[Read] = (),
        rebalanced: Iterable[Key] = (),
    ) -> Story:
        self._recorder.note(
            len(self.events), str(p), kind, call, sent=sent, read=read, rebalanced=rebalanced
        )
        return self


def perfect_story(seed: int, operations: int, keys: int = 6, processes: int = 8) -> Story:
    """Clients of a flawless log, with transactions, aborts, unknown outcomes and markers' gaps."""
    rng = random.Random(seed)
    story = Story()
    logs: dict[Key, list[Read]] = {f"k{number}": [] for number in range(keys)}
    ends = dict.fromkeys(logs, 0)
    positions: dict[tuple[int, Key], int] = {}
    value = 0
    for _ in range(operations):
        p = rng.randrange(processes)
        key = rng.choice(list(logs))
        if rng.random() < 0.5:
            kind = rng.choices((OK, FAIL, INFO), (8, 1, 1))[0]
            took = kind is OK or (kind is INFO and rng.random() < 0.5)
            sent = []
            for target in dict.fromkeys((key, rng.choice(list(logs)))):
                value += 1
                offset = ends[target]
                ends[target] += rng.choice((1, 2))
                if took:
                    logs[target].append(Read(target, offset, value))
                sent.append(Sent(target, value, offset if kind is OK else None))
            story.transact(p, *sent, kind=kind)
        else:
            start = positions.get((p, key), 0)
            found = logs[key][start : start + 50]
            kind = rng.choice((OK, OK, OK, FAIL))
            story.poll(p, *found, kind=kind)
            if kind is OK:
                positions[p, key] = start + len(found)
    for number, (_key, log) in enumerate(logs.items()):
        story.poll(processes + number, *log)
    return story
