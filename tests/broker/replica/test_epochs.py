"""Leader epochs: where each began, where it ended, and where two logs part."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ottla.broker.replica.epochs import UNDEFINED_END, EpochEnd, LeaderEpochs, Truncation

LOG_END = 100


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, UNDEFINED_END),
        (0, EpochEnd(0, 10)),
        (1, EpochEnd(1, 10)),
        (2, EpochEnd(2, 40)),
        (3, EpochEnd(2, 40)),
        (4, EpochEnd(2, 40)),
        (5, EpochEnd(5, 60)),
        (6, EpochEnd(6, LOG_END)),
        (7, UNDEFINED_END),
    ],
)
def test_the_end_of_an_epoch_is_the_start_of_the_next_known_one(
    asked: int, answer: EpochEnd
) -> None:
    """KIP-279: an epoch that is not known here answers with the largest below it (R-03)."""
    epochs = LeaderEpochs([(2, 10), (5, 40), (6, 60)])

    assert epochs.end_offset_for(asked, LOG_END) == answer


def test_an_empty_log_knows_no_epoch() -> None:
    """Nothing must be cut on the word of a leader that cannot judge."""
    epochs = LeaderEpochs()

    assert epochs.latest_epoch == -1
    assert epochs.end_offset_for(0, 0) == UNDEFINED_END
    assert epochs.epoch_at(0) == -1


@pytest.mark.parametrize(
    ("before", "new", "after"),
    [
        ([], (0, 0), [(0, 0)]),
        ([(1, 0)], (1, 5), [(1, 0)]),
        ([(1, 0)], (2, 5), [(1, 0), (2, 5)]),
        ([(1, 0)], (2, 0), [(2, 0)]),
        ([(1, 0), (2, 5)], (3, 5), [(1, 0), (3, 5)]),
        ([(1, 0), (2, 5), (4, 9)], (3, 7), [(1, 0), (2, 5), (3, 7)]),
        ([(1, 0), (4, 5)], (3, 7), [(1, 0), (3, 7)]),
        ([(1, 0), (4, 5)], (4, 3), [(1, 0), (4, 3)]),
        ([(1, 0), (4, 5)], (1, 9), [(1, 0)]),
    ],
)
def test_an_assignment_removes_what_contradicts_it(
    before: list[tuple[int, int]], new: tuple[int, int], after: list[tuple[int, int]]
) -> None:
    """A leadership that wrote nothing is replaced by the next one at the same offset (R-04)."""
    epochs = LeaderEpochs(before)
    changed = epochs.assign(*new)

    assert epochs.entries == after
    assert changed == (before != after)


def test_reading_the_log_again_keeps_a_leadership_without_writes() -> None:
    """It is in the file and in no batch; without it leftovers of epoch 5 would survive (R-04)."""
    epochs = LeaderEpochs([(5, 0), (6, 10)])
    changed = [epochs.observe(5, 0), epochs.observe(5, 4), epochs.observe(-1, 6)]

    assert changed == [False, False, False]
    assert epochs.entries == [(5, 0), (6, 10)]


@pytest.mark.parametrize(
    ("saved", "batches", "after"),
    [
        # The file was not saved before the crash.
        ([(5, 0)], [(5, 0), (6, 10)], [(5, 0), (6, 10)]),
        # It names an epoch at a place where other records stand by now.
        ([(5, 0), (6, 10)], [(5, 0), (5, 10), (7, 12)], [(5, 0), (7, 12)]),
        ([(5, 0), (6, 10)], [(5, 0), (6, 8)], [(5, 0), (6, 8)]),
        ([(5, 0), (7, 10)], [(5, 0), (6, 10), (7, 12)], [(5, 0), (6, 10), (7, 12)]),
        # A batch reaches over the log start.
        ([(2, 15), (3, 20)], [(2, 12), (3, 20)], [(2, 15), (3, 20)]),
    ],
)
def test_the_log_is_right_where_the_file_is_older(
    saved: list[tuple[int, int]], batches: list[tuple[int, int]], after: list[tuple[int, int]]
) -> None:
    """Recovery must end with the list that the batches tell (S-28)."""
    epochs = LeaderEpochs(saved)
    for leader_epoch, base_offset in batches:
        epochs.observe(leader_epoch, base_offset)

    assert epochs.entries == after


def test_epoch_zero_is_an_epoch() -> None:
    """A test for truth instead of for -1 once skipped it on recovery (S-28)."""
    epochs = LeaderEpochs()

    assert epochs.observe(0, 0)
    assert epochs.entries == [(0, 0)]
    assert epochs.end_offset_for(0, 3) == EpochEnd(0, 3)


def test_a_truncation_to_the_start_of_an_epoch_removes_the_epoch() -> None:
    """Otherwise it would contradict the next leader's records, and truncation would never end
    (S-28)."""
    epochs = LeaderEpochs([(1, 0), (2, 10)])

    assert epochs.truncate_from_end(10)
    assert epochs.entries == [(1, 0)]
    assert not epochs.truncate_from_end(10)


def test_the_epoch_of_the_log_start_begins_there() -> None:
    """Deleted segments take their epochs along, but not the one that still has records."""
    epochs = LeaderEpochs([(1, 0), (2, 10), (3, 20)])

    assert epochs.truncate_from_start(15)
    assert epochs.entries == [(2, 15), (3, 20)]
    assert not epochs.truncate_from_start(15)
    assert not epochs.truncate_from_start(5)


@pytest.mark.parametrize(
    ("last_epoch", "offset", "divergence"),
    [
        (-1, 70, None),
        (6, 70, None),
        (6, 100, None),
        (5, 60, None),
        (5, 61, EpochEnd(5, 60)),
        (4, 20, EpochEnd(2, 40)),
        (7, 70, UNDEFINED_END),
        (2, 35, None),
    ],
)
def test_a_fetch_diverges_where_its_last_record_is_not_ours(
    last_epoch: int, offset: int, divergence: EpochEnd | None
) -> None:
    """A fetch that does not fit must not count as an acknowledgement (R-09, KIP-595)."""
    epochs = LeaderEpochs([(2, 10), (5, 40), (6, 60)])

    assert epochs.divergence(last_epoch, offset, LOG_END) == divergence


@pytest.mark.parametrize(
    ("own", "own_end", "leader_says", "cut"),
    [
        # The same epoch on both sides: the shorter one wins.
        ([(1, 0)], 20, EpochEnd(1, 15), Truncation(15, True)),
        ([(1, 0)], 20, EpochEnd(1, 25), Truncation(20, True)),
        ([(1, 0), (2, 10)], 20, EpochEnd(1, 15), Truncation(10, True)),
        # The leader answers with an epoch that this log has never seen: cut, and ask again.
        ([(1, 0), (4, 10)], 20, EpochEnd(3, 18), Truncation(10, False)),
        # Nothing known here at all: the leader's word is enough.
        ([], 20, EpochEnd(3, 18), Truncation(18, True)),
    ],
)
def test_a_follower_cuts_to_the_last_point_of_agreement(
    own: list[tuple[int, int]], own_end: int, leader_says: EpochEnd, cut: Truncation
) -> None:
    """KIP-279's cases: cutting too little leaves two histories, too much loses records."""
    assert LeaderEpochs(own).truncation_for(leader_says, own_end) == cut


Log = list[int]
"""A log as the model sees it: the leader epoch of each record."""


def epochs_of(log: Log) -> LeaderEpochs:
    epochs = LeaderEpochs()
    for offset, epoch in enumerate(log):
        epochs.observe(epoch, offset)
    return epochs


def common_prefix(first: Log, second: Log) -> int:
    shared = 0
    while shared < min(len(first), len(second)) and first[shared] == second[shared]:
        shared += 1
    return shared


@given(
    st.lists(st.integers(0, 3), max_size=8).map(sorted),
    st.lists(st.integers(0, 9), max_size=8).map(sorted),
    st.lists(st.integers(0, 9), max_size=8).map(sorted),
)
@settings(max_examples=300)
def test_asking_until_both_agree_ends_at_a_common_history(
    shared: Log, leader_tail: Log, follower_tail: Log
) -> None:
    """However many elections lie between: a few rounds, then no divergent record is left (R-03).

    An epoch has one leader, so a record of the same epoch at the same offset is the same record;
    only then do epochs tell where histories part."""
    # After the shared part each epoch belongs to one of the two.
    leader = shared + [epoch * 2 + 10 for epoch in leader_tail]
    follower = shared + [epoch * 2 + 11 for epoch in follower_tail]
    leader_epochs = epochs_of(leader)
    # A leader has written down its own epoch before it answers a follower.
    leader_epochs.assign(100, len(leader))
    is_final = not follower
    for _ in range(20):
        if is_final or not follower:
            break
        own = epochs_of(follower)
        end = leader_epochs.end_offset_for(own.latest_epoch, len(leader))
        cut = own.truncation_for(end, len(follower))
        assert cut.offset >= len(shared) or cut.offset >= common_prefix(leader, follower)
        follower = follower[: cut.offset]
        is_final = cut.is_final

    assert follower == leader[: len(follower)]
    assert len(follower) >= len(shared)


class EpochModel(RuleBasedStateMachine):
    """Against a log that remembers the epoch of every record."""

    def __init__(self) -> None:
        super().__init__()
        self.epochs = LeaderEpochs()
        self.log: Log = []
        self.start = 0
        self.epoch = 0
        self.silent: int | None = None

    @rule(step=st.integers(1, 3))
    def elect(self, step: int) -> None:
        self.epoch += step
        self.epochs.assign(self.epoch, len(self.log))
        self.silent = self.epoch

    @rule(count=st.integers(1, 5))
    def append(self, count: int) -> None:
        self.epochs.observe(self.epoch, len(self.log))
        self.log += [self.epoch] * count
        self.silent = None

    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        end = self.start + int((len(self.log) - self.start) * share)
        self.log = self.log[:end]
        self.epochs.truncate_from_end(end)
        self.silent = None
        self.epoch += 1

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        self.start += int((len(self.log) - self.start) * share)
        self.epochs.truncate_from_start(self.start)

    @rule()
    def save_and_load(self) -> None:
        self.epochs = LeaderEpochs(self.epochs.entries)

    @invariant()
    def entries_increase_strictly(self) -> None:
        entries = self.epochs.entries
        for earlier, later in pairwise(entries):
            assert earlier.leader_epoch < later.leader_epoch
            assert earlier.start_offset < later.start_offset

    @invariant()
    def every_record_has_its_epoch(self) -> None:
        for offset in range(self.start, len(self.log)):
            assert self.epochs.epoch_at(offset) == self.log[offset]

    @invariant()
    def every_end_is_right(self) -> None:
        kept = self.log[self.start :]
        for epoch in range(self.epoch + 1):
            end = self.epochs.end_offset_for(epoch, len(self.log))
            if kept and epoch >= kept[0] and not end.is_undefined:
                expected = self.start + sum(one <= epoch for one in kept)
                assert end.end_offset == expected


TestEpochModel = EpochModel.TestCase
TestEpochModel.settings = settings(max_examples=80, stateful_step_count=25, deadline=None)
