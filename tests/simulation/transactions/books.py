"""Records of all transactional clients of one run, and the checks on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.checker.history import Call, Kind, Recorder
from tests.checker.verdict import judge
from tests.simulation.transactions.early import Showings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.checker.history import Event, Read, Sent
    from tests.simulation.cluster.client import ClusterClient
    from tests.simulation.history import Partition

_MARK = b"t"


def key_of(partition: Partition) -> str:
    """The checker's name of a partition."""
    return "{}-{}".format(*partition)


def encode_value(value: int, source: int = 0) -> bytes:
    """A record's content: its own number, and that of the record it was made from."""
    return _MARK + b"%d/%d" % (value, source)


def decode_value(content: bytes) -> tuple[int, int] | None:
    """Number and source; None for what others have written."""
    if not content.startswith(_MARK):
        return None
    value, _, source = content[1:].partition(b"/")
    return int(value), int(source)


@dataclass(slots=True)
class Pipe:
    """From one partition to another, under one group, and one transactional id unless it has
    members, each of which has its own."""

    transactional_id: str
    group: str
    source: Partition
    target: Partition
    has_members: bool = False


@dataclass(slots=True)
class Books:
    """One per run. ``finals``: number and source of each committed record, in the log's order."""

    recorder: Recorder = field(default_factory=Recorder)
    finals: dict[Partition, list[tuple[int, int]]] = field(default_factory=dict)
    surprises: list[str] = field(default_factory=list)
    showings: Showings = field(default_factory=Showings)
    last_value: int = 0
    ended: dict[str, int] = field(default_factory=dict)

    def new_value(self) -> int:
        """A number that no record had before."""
        self.last_value += 1
        return self.last_value

    def note(
        self,
        client: ClusterClient,
        kind: Kind,
        call: Call,
        *,
        sent: Iterable[Sent] = (),
        read: Iterable[Read] = (),
    ) -> Event:
        """An event of that client, now."""
        if call is Call.TXN and kind is not Kind.INVOKE:
            self.ended[kind.value] = self.ended.get(kind.value, 0) + 1
        time_ns = int(client.ports.clock.now_ms() * 1_000_000)
        return self.recorder.note(time_ns, client.name, kind, call, sent=sent, read=read)

    def violations(self, pipes: Iterable[Pipe], *, is_read_to_the_end: bool) -> list[str]:
        """Every sentence that is one too many."""
        found = [f"surprise: {surprise}" for surprise in self.surprises]
        verdict = judge(self.recorder.events, is_read_to_the_end=is_read_to_the_end)
        found += verdict.told()
        if is_read_to_the_end:
            found += [f"too early: {early}" for early in self.showings.violations()]
            for pipe in pipes:
                found += self._leaks(pipe)
        return found

    def _leaks(self, pipe: Pipe) -> list[str]:
        """Each input record must have come out once, in the same order."""
        wanted = [value for value, _ in self.finals[pipe.source]]
        got = [source for _, source in self.finals[pipe.target]]
        if wanted == got:
            return []
        missing = sorted(set(wanted) - set(got))
        foreign = sorted(set(got) - set(wanted))
        twice = sorted({one for one in got if got.count(one) > 1})
        return [
            f"pipeline {pipe.transactional_id}: {len(wanted)} in, {len(got)} out; missing "
            f"{missing[:5]}, twice {twice[:5]}, from nowhere {foreign[:5]}"
        ]
