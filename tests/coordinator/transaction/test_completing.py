"""From the verdict to the end, over every obstacle."""

from __future__ import annotations

import pytest

from ottla.coordinator.transaction.completing import RETRY_PAUSE_MS
from ottla.coordinator.transaction.states import TransactionState
from ottla.protocol.errors import ErrorCode
from tests.coordinator.transaction.scene import A0, A1, B0, CLASSIC, VERSION_2, Scene, begun
from tests.coordinator.transaction.tables import STATES

PREPARED = {True: TransactionState.PREPARE_COMMIT, False: TransactionState.PREPARE_ABORT}
COMPLETE = {True: TransactionState.COMPLETE_COMMIT, False: TransactionState.COMPLETE_ABORT}


def decided(is_commit: bool = True, api_version: int = VERSION_2) -> Scene:
    """A scene whose verdict is committed, and whose markers are asked for."""
    scene, producer = begun(A0, B0)
    scene.end(producer, is_commit=is_commit, api_version=api_version)
    scene.commit()
    return scene


@pytest.mark.requirement("TXN-51", "TXN-55", "TXN-56", "TXN-60")
@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("api_version", [CLASSIC, VERSION_2])
def test_the_next_coordinator_repeats_all_markers(is_commit: bool, api_version: int) -> None:
    """It is unknown which partitions have theirs; a second one does no harm (hazard T-16)."""
    scene = decided(is_commit, api_version)
    other = scene.reloaded()
    (first,), (second,) = scene.markers, other.markers
    other.settle()

    assert second._replace(token=first.token) == first
    assert other.state is COMPLETE[is_commit]


@pytest.mark.requirement("TXN-25", "TXN-51")
def test_the_next_coordinator_writes_the_completion_that_a_dead_one_did_not() -> None:
    """All partitions have their markers, and get them again."""
    scene = decided()
    scene.mark()
    other = scene.reloaded()
    other.settle()

    assert [markers.partitions for markers in other.all_markers] == [(A0, B0)]
    assert other.state is TransactionState.COMPLETE_COMMIT


def test_the_next_coordinator_sends_no_markers_for_a_completed_transaction() -> None:
    """All partitions have their markers, and the log says so."""
    scene = decided()
    scene.settle()
    other = scene.reloaded()

    assert (other.markers, other.appends) == ([], [])


def test_an_end_that_is_not_written_is_written_later_without_new_markers() -> None:
    """Until then its producer is stopped (hazard T-14)."""
    scene = decided()
    scene.mark()
    for _ in range(3):
        scene.fail(ErrorCode.NOT_ENOUGH_REPLICAS)
        scene.advance(RETRY_PAUSE_MS)
    scene.settle()

    assert scene.state is TransactionState.COMPLETE_COMMIT
    assert len(scene.all_markers) == 1


def test_an_end_of_nothing_that_is_not_written_is_written_later() -> None:
    """No partition, no marker, and yet an end."""
    scene, producer = begun()
    scene.end(producer, is_commit=False)
    scene.commit()
    scene.fail()
    scene.advance(RETRY_PAUSE_MS)
    scene.settle()

    assert scene.state is TransactionState.COMPLETE_ABORT


@pytest.mark.parametrize("is_commit", [True, False])
def test_refused_markers_are_asked_for_again(is_commit: bool) -> None:
    """A coordinator that has been replaced is told so soon. Any other must not leave the readers of
    the other partitions where they are (hazard T-14)."""
    scene = decided(is_commit)
    scene.refuse_markers()
    during = scene.state
    scene.advance(RETRY_PAUSE_MS)
    scene.settle()

    assert during is PREPARED[is_commit]
    assert [markers.partitions for markers in scene.all_markers] == [(A0, B0)] * 2
    assert scene.state is COMPLETE[is_commit]


def test_only_what_has_refused_its_marker_is_asked_again() -> None:
    """The others have theirs: to ask all of them every second would be a load for ever."""
    scene = decided(True)
    scene.refuse_markers(B0)
    scene.advance(RETRY_PAUSE_MS)
    scene.refuse_markers(B0)
    scene.advance(RETRY_PAUSE_MS)
    other = scene.reloaded()
    scene.settle()

    asked = [markers.partitions for markers in scene.all_markers]
    assert asked == [(A0, B0), (B0,), (B0,)]
    assert [markers.partitions for markers in other.markers] == [(A0, B0)]
    assert scene.state is COMPLETE[True]


def test_every_partition_is_asked_for_exactly_once() -> None:
    """However often it was added."""
    scene, producer = begun(A0)
    scene.add(producer, A0, A1)
    scene.settle()
    scene.add(producer, A1, B0)
    scene.settle()
    scene.end(producer)
    scene.settle()

    assert [markers.partitions for markers in scene.all_markers] == [(A0, A1, B0)]


@pytest.mark.parametrize("state", STATES)
def test_only_what_is_decided_is_completed_when_it_is_loaded(state: str) -> None:
    """Markers of an open transaction would end it half-way."""
    scene, producer = begun(A0)
    if state != "Ongoing":
        scene.end(producer, is_commit="Commit" in state)
        scene.commit()
    if state.startswith("Complete") or state == "Empty":
        scene.settle()
    if state == "Empty":
        scene.init()
        scene.settle()
    other = scene.reloaded()

    assert other.state is STATES[state]
    assert bool(other.markers) == state.startswith("Prepare")


def test_markers_are_not_waited_for_by_a_shard_that_is_unloaded() -> None:
    """Its successor asks for them."""
    scene = decided()

    assert scene.shard.unload(ErrorCode.NOT_COORDINATOR) == []
    assert scene.shard.scope.outbox.take_all() == []
