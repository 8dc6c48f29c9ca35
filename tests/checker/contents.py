"""Checks of single values, whatever the order: duplicates, losses and corruption."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from tests.checker.history import Call, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.checker.history import Key, Value
    from tests.checker.view import View


class Finding(NamedTuple):
    """One violation and its evidence, for the report."""

    anomaly: str
    key: Key
    values: tuple[Value, ...]
    told: str


def inconsistent_offsets(view: View) -> Iterator[Finding]:
    """One offset, two values: logs went apart, or acknowledged records were cut off."""
    for key, log in view.log.items():
        for offset, values in log:
            if len(values) > 1:
                told = f"offset {offset} of {key} held {sorted(values)}"
                yield Finding("inconsistent-offsets", key, tuple(sorted(values)), told)


def duplicates(view: View) -> Iterator[Finding]:
    """One value at two offsets: idempotence broke."""
    for key, log in view.log.items():
        places: dict[Value, list[int]] = defaultdict(list)
        for offset, values in log:
            for value in values:
                places[value].append(offset)
        for value, offsets in places.items():
            if len(offsets) > 1:
                yield Finding("duplicate", key, (value,), f"{value} of {key} is at {offsets}")


def lost_writes(view: View) -> Iterator[Finding]:
    """Find committed values that were never read although a later value of the key was.

    The bound is the first place of what was read, the candidate's its last one: a value that is
    there twice must not make the verdict depend on which of the two was met.
    """
    for key, seen in view.seen.items():
        first, last = view.first_place.get(key, {}), view.last_place.get(key, {})
        bound = max((first[value] for value in seen if value in first), default=-1)
        for value, place in last.items():
            writer = view.writer.get((key, value))
            if place > bound or value in seen or writer is None:
                continue
            if view.must_be_there(writer):
                told = f"{value} of {key}, written by {writer.process} ({writer.index}), is lost"
                yield Finding("lost-write", key, (value,), told)
    yield from _torn(view)


def _torn(view: View) -> Iterator[Finding]:
    """The same for records without a known offset: of a transaction with a record that was read,
    the others must be read as well, once something later of their keys was."""
    for event in view.done:
        # Sends outside of transactions are independent: one unknown outcome says nothing of
        # another.
        is_whole = event.kind is Kind.OK or event.call is Call.TXN
        if not is_whole or not view.must_be_there(event):
            continue
        for sent in event.sent:
            if sent.offset is not None or sent.value in view.seen[sent.key]:
                continue
            later = _read_after(view, sent.key, event.index)
            if later is not None:
                told = (
                    f"{sent.value} of {sent.key} is lost: other records of the same transaction "
                    f"({event.index}) were read, and so was {later}, which was written later"
                )
                yield Finding("lost-write", sent.key, (sent.value,), told)


def _read_after(view: View, key: Key, index: int) -> Value | None:
    """A value of the key that was read, and whose writing began after that event."""
    for value in view.seen[key]:
        writer = view.writer.get((key, value))
        if writer is not None:
            begun = view.invocation.get(writer.index, writer)
            if begun.index > index:
                return value
    return None


def unseen(view: View) -> Iterator[Finding]:
    """Find acknowledged values that were never polled; judged after all was read to its end."""
    for event in view.done:
        if event.kind is not Kind.OK:
            continue
        for sent in event.sent:
            if sent.value not in view.seen[sent.key]:
                told = f"{sent.value} of {sent.key}, acknowledged in {event.index}, was never read"
                yield Finding("unseen", sent.key, (sent.value,), told)


def phantoms(view: View) -> Iterator[Finding]:
    """Find values that were never written: corruption, or another topic's records."""
    for (key, value), readers in view.readers.items():
        if (key, value) not in view.writer:
            told = f"{value} of {key} was read in {readers[0].index} and written by nobody"
            yield Finding("phantom", key, (value,), told)


def aborted_reads(view: View) -> Iterator[Finding]:
    """G1a: a value was read whose writer has certainly failed."""
    for (key, value), readers in view.readers.items():
        writer = view.writer.get((key, value))
        if writer is None or writer.kind is not Kind.FAIL:
            continue
        for reader in readers:
            if reader.kind is Kind.OK:
                told = f"{value} of {key}, aborted in {writer.index}, was read in {reader.index}"
                yield Finding("G1a", key, (value,), told)


def precommitted_reads(view: View) -> Iterator[Finding]:
    """A transaction polled its own record, which is not committed yet."""
    for event in view.done:
        own = {(sent.key, sent.value) for sent in event.sent}
        for read in event.read:
            if (read.key, read.value) in own:
                told = f"{event.index} read its own {read.value} of {read.key}"
                yield Finding("precommitted-read", read.key, (read.value,), told)
