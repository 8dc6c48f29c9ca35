"""Translates source offsets to target offsets. Pure.

Offsets differ between clusters: several sources share a partition, transactions add markers,
compaction and retention leave gaps. Records copied together form a *run*; some runs of every
partition are kept as notes in a compacted topic of the target, more of the newer ones: of all notes
whose numbers end in the same count of zero bits the last few, so that of n notes a few times
log2(n) remain, at distances that double.

A translated offset is never too late. It may be too early, by what was copied between two notes, so
a consumer that continues there may read some records again and misses none.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ottla.protocol.ids import TopicPartition
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


KEPT_PER_DISTANCE = 8


class Run(NamedTuple):
    """Source offsets from ``start`` up to ``end`` became target offsets from ``target_start`` up to
    ``target_end``; one by one if both ranges have the same size."""

    start: int
    end: int
    target_start: int
    target_end: int

    @property
    def is_exact(self) -> bool:
        return self.end - self.start == self.target_end - self.target_start

    def translate(self, offset: int) -> int:
        """The target offset for a source offset; no record from ``offset`` on precedes it."""
        assert offset >= self.start
        if offset >= self.end:
            return self.target_end
        return self.target_start + (offset - self.start if self.is_exact else 0)

    def joined(self, later: Run) -> Run | None:
        """Both runs as one if ``later`` follows this one directly, else None."""
        touches = self.end == later.start and self.target_end == later.target_start
        if touches and self.is_exact and later.is_exact:
            return Run(self.start, later.end, self.target_start, later.target_end)
        return None


class OffsetNote(NamedTuple):
    """A stored run: its source (alias and cluster id) and partition, the target topic, and the
    number of the note within the partition, from 1 on."""

    source: str
    cluster_id: str
    where: TopicPartition
    target_topic: str
    number: int
    run: Run


def slot_of(number: int) -> int:
    """The slot of a note: it replaces the previous note of the same slot."""
    assert number >= 1
    zeros = (number & -number).bit_length() - 1
    return zeros * KEPT_PER_DISTANCE + (number >> (zeros + 1)) % KEPT_PER_DISTANCE


def note_key(note: OffsetNote) -> bytes:
    """The record key, by which compaction keeps one note per slot."""
    return _json(
        {
            "source": note.source,
            "topic": note.where.topic,
            "partition": note.where.partition,
            "slot": slot_of(note.number),
        }
    )


def note_value(note: OffsetNote) -> bytes:
    """The record value: everything that is not in the key."""
    return _json(
        {
            "number": note.number,
            "cluster": note.cluster_id,
            "target_topic": note.target_topic,
            **note.run._asdict(),
        }
    )


def read_note(key: bytes | None, value: bytes | None) -> OffsetNote | None:
    """The note in a record; None if it is not a note, or one of a later version."""
    if key is None or value is None:
        return None
    try:
        name, said = json.loads(key), json.loads(value)
        where = TopicPartition(str(name["topic"]), int(name["partition"]))
        run = Run(*(int(said[field]) for field in Run._fields))
        number = int(said["number"])
        note = OffsetNote(
            str(name["source"]), str(said["cluster"]), where, str(said["target_topic"]), number, run
        )
    except (ValueError, KeyError, TypeError):
        return None
    return note if note.number >= 1 and note_key(note) == key else None


def _json(document: dict[str, object]) -> bytes:
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()


class Notes:
    """The current notes of one source: one for each partition and slot."""

    def __init__(self, notes: Iterable[OffsetNote] = ()) -> None:
        self._slots: dict[TopicPartition, dict[int, OffsetNote]] = {}
        self._shared: frozenset[TopicPartition] = frozenset()
        for note in notes:
            self.take(note)

    @classmethod
    def of(cls, source: str, notes: Iterable[OffsetNote]) -> Notes:
        """Select this source's notes from all notes of the target."""
        mine, others = [], set()
        for note in notes:
            if note.source == source:
                mine.append(note)
            else:
                others.add(TopicPartition(note.target_topic, note.where.partition))
        made = cls(mine)
        made._shared = frozenset(others)
        return made

    def is_shared(self, target: TopicPartition) -> bool:
        """Whether other sources are also copied to that partition of the target."""
        return target in self._shared

    def take(self, note: OffsetNote) -> None:
        """Add a note from the topic; later ones replace earlier ones."""
        self._slots.setdefault(note.where, {})[slot_of(note.number)] = note

    def last(self, where: TopicPartition) -> OffsetNote | None:
        """The newest note of a partition, or None."""
        newest = self._newest_first(where)
        return newest[0] if newest else None

    def find(self, where: TopicPartition, offset: int) -> tuple[str, int] | None:
        """The topic and the offset on the target for a source's offset; None if all notes are of
        later records.

        Uses the newest note that reaches back that far: a recreated source topic begins again at 0,
        and of a range copied twice the second copy counts."""
        for note in self._newest_first(where):
            if note.run.start <= offset:
                return note.target_topic, note.run.translate(offset)
        return None

    def target_topic(self, where: TopicPartition) -> str | None:
        """The topic that the partition is copied to, or None."""
        last = self.last(where)
        return None if last is None else last.target_topic

    def _newest_first(self, where: TopicPartition) -> list[OffsetNote]:
        slots = self._slots.get(where, {})
        return sorted(slots.values(), key=lambda note: note.number, reverse=True)


class Jotter:
    """Collects notes of what one link copies, until they are written."""

    def __init__(self, source: str, cluster_id: str, notes: Notes) -> None:
        self._source = source
        self._cluster_id = cluster_id
        self._notes = notes
        self._due: dict[TopicPartition, OffsetNote] = {}

    def copied(self, where: TopicPartition, target_topic: str, run: Run) -> None:
        """Note a copied run. It extends the last run if it follows it directly; otherwise it starts
        a new note, which replaces an unwritten one."""
        written = self._notes.last(where)
        last = self._due.get(where, written)
        number = 1 if written is None else written.number + 1
        if last is not None:
            same_place = last.target_topic == target_topic and last.cluster_id == self._cluster_id
            joined = last.run.joined(run) if same_place else None
            if joined is not None:
                run, number = joined, last.number
        note = OffsetNote(self._source, self._cluster_id, where, target_topic, number, run)
        self._due[where] = note

    def due(self) -> list[OffsetNote]:
        """The notes to write."""
        return list(self._due.values())

    def written(self) -> None:
        """Mark the due notes as written."""
        for note in self._due.values():
            self._notes.take(note)
        self._due.clear()
