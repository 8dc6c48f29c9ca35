"""Any order of commits, transactions, deletions, expiry, outcomes and moves of the coordinator.

The rule that everything is held against is short: of a partition's records that are in force, the
one that stands last in the log is what is committed.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ottla.coordinator.group.common.records import decode_key, decode_offset
from ottla.coordinator.group.common.settings import GroupSettings
from ottla.protocol.errors import ErrorCode
from tests.coordinator.group.offsets.scene import DAY_MS, WALL_MS, Scene, moment

PARTITIONS = range(3)
PRODUCERS = range(2)
RETENTION_MS = DAY_MS
UNSTABLE = -ErrorCode.UNSTABLE_OFFSET_COMMIT


@dataclass
class Entry:
    """One record of the log; without an offset it is a deletion."""

    partition: int
    offset: int | None
    producer_id: int
    token: int
    ticket: int | None
    is_committed: bool = False
    # What the marker of its transaction said.
    outcome: bool | None = None

    @property
    def is_transactional(self) -> bool:
        return self.producer_id >= 0

    @property
    def is_in_force(self) -> bool:
        return self.is_committed and (not self.is_transactional or self.outcome is True)

    @property
    def is_open(self) -> bool:
        return not self.is_committed or (self.is_transactional and self.outcome is None)


class Commits(RuleBasedStateMachine):
    """The scene, and beside it every record that is in its log."""

    def __init__(self) -> None:
        super().__init__()
        self.scene = Scene(GroupSettings(offsets_retention_ms=RETENTION_MS))
        self.entries: list[Entry] = []
        self.noted: set[int] = set()
        self.next_offset = 0

    def note(self, ticket: int | None) -> None:
        """Take down what has been appended since."""
        for append in self.scene.pending:
            if append.token in self.noted:
                continue
            self.noted.add(append.token)
            for record in append.records:
                key = decode_key(record.key)
                assert key is not None
                committed = None if record.value is None else decode_offset(record.value)
                offset = committed.offset if committed else None
                writer = append.writer.producer_id
                self.entries.append(Entry(key.partition, offset, writer, append.token, ticket))

    def fresh_offsets(self, count: int) -> list[int]:
        """Each is used once, so that an offset tells its record."""
        self.next_offset += count
        return list(range(self.next_offset - count, self.next_offset))

    @rule(count=st.integers(1, len(PARTITIONS)))
    def commit(self, count: int) -> None:
        self.note(self.scene.commit(*self.fresh_offsets(count)))

    @rule(producer_id=st.sampled_from(PRODUCERS), count=st.integers(1, len(PARTITIONS)))
    def commit_in_transaction(self, producer_id: int, count: int) -> None:
        offsets = self.fresh_offsets(count)
        self.note(self.scene.commit_in_transaction(producer_id, *offsets))

    @rule(partition=st.sampled_from(PARTITIONS))
    def delete(self, partition: int) -> None:
        self.note(self.scene.delete("t", partition))

    @rule()
    def expire(self) -> None:
        is_open = {
            partition
            for partition in PARTITIONS
            if any(entry.is_open for entry in self.survivors(partition))
        }
        count = len(self.entries)
        self.scene.expiry.start()
        assert not self.scene.expiry.run(moment(WALL_MS + RETENTION_MS))
        self.scene.perform()
        self.note(None)

        gone = {entry.partition for entry in self.entries[count:]}
        assert not gone & is_open, "a commit on its way would be overtaken"

    @precondition(lambda self: self.scene.pending)
    @rule(drawn=st.data())
    def report_committed(self, drawn: st.DataObject) -> None:
        append = self.draw_pending(drawn)
        self.scene.pending.remove(append)
        for entry in self.entries:
            entry.is_committed |= entry.token == append.token
        self.scene.scope.outbox.committed(append.token)
        self.scene.perform()

    @precondition(lambda self: self.scene.pending)
    @rule(drawn=st.data())
    def report_failed(self, drawn: st.DataObject) -> None:
        append = self.draw_pending(drawn)
        self.entries = [entry for entry in self.entries if entry.token != append.token]
        self.scene.fail(ErrorCode.NOT_ENOUGH_REPLICAS, self.scene.pending.index(append))

    @precondition(lambda self: self.scene.pending)
    @rule(drawn=st.data())
    def report_overdue(self, drawn: st.DataObject) -> None:
        append = self.draw_pending(drawn)
        self.scene.overdue(self.scene.pending.index(append))

    def draw_pending(self, drawn: st.DataObject):  # type: ignore[no-untyped-def]
        return drawn.draw(st.sampled_from(self.scene.pending))

    @rule(producer_id=st.sampled_from(PRODUCERS), is_commit=st.booleans(), is_settled=st.booleans())
    def mark(self, producer_id: int, is_commit: bool, is_settled: bool) -> None:
        """The marker may be reported before the records it ends, never before it is known that
        they are in the log."""
        if is_settled:
            self.settle()
        elif any(entry.producer_id == producer_id for entry in self.entries if entry.is_open):
            self.settle_transaction_later(producer_id)
        for entry in self.entries:
            if entry.producer_id == producer_id and entry.outcome is None:
                entry.outcome = is_commit
        self.scene.mark_only(producer_id, is_commit)

    def settle_transaction_later(self, producer_id: int) -> None:
        """Failures of what the marker ends are out of the question from now on: let the
        other outcomes come in any order, these come as committed, behind the marker."""
        tokens = {entry.token for entry in self.entries if entry.producer_id == producer_id}
        late = [append for append in self.scene.pending if append.token in tokens]
        self.scene.late = [*self.scene.late, *late]
        self.scene.pending = [append for append in self.scene.pending if append.token not in tokens]

    @rule()
    def report_late(self) -> None:
        for append in self.scene.late:
            for entry in self.entries:
                entry.is_committed |= entry.token == append.token
            self.scene.scope.outbox.committed(append.token)
        self.scene.late = []
        self.scene.perform()

    @rule()
    def move(self) -> None:
        """Another coordinator takes over; what is in the log is committed by then."""
        self.settle()
        answers = self.scene.answers
        self.scene = self.scene.reloaded()
        self.noted = set()
        for entry in self.entries:
            entry.token = -1
        self.scene.ticket = max(answers, default=0)
        self.scene.answers = answers

    def survivors(self, partition: int) -> list[Entry]:
        """The records of a partition that no deletion has made meaningless."""
        entries = [entry for entry in self.entries if entry.partition == partition]
        deletions = [
            place
            for place, entry in enumerate(entries)
            if entry.offset is None and entry.is_committed
        ]
        return [
            entry
            for place, entry in enumerate(entries)
            if not entry.is_committed or place >= max(deletions, default=0)
        ]

    def settle(self) -> None:
        self.report_late()
        for entry in self.entries:
            entry.is_committed = True
        self.scene.settle()

    @invariant()
    def the_last_record_in_force_is_what_is_committed(self) -> None:
        expected = {}
        for entry in self.entries:
            if entry.is_in_force:
                expected["t", entry.partition] = entry.offset
        expected = {place: offset for place, offset in expected.items() if offset is not None}
        assert self.scene.committed() == expected

    @invariant()
    def an_acknowledged_commit_is_never_lost_nor_goes_backwards(self) -> None:
        committed = self.scene.committed()
        place_of = {entry.offset: place for place, entry in enumerate(self.entries)}
        for place, entry in enumerate(self.entries):
            is_acknowledged = entry.ticket is not None and not any(
                self.scene.errors(entry.ticket) or [1]
            )
            if entry.is_transactional or entry.offset is None or not is_acknowledged:
                continue
            offset = committed.get(("t", entry.partition))
            deleted = any(
                later.offset is None and later.is_committed and later.partition == entry.partition
                for later in self.entries[place:]
            )
            assert deleted or (offset is not None and place_of[offset] >= place)

    @invariant()
    def a_partition_is_unstable_while_a_transaction_may_change_it(self) -> None:
        for partition in PARTITIONS:
            survivors = self.survivors(partition)
            is_unstable = any(entry.is_transactional and entry.is_open for entry in survivors)
            assert (self.scene.offset(partition, is_stable=True) == UNSTABLE) == is_unstable

    @invariant()
    def no_caller_is_answered_before_the_outcome(self) -> None:
        waiting = {entry.ticket for entry in self.entries if not entry.is_committed}
        for ticket in waiting - {None}:
            answer = self.scene.answers.get(ticket)  # type: ignore[arg-type]
            assert answer is None or ErrorCode.COORDINATOR_NOT_AVAILABLE in (
                self.scene.errors(ticket) or [answer.error_code]  # type: ignore[arg-type]
            )

    def teardown(self) -> None:
        """What the log says and what memory says are the same."""
        self.settle()
        other = self.scene.reloaded()
        assert other.committed() == self.scene.committed()
        assert other.table.ledger.unstable("g") == self.scene.table.ledger.unstable("g")
        for producer_id in PRODUCERS:
            self.scene.mark_only(producer_id, True)
        self.scene.delete_topics("t")
        self.scene.settle()
        assert self.scene.table.group_ids() == set()


TestCommits = Commits.TestCase
TestCommits.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, report_multiple_bugs=False
)
