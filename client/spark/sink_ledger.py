"""Decides how to commit a micro-batch that may have been written before. Pure.

Each task writes into its own transaction, which also commits an ``Entry``, and leaves it open. When
every task has done so the driver commits them: that of task 0 first, and the others only after that
succeeded. So at most one attempt at a micro-batch gets anything committed: another attempt has
either fenced the transactional id of task 0 before, or finds the entry of task 0, which has the
number of tasks. A later attempt compares its rows with what is committed and leaves that.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FORMAT = "1"


class WriteRefused(ClientError):
    """Writing this micro-batch could store rows twice, or lose some."""


class Entry(NamedTuple):
    """The last micro-batch that a task committed. Only task 0 knows ``task_count``."""

    batch_id: int
    row_count: int
    checksum: str
    task_count: int = 0

    @property
    def text(self) -> str:
        """The entry as metadata of a committed offset."""
        return (
            f"v={FORMAT} batch={self.batch_id} rows={self.row_count} checksum={self.checksum} "
            f"tasks={self.task_count}"
        )


def read_entry(text: str) -> Entry:
    """Parse an entry's text. Raises WriteRefused if no sink wrote it."""
    words = dict(word.partition("=")[::2] for word in text.split())
    try:
        if words["v"] != FORMAT:
            raise ValueError
        return Entry(
            int(words["batch"]), int(words["rows"]), words["checksum"], int(words["tasks"])
        )
    except (KeyError, ValueError):
        raise WriteRefused(
            f"the committed offset of this query says {text!r}, which no sink of this version "
            "has written; is the group used for something else?"
        ) from None


def name_of(prefix: str, query_id: str, partition_id: int) -> str:
    """The transactional id of a task, also the group of its entry."""
    return f"{prefix}-{query_id}-{partition_id}"


def is_written(before: Entry | None, batch_id: int) -> bool:
    """Whether a task's part of the micro-batch is committed. Raises WriteRefused if the entry is
    from a later one."""
    if before is None or before.batch_id < batch_id:
        return False
    if before.batch_id == batch_id:
        return True
    raise WriteRefused(
        f"micro-batch {batch_id} is older than {before.batch_id}, which this query has committed: "
        "another run of it is going on, or its checkpoint was set back"
    )


class TaskOutcome(Enum):
    """How a task ended."""

    # The transaction is open and complete.
    OPEN = "open"
    # The rows are committed already: the same ones, or others.
    SAME = "same"
    OTHER = "other"


class Part(NamedTuple):
    """What one task has done; ``before`` is the entry it found, ``looked_ms`` the time of that
    lookup, in ms since 1970."""

    partition_id: int
    outcome: TaskOutcome
    row_count: int
    checksum: str
    before: Entry | None
    looked_ms: float


class CommitDecision(NamedTuple):
    """What the driver does: commit task 0, if ``is_new``, and then the ``rest``. Or, with
    ``foreign_count``, that many other tasks may have written it all: ``judge_foreign`` decides with
    their entries."""

    is_new: bool = False
    rest: tuple[int, ...] = ()
    foreign_count: int = 0


def judge_batch(
    batch_id: int, parts: Sequence[Part], *, may_begin: bool, is_late: bool = False
) -> CommitDecision:
    """Decide when every task has ended. Raises WriteRefused; nothing may be committed then.

    ``may_begin``: a query that has written before may begin without an entry. ``is_late``: when
    task 0 looked up its entry, the first attempt at this micro-batch was longer ago than brokers
    keep entries."""
    by_id = {part.partition_id: part for part in parts}
    assert sorted(by_id) == list(range(len(parts))), "some tasks are missing"
    zero = by_id[0].before
    if zero is None or zero.batch_id < batch_id:
        if zero is None and batch_id > 0 and not may_begin:
            raise WriteRefused(
                f"micro-batch {batch_id} is not the first of this query, and nothing tells what "
                "it has written before: either it did not write exactly once so far, or it has "
                "stood still for longer than the brokers keep committed offsets "
                "(offsets.retention.minutes); the option missingLedger=begin lets it go on, and "
                "stores twice what an earlier attempt at this micro-batch has committed"
            )
        if zero is None and is_late and not may_begin:
            raise WriteRefused(
                f"micro-batch {batch_id} was first begun longer ago than the brokers keep "
                "committed offsets (offsets.retention.minutes), so that nothing tells whether an "
                "earlier attempt has written it; the option missingLedger=begin writes it, and "
                "stores twice what such an attempt has committed"
            )
        for part in by_id.values():
            if part.outcome is not TaskOutcome.OPEN:
                raise WriteRefused(
                    f"micro-batch {batch_id} is written already by task {part.partition_id} and "
                    "not by task 0, which is always the first: the group that keeps what task 0 "
                    "has written was deleted or changed"
                )
        return CommitDecision(is_new=True, rest=tuple(range(1, len(parts))))
    if zero.task_count != len(parts):
        return CommitDecision(foreign_count=zero.task_count)
    for part in by_id.values():
        if part.outcome is TaskOutcome.OTHER:
            raise WriteRefused(_differs(batch_id, part))
    missing = [part.partition_id for part in parts if part.outcome is TaskOutcome.OPEN]
    return CommitDecision(rest=tuple(sorted(missing)))


def judge_foreign(
    batch_id: int, parts: Sequence[Part], entries: Mapping[int, Entry | None]
) -> None:
    """Check that another number of tasks has written everything, so that nothing is left to do.

    ``entries`` are those of all of these tasks. Raises WriteRefused if they have not, or if they
    wrote another number of rows."""
    found = [entry for entry in entries.values() if entry is not None]
    written = [entry.row_count for entry in found if entry.batch_id == batch_id]
    if len(written) < len(entries):
        raise WriteRefused(
            f"micro-batch {batch_id} was partly written by {len(entries)} tasks and is now written "
            f"by {len(parts)}, which divide its rows in another way; go back to {len(entries)} "
            "tasks (spark.sql.shuffle.partitions, minPartitions, repartition) for this one"
        )
    row_count = sum(part.row_count for part in parts)
    if sum(written) != row_count:
        raise WriteRefused(
            f"micro-batch {batch_id} was written with {sum(written)} rows and has {row_count} now: "
            "the query is nondeterministic, so that it cannot be written exactly once"
        )


def _differs(batch_id: int, part: Part) -> str:
    before = part.before
    assert before is not None
    return (
        f"micro-batch {batch_id} is written already, and the rows of its task {part.partition_id} "
        f"were others then ({before.row_count} with checksum {before.checksum}, now "
        f"{part.row_count} with {part.checksum}): the query is nondeterministic (the order of a "
        "shuffle, random(), current_timestamp(), a source that has changed), so that it cannot be "
        "written exactly once"
    )
