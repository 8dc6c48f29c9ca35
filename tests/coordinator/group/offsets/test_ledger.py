"""Offsets committed in transactions: pending, in force, dropped; and what came between."""

from __future__ import annotations

import pytest

from ottla.coordinator.effects import Writer
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.coordinator.group.offsets.scene import GROUP, PlainGroup, Scene

UNSTABLE = -ErrorCode.UNSTABLE_OFFSET_COMMIT


@pytest.mark.requirement("GRP-16")
def test_a_transactional_commit_waits_for_its_marker() -> None:
    """Shown earlier, an aborted transaction's input would never be read again."""
    scene = Scene()
    scene.commit(1)
    ticket = scene.commit_in_transaction(7, 42)
    scene.settle()

    assert scene.errors(ticket) == [0]
    assert (scene.offset(), scene.offset(is_stable=True)) == (1, UNSTABLE)
    scene.mark(7, is_commit=True)
    assert (scene.offset(), scene.offset(is_stable=True)) == (42, 42)


@pytest.mark.requirement("GRP-16")
def test_an_aborted_commit_is_dropped() -> None:
    """The next consumer starts where the last committed transaction ended."""
    scene = Scene()
    scene.commit(1)
    scene.commit_in_transaction(7, 42)
    scene.mark(7, is_commit=False)

    assert (scene.offset(), scene.offset(is_stable=True)) == (1, 1)
    assert scene.reloaded().committed() == {("t", 0): 1}


def test_a_commit_is_unstable_from_the_moment_it_is_appended() -> None:
    """T-22: between append and commitment a reader would start from the old offset."""
    scene = Scene()
    scene.commit_in_transaction(7, 42)

    assert scene.offset(is_stable=True) == UNSTABLE
    scene.fail(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert scene.offset(is_stable=True) == -1


def test_a_first_commit_in_a_transaction_is_not_overlooked() -> None:
    """Asked for everything, an answer without the partition would mean "nothing committed"."""
    scene = Scene()
    scene.commit_in_transaction(7, 42)
    asked = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(GROUP, topics=None)], require_stable=True
    )

    (topic,) = scene.fetch(asked).groups[0].topics

    assert topic.partitions[0].error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT


def test_a_plain_commit_after_a_transactional_one_stays() -> None:
    """T-23: the marker decides whether, the place of the commit in the log decides which."""
    scene = Scene()
    scene.commit_in_transaction(7, 42)
    scene.commit(50)
    scene.mark(7, is_commit=True)

    assert scene.committed() == scene.reloaded().committed() == {("t", 0): 50}


def test_of_two_transactions_the_later_commit_stays() -> None:
    """T-23: markers come in any order."""
    scene = Scene()
    scene.commit_in_transaction(7, 10)
    scene.commit_in_transaction(8, 20)
    scene.mark(8, is_commit=True)
    assert scene.offset(is_stable=True) == UNSTABLE
    scene.mark(7, is_commit=True)

    assert scene.committed() == scene.reloaded().committed() == {("t", 0): 20}


def test_an_aborted_commit_does_not_hide_an_earlier_pending_one() -> None:
    """Only a committed offset replaces earlier ones."""
    scene = Scene()
    scene.commit_in_transaction(7, 10)
    scene.commit_in_transaction(8, 20)
    scene.mark(8, is_commit=False)
    scene.mark(7, is_commit=True)

    assert scene.committed() == scene.reloaded().committed() == {("t", 0): 10}


def test_of_one_transaction_the_last_commit_counts() -> None:
    """Kafka Streams may commit a partition more than once before it ends the transaction."""
    scene = Scene()
    for offset in (1, 2, 3):
        scene.commit_in_transaction(7, offset)
        scene.settle()
    scene.mark(7, is_commit=True)

    assert scene.committed() == scene.reloaded().committed() == {("t", 0): 3}


def test_a_marker_may_be_reported_before_the_commit_it_ends() -> None:
    """Both are covered by the same step of the high watermark."""
    scene = Scene()
    scene.commit_in_transaction(7, 42)

    scene.table.replay_marker(7, 0, is_commit=True)
    assert scene.offset() == -1
    scene.settle()

    assert (scene.offset(), scene.offset(is_stable=True)) == (42, 42)


def test_a_fencing_marker_of_a_later_epoch_ends_the_transaction() -> None:
    """KIP-890: the coordinator aborts with the epoch that the next producer gets."""
    scene = Scene()
    scene.commit_in_transaction(7, 42, producer_epoch=3)
    scene.mark(7, is_commit=False, producer_epoch=4)

    assert scene.offset(is_stable=True) == -1


def test_an_old_marker_does_not_end_a_newer_transaction() -> None:
    """A marker that was delivered twice would commit half of the next transaction."""
    scene = Scene()
    scene.commit_in_transaction(7, 42, producer_epoch=5)
    scene.mark(7, is_commit=True, producer_epoch=4)

    assert (scene.offset(), scene.offset(is_stable=True)) == (-1, UNSTABLE)


def test_a_marker_without_commits_means_nothing_here() -> None:
    """Transactions that only wrote data have their marker elsewhere, repeated ones come twice."""
    scene = Scene()
    scene.mark(7, is_commit=True)

    assert scene.table.group_ids() == set()


@pytest.mark.requirement("GRP-16")
def test_a_pending_commit_survives_a_new_coordinator() -> None:
    """T-23: one that forgets it answers "stable" too early, and drops it at the marker."""
    scene = Scene()
    scene.commit(1)
    scene.commit_in_transaction(7, 42)
    scene.settle()

    other = scene.reloaded()

    assert (other.offset(), other.offset(is_stable=True)) == (1, UNSTABLE)
    other.mark(7, is_commit=True)
    assert other.offset(is_stable=True) == 42


def test_a_deletion_takes_pending_commits_along() -> None:
    """The group is gone; a marker must not bring back a part of it."""
    scene = Scene()
    scene.commit_in_transaction(7, 42)
    scene.settle()
    scene.delete("t", 0)
    scene.settle()

    assert scene.offset(is_stable=True) == -1
    scene.mark(7, is_commit=True)
    assert scene.committed() == scene.reloaded().committed() == {}
    assert scene.table.group_ids() == set()


@pytest.mark.parametrize("is_marked_first", [True, False])
def test_a_deletion_reported_first_takes_the_commit_before_it_along(is_marked_first: bool) -> None:
    """Memory must not wait for a marker of which a new coordinator knows nothing."""
    scene = Scene()
    scene.commit_in_transaction(7, 42)
    scene.delete("t", 0)
    scene.scope.outbox.committed(scene.pending.pop().token)
    if is_marked_first:
        scene.mark_only(7, is_commit=True)
    scene.settle()

    assert scene.offset(is_stable=True) == -1
    assert scene.table.group_ids() == scene.reloaded().table.group_ids() == set()


def test_a_failed_deletion_leaves_the_pending_commit() -> None:
    """Nothing was written, so nothing has changed."""
    scene = Scene()
    scene.commit_in_transaction(7, 42)
    scene.settle()
    scene.delete("t", 0)
    scene.fail(ErrorCode.NOT_ENOUGH_REPLICAS)
    scene.mark(7, is_commit=True)

    assert scene.offset() == 42


@pytest.mark.parametrize(
    ("producer_id", "producer_epoch", "error"),
    [
        (-1, 0, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (7, -1, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_a_transactional_commit_needs_a_producer(
    producer_id: int, producer_epoch: int, error: ErrorCode
) -> None:
    """T-26: without one its records would be plain commits, in force at once."""
    scene = Scene()

    ticket = scene.commit_in_transaction(producer_id, 42, producer_epoch=producer_epoch)

    assert (scene.errors(ticket), scene.log) == ([error], [])


@pytest.mark.parametrize(
    ("inside", "outside"),
    [
        (ErrorCode.NONE, 0),
        (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID),
        (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.FENCED_INSTANCE_ID),
        (ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.ILLEGAL_GENERATION),
    ],
)
def test_a_zombie_of_the_group_cannot_commit_in_its_transaction(
    inside: ErrorCode, outside: ErrorCode
) -> None:
    """KIP-447: its producer is not fenced, but its partitions belong to another member."""
    scene = Scene()
    group = PlainGroup(commit_error=inside)
    scene.groups[GROUP] = group

    ticket = scene.commit_in_transaction(
        7, 42, member_id="m", group_instance_id="i", generation_id_or_member_epoch=3
    )
    scene.settle()

    assert (scene.errors(ticket), group.asked) == ([outside], [("m", "i", 3, True)])


@pytest.mark.parametrize(("generation", "error"), [(-1, 0), (0, ErrorCode.ILLEGAL_GENERATION)])
def test_without_a_group_only_a_standalone_producer_commits(generation: int, error: int) -> None:
    """Versions below 3 tell nothing about membership, and must go on to work."""
    scene = Scene()

    ticket = scene.commit_in_transaction(7, 42, generation_id_or_member_epoch=generation)
    scene.settle()

    assert scene.errors(ticket) == [error]


def test_a_member_of_a_group_of_which_only_offsets_are_known_cannot_commit_in_a_transaction() -> (
    None
):
    """As outside of a transaction: such a group is empty, so it has no members."""
    scene = Scene()
    scene.commit(1)
    scene.settle()

    ticket = scene.commit_in_transaction(7, 42, member_id="m", generation_id_or_member_epoch=3)

    assert scene.errors(ticket) == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_the_batch_names_the_producer() -> None:
    """The records are part of the transaction only if their batch says so."""
    scene = Scene()

    scene.commit_in_transaction(7, 42, producer_epoch=3)

    assert [append.writer for append in scene.pending] == [Writer(7, 3)]


def test_nothing_is_left_of_what_has_ended() -> None:
    """What stays behind per transaction or commit fills the memory in a week."""
    scene = Scene()
    scene.commit(1)
    scene.commit_in_transaction(7, 2)
    scene.commit_in_transaction(8, 3)
    scene.mark(7, is_commit=True)
    scene.mark(8, is_commit=False)
    scene.delete("t", 0)
    scene.settle()

    ledger = scene.table.ledger
    assert not ledger.open_groups
    assert not vars(ledger)["_transactions"]
    assert not vars(ledger)["_committed"]
