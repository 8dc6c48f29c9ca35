"""One transactional id through its life, and what holds for all of them in a shard."""

from __future__ import annotations

import pytest

from ottla.coordinator.transaction.effects import WriteMarkers
from ottla.coordinator.transaction.states import TransactionState
from ottla.protocol.errors import ErrorCode
from tests.coordinator.transaction.scene import A0, A1, B0, CLASSIC, ID, Producer, Scene, begun


@pytest.mark.requirement("TXN-16", "TXN-22")
def test_a_transaction_goes_through_its_states_in_order() -> None:
    """The order of the records is the protocol: begin, verdict, markers, end."""
    scene, producer = begun(A0)
    scene.add(producer, B0)
    scene.settle()
    ticket = scene.end(producer)
    scene.settle()

    assert scene.error(ticket) is ErrorCode.NONE
    assert [known.state.label for known in scene.written() if known] == [
        "Empty",
        "Ongoing",
        "Ongoing",
        "PrepareCommit",
        "CompleteCommit",
    ]
    assert [known.partitions for known in scene.written() if known] == [
        set(),
        {A0},
        {A0, B0},
        {A0, B0},
        set(),
    ]


@pytest.mark.requirement("TXN-23", "TXN-24")
@pytest.mark.parametrize("is_commit", [True, False])
def test_markers_are_asked_for_once_the_verdict_is_committed(is_commit: bool) -> None:
    """A marker that goes out before could be contradicted by the next coordinator."""
    scene, producer = begun(B0, A1)
    scene.end(producer, is_commit=is_commit)
    early = list(scene.markers)
    scene.commit()

    (markers,) = scene.markers
    assert early == []
    assert markers == WriteMarkers(
        markers.token, ID, producer.producer_id, producer.producer_epoch + 1, is_commit,
        (A1, B0), 2,
    )  # fmt: skip


@pytest.mark.requirement("TXN-25")
def test_the_end_is_written_after_all_markers() -> None:
    """A partition without its marker would hang for ever once the transaction counts as done."""
    scene, producer = begun(A0)
    scene.end(producer)
    scene.commit()
    before = list(scene.appends)
    scene.mark()
    scene.settle()

    assert before == []
    assert scene.state is TransactionState.COMPLETE_COMMIT


def test_a_classic_transaction_keeps_its_epoch() -> None:
    """Producers of the classic protocol take no epoch from the answer."""
    scene, producer = begun(A0, transaction_version=1)
    ticket = scene.end(producer, api_version=CLASSIC)
    scene.settle()

    (markers,) = scene.all_markers
    assert scene.error(ticket) is ErrorCode.NONE
    assert (markers.producer_epoch, markers.transaction_version) == (0, 0)
    assert scene.add(producer, A0, transaction_version=1)
    assert len(scene.appends) == 1


def test_every_transaction_of_version_2_has_an_epoch_of_its_own() -> None:
    """So nothing that is late can reach the next transaction (hazard T-12)."""
    scene, producer = begun(A0)
    seen = []
    for is_commit in (True, False, True):
        seen.append(producer)
        ticket = scene.end(producer, is_commit=is_commit)
        scene.settle()
        producer = scene.producer(ticket)
        scene.add(producer, A0)
        scene.settle()

    first = seen[0].producer_id
    assert seen == [Producer(first, 0), Producer(first, 1), Producer(first, 2)]


@pytest.mark.requirement("TXN-01", "TXN-05")
def test_ids_do_not_meet_each_other() -> None:
    """One shard has the ids of many applications."""
    scene = Scene()
    tickets = [scene.init(transactional_id=name) for name in ("one", "two")]
    scene.settle()

    one, two = map(scene.producer, tickets)
    assert one.producer_id != two.producer_id
    assert scene.add(one, A0, transactional_id="two") == scene.ticket
    assert scene.error(scene.ticket) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
