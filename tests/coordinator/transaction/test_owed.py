"""Markers that are owed: where each is to go, and when nothing is owed any more."""

from __future__ import annotations

import random

from ottla.coordinator.transaction.effects import WriteMarkers
from ottla.coordinator.transaction.owed import Order, OwedMarkers, Parcel
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition

A, B, C = (TopicPartition("t", index) for index in range(3))
NONE = ErrorCode.NONE
FAILED = ErrorCode.KAFKA_STORAGE_ERROR
REFUSED = ErrorCode.INVALID_PRODUCER_EPOCH


class Site:
    """Leaders that the test moves, and what has ended."""

    def __init__(self) -> None:
        self.leaders: dict[TopicPartition, int] = {A: 1, B: 1, C: 2}
        self.owed = OwedMarkers(self.leaders.get)
        self.ended: list[tuple[str, bool]] = []
        self.refused: list[tuple[TopicPartition, ...]] = []

    def owe(
        self, *partitions: TopicPartition, name: str = "id", token: int = 1, **more: int
    ) -> Order:
        producer_id = more.get("producer_id", 7)
        markers = WriteMarkers(token, name, producer_id, 0, True, partitions, 2)
        order = Order(self, more.get("epoch", 5), markers, lambda _refused: None)
        self._note(self.owed.add(order))
        return order

    def answer(self, parcel: Parcel | None, *errors: tuple[TopicPartition, ErrorCode]) -> None:
        assert parcel is not None
        found = {
            (order.markers.producer_id, partition): error
            for order, _partitions in parcel.content
            for partition, error in errors
        }
        self._note(self.owed.answered(parcel, found))

    def gone(self, partition: TopicPartition) -> None:
        self._note(self.owed.gone(partition))

    def _note(self, ended: object) -> None:
        assert isinstance(ended, list)
        self.ended += [(one.order.markers.transactional_id, bool(one.refused)) for one in ended]
        self.refused += [one.refused for one in ended if one.refused]

    def take(self, node_id: int, limit: int | None = None) -> list[TopicPartition]:
        """What a broker is to be sent, by partition; the parcel is lost at once."""
        parcel = self.owed.take(node_id, limit)
        if parcel is None:
            return []
        self.owed.lost(parcel)
        return [partition for _order, partitions in parcel.content for partition in partitions]


def test_an_order_is_over_when_the_last_partition_has_its_marker() -> None:
    """COMPLETE before that would let a new transaction begin in a partition that waits (T-16)."""
    site = Site()
    site.owe(A, B, C)

    site.answer(site.owed.take(1), (A, NONE), (B, NONE))
    before = list(site.ended)
    site.answer(site.owed.take(2), (C, NONE))

    assert before == []
    assert site.ended == [("id", False)]
    assert (site.owed.order_count, site.owed.marker_count, site.owed.destinations) == (0, 0, [])


def test_an_order_without_partitions_is_over_at_once() -> None:
    """Nothing would ever be answered for it."""
    site = Site()
    site.owe()

    assert site.ended == [("id", False)]


def test_what_fails_or_is_not_answered_goes_out_again() -> None:
    """A marker that is given up keeps its readers waiting for ever (T-14)."""
    site = Site()
    site.owe(A, B)
    site.answer(site.owed.take(1), (A, FAILED))

    assert site.owed.homeless == {A, B}
    assert site.owed.take(1) is None
    site.owed.route()
    assert site.take(1) == [A, B]
    assert site.owed.has_homeless


def test_a_marker_is_sent_to_the_new_leader_while_the_old_one_has_not_answered() -> None:
    """A dead broker's answer may fail much later than the new leader would answer."""
    site = Site()
    site.owe(A)
    dying = site.owed.take(1)
    site.leaders[A] = 2
    site.owed.route([A])
    second = site.owed.take(2)

    site.answer(dying, (A, FAILED))
    assert not site.owed.has_homeless
    site.answer(second, (A, NONE))
    assert site.ended == [("id", False)]


def test_a_late_success_counts_though_the_leader_has_changed() -> None:
    """It was written with all replicas, so the next leader has it, too."""
    site = Site()
    site.owe(A)
    dying = site.owed.take(1)
    site.leaders[A] = 2
    site.owed.route()

    site.answer(dying, (A, NONE))

    assert site.ended == [("id", False)]
    assert site.owed.take(2) is None


def test_what_waits_in_a_queue_moves_with_its_leader() -> None:
    """The queue of a dead broker is never emptied."""
    site = Site()
    site.owe(A, B)
    site.leaders[A] = 2
    del site.leaders[B]
    site.owed.route()

    assert site.take(1) == []
    assert site.owed.homeless == {B}
    assert site.take(2) == [A]


def test_an_order_is_over_when_a_newer_coordinator_has_been_there() -> None:
    """One that is none any more must stop, or it would end what others began (T-15)."""
    site = Site()
    site.owe(A, B, C)
    parcel = site.owed.take(1)
    site.answer(parcel, (A, NONE), (B, ErrorCode.TRANSACTION_COORDINATOR_FENCED))

    assert site.ended == [("id", True)]
    assert site.refused == [(A, B, C)]
    assert site.owed.destinations == []


def test_a_partition_that_refuses_its_marker_keeps_no_other_from_theirs() -> None:
    """A client has used the producer id there by hand; readers of the other partitions wait for
    markers that are not in doubt (hazard T-14)."""
    site = Site()
    site.owe(A, B, C)
    site.answer(site.owed.take(1), (A, REFUSED), (B, FAILED))
    during = list(site.ended)
    site.owed.route()
    site.answer(site.owed.take(2), (C, NONE))
    site.answer(site.owed.take(1), (B, NONE))

    assert during == []
    assert site.ended == [("id", True)]
    assert site.refused == [(A,)]
    assert (site.owed.order_count, site.owed.destinations) == (0, [])


def test_a_leader_that_is_none_any_more_refuses_nothing() -> None:
    """What it says is older than what its successor knows, to which the marker is on its way."""
    site = Site()
    site.owe(A)
    late = site.owed.take(1)
    site.leaders[A] = 2
    site.owed.route()
    site.answer(late, (A, REFUSED))
    during = list(site.ended)
    site.answer(site.owed.take(2), (A, NONE))

    assert during == []
    assert site.ended == [("id", False)]


def test_a_deleted_partition_needs_no_marker() -> None:
    """A deleted topic would keep its transactions open for ever."""
    site = Site()
    site.owe(A, C)
    site.owe(C, name="other", token=2, producer_id=8)
    parcel = site.owed.take(2)
    site.gone(C)
    site.answer(parcel, (C, FAILED))

    assert site.ended == [("other", False)]
    assert site.take(1) == [A]


def test_the_answer_to_an_earlier_end_is_not_taken_for_the_next_one() -> None:
    """It has other partitions, and another coordinator epoch may have begun (T-14)."""
    site = Site()
    first = site.owe(A)
    parcel = site.owed.take(1)
    site.owed.forget(first.owner)
    site.owe(A, epoch=6)

    site.answer(parcel, (A, NONE))

    assert first.is_over
    assert site.ended == []
    assert site.take(1) == [A]


def test_one_parcel_holds_each_producer_once() -> None:
    """Answers name only the producer id, so two of its transactions could not be told apart."""
    site = Site()
    site.owe(A, name="one", token=1)
    site.owe(B, name="two", token=2)
    site.owe(A, B, name="three", token=3, producer_id=8)

    first, second = site.owed.take(1), site.owed.take(1)

    assert first is not None
    assert second is not None
    assert [order.markers.transactional_id for order, _ in first.content] == ["one", "three"]
    assert [order.markers.transactional_id for order, _ in second.content] == ["two"]


def test_the_size_of_a_parcel_is_bounded() -> None:
    """One request for all would be larger than a broker takes."""
    site = Site()
    many = tuple(TopicPartition("many", index) for index in range(600))
    site.leaders.update(dict.fromkeys(many, 1))
    for number in range(3):
        site.owe(*many, name=f"{number}", token=number, producer_id=number)

    sizes = []
    while (parcel := site.owed.take(1)) is not None:
        sizes.append(sum(len(partitions) for _order, partitions in parcel.content))

    assert sizes == [600, 600, 600]


def test_whatever_happens_everything_ends_once_the_leaders_answer() -> None:
    """No marker may be lost between queues, parcels and changes of leaders."""
    for seed in range(200):
        chance = random.Random(seed)
        site = Site()
        parcels: list[Parcel] = []
        partitions = [TopicPartition("t", index) for index in range(5)]
        for number in range(40):
            step = chance.randrange(6)
            if step == 0:
                some = chance.sample(partitions, chance.randrange(4))
                site.owe(*some, name=f"{number}", token=number, producer_id=number % 3)
            elif step == 1:
                partition = chance.choice(partitions)
                if chance.random() < 0.3:
                    site.leaders.pop(partition, None)
                else:
                    site.leaders[partition] = chance.randrange(3)
                site.owed.route([partition] if chance.random() < 0.7 else None)
            elif step == 2:
                parcel = site.owed.take(chance.randrange(3), chance.choice((None, 1)))
                parcels += [] if parcel is None else [parcel]
            elif parcels:
                parcel = parcels.pop(chance.randrange(len(parcels)))
                if step == 3:
                    site.owed.lost(parcel)
                else:
                    said = [(one, chance.choice((NONE, FAILED, REFUSED))) for one in partitions]
                    site.answer(parcel, *said)
        site.leaders.update(dict.fromkeys(partitions, 0))
        for parcel in parcels:
            site.owed.lost(parcel)
        site.owed.route()
        while (last := site.owed.take(0)) is not None:
            site.answer(last, *((one, NONE) for one in partitions))

        assert (site.owed.order_count, site.owed.destinations) == (0, [])
        assert not site.owed.has_homeless
        assert len(site.ended) == len(set(site.ended))
