"""The in-sync set while a change of it is on its way."""

from __future__ import annotations

import pytest

from ottla.broker.replica.isr import ChangeOutcome, InSyncSet, IsrChange, eligible_after


def proposed(isr: tuple[int, ...], target: tuple[int, ...]) -> tuple[InSyncSet, IsrChange]:
    in_sync = InSyncSet(isr, partition_epoch=5)
    added = [(node, 77) for node in target if node not in isr]
    return in_sync, in_sync.propose(target, added, leader_epoch=3, min_insync=2)


def test_a_pending_member_is_waited_for_and_not_counted() -> None:
    """The store may name it already, so the watermark must; acks must not yet (R-12)."""
    in_sync, change = proposed((1, 2), (1, 2, 3))

    assert in_sync.maximal == (1, 2, 3)
    assert in_sync.certain == (1, 2)
    assert (change.added, change.partition_epoch, change.leader_epoch) == (((3, 77),), 5, 3)


def test_a_leaving_member_is_waited_for_until_it_is_confirmed() -> None:
    """If the store refuses, it could still be elected; so it must have everything."""
    in_sync, change = proposed((1, 2, 3), (1, 2))
    while_pending = (in_sync.maximal, in_sync.certain)
    in_sync.on_answer(change, ChangeOutcome.APPLIED, 6)

    assert while_pending == ((1, 2, 3), (1, 2))
    assert (in_sync.maximal, in_sync.certain, in_sync.partition_epoch) == ((1, 2), (1, 2), 6)


def test_a_lost_answer_leaves_the_change_pending() -> None:
    """Taking it for failed, or for done, has stuck partitions for hours (R-13)."""
    in_sync, change = proposed((1, 2), (1, 2, 3))
    changed = in_sync.on_answer(change, ChangeOutcome.UNKNOWN)

    assert not changed
    assert in_sync.pending is change
    assert in_sync.maximal == (1, 2, 3)


def test_a_refusal_goes_back_to_what_is_stored() -> None:
    """Only an answer that proves that nothing was applied may do so."""
    in_sync, change = proposed((1, 2), (1, 2, 3))
    in_sync.on_answer(change, ChangeOutcome.REFUSED)

    assert (in_sync.maximal, in_sync.partition_epoch, in_sync.pending) == ((1, 2), 5, None)


def test_the_answer_to_an_older_proposal_is_dropped() -> None:
    """It was proposed under another state."""
    in_sync, first = proposed((1, 2), (1, 2, 3))
    in_sync.on_answer(first, ChangeOutcome.REFUSED)
    second = in_sync.propose((1, 2, 3), [(3, 78)], 3, 2)
    changed = in_sync.on_answer(first, ChangeOutcome.APPLIED, 6)

    assert not changed
    assert in_sync.pending is second


def test_an_update_from_the_controller_does_not_clear_the_pending_isr_change() -> None:
    """The change may be applied after the update, and the leader would not know its own ISR
    (R-14)."""
    in_sync, change = proposed((1, 2), (1, 2, 3))
    accepted = in_sync.on_stored((1, 2, 4), 6)

    assert accepted
    assert in_sync.pending is change
    assert in_sync.maximal == (1, 2, 4, 3)
    assert in_sync.certain == (1, 2)


def test_a_push_that_is_not_later_is_ignored() -> None:
    """Pushes are delayed and repeated."""
    in_sync = InSyncSet((1, 2), 5)

    assert not in_sync.on_stored((1,), 5)
    assert not in_sync.on_stored((1,), 4)
    assert in_sync.committed == (1, 2)


def test_the_answer_after_the_push_of_the_same_change_ends_it() -> None:
    """The controller announces the new version before the leader hears that it was stored."""
    in_sync, change = proposed((1, 2), (1, 2, 3))
    in_sync.on_stored((1, 2, 3), 6)
    in_sync.on_answer(change, ChangeOutcome.APPLIED, 6)

    assert (in_sync.committed, in_sync.partition_epoch, in_sync.pending) == ((1, 2, 3), 6, None)


def test_an_answer_does_not_undo_a_later_push() -> None:
    """The push has seen more than the answer."""
    in_sync, change = proposed((1, 2), (1, 2, 3))
    in_sync.on_stored((1, 3), 7)
    in_sync.on_answer(change, ChangeOutcome.APPLIED, 6)

    assert (in_sync.committed, in_sync.partition_epoch) == ((1, 3), 7)


@pytest.mark.parametrize(
    ("isr", "eligible", "new_isr", "expected"),
    [
        ((0, 1, 2), (), (0, 1), ()),
        ((0, 1), (), (0,), (1,)),
        ((0,), (1,), (0,), (1,)),
        ((0, 1, 2), (), (0,), (1, 2)),
        ((0,), (1, 2), (0, 2), ()),
    ],
)
def test_those_who_leave_below_min_insync_stay_eligible(
    isr: tuple[int, ...],
    eligible: tuple[int, ...],
    new_isr: tuple[int, ...],
    expected: tuple[int, ...],
) -> None:
    """The last one standing may be the only one that loses its disk (R-21, KIP-966)."""
    assert eligible_after(isr, eligible, new_isr, 2) == expected


def test_who_is_eligible_for_nothing_any_more_is_a_difference() -> None:
    """Otherwise the store would still list an eligible leader that commits do not wait for
    (R-21)."""
    alone = InSyncSet((1,), 5, (2,))

    assert not alone.differs((1,), min_insync=2)
    assert alone.differs((1,), min_insync=1)
    assert alone.propose((1,), (), leader_epoch=3, min_insync=1).eligible_leaders == ()
