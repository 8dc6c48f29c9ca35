"""Which offsets a member commits, and in which order."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ottla.client.group.commit_state import CommitLedger, Flight, Ticket
from ottla.client.group.commit_verdict import TABLE, CommitVerdict, judge_commit
from ottla.client.records.committed import Committed
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def offset(number: int) -> dict[TopicPartition, Committed]:
    return {P0: Committed(number)}


def test_one_request_is_under_way_at_a_time() -> None:
    """Two could be served in the other order, by two connections to two coordinators."""
    ledger = CommitLedger[str]()
    first = ledger.ask(offset(10), "me")
    assert ledger.depart() == Flight("me", offset(10))
    second = ledger.ask(offset(20), "me")

    assert ledger.depart() is None
    assert ledger.arrived({P0: ErrorCode.NONE}) is CommitVerdict.DONE
    assert first.is_done
    assert not second.is_done
    assert ledger.depart() == Flight("me", offset(20))


def test_what_waits_is_merged_and_the_later_position_wins() -> None:
    """Repeated commits of the same partition must not build a queue."""
    ledger = CommitLedger[str]()
    tickets = [ledger.ask(offset(number), "me") for number in (10, 30, 20)]
    other = ledger.ask({P1: Committed(5)}, "me")

    assert ledger.depart() == Flight("me", {P0: Committed(20), P1: Committed(5)})
    ledger.arrived({P0: ErrorCode.NONE, P1: ErrorCode.NONE})
    assert all(ticket.is_done and not ticket.failed for ticket in (*tickets, other))


def test_an_earlier_position_is_not_tried_again_when_a_later_one_waits() -> None:
    """Otherwise the group would go back, and read again what it had."""
    ledger = CommitLedger[str]()
    first = ledger.ask(offset(10), "me")
    ledger.depart()
    ledger.ask(offset(20), "me")

    assert ledger.arrived({P0: ErrorCode.NOT_COORDINATOR}) is CommitVerdict.ELSEWHERE
    assert not first.is_done
    assert ledger.depart() == Flight("me", offset(20))
    ledger.arrived({P0: ErrorCode.NONE})
    assert first.is_done


def test_partitions_fail_by_themselves() -> None:
    """An answer has a code for each."""
    ledger = CommitLedger[str]()
    ticket = ledger.ask({P0: Committed(1), P1: Committed(2)}, "me")
    ledger.depart()

    ledger.arrived({P0: ErrorCode.NONE, P1: ErrorCode.OFFSET_METADATA_TOO_LARGE})

    assert ticket.is_done
    assert ticket.failed == {P1: ErrorCode.OFFSET_METADATA_TOO_LARGE}


def test_a_partition_that_the_answer_forgets_is_not_taken_for_stored() -> None:
    """The answer comes from the network and may be incomplete."""
    ledger = CommitLedger[str]()
    ticket = ledger.ask(offset(1), "me")
    ledger.depart()

    ledger.arrived({})

    assert ticket.failed or not ticket.is_done


def test_a_new_identity_takes_along_what_was_kept_all_the_time() -> None:
    """In a cooperative rebalance no other member had these partitions."""
    ledger = CommitLedger[str]()
    kept = ledger.ask(offset(10), "generation 1")
    given_up = ledger.ask({P1: Committed(7)}, "generation 1")
    ledger.depart()
    ledger.forget([P1])
    ledger.renew("generation 2")
    again = dict.fromkeys((P0, P1), ErrorCode.REBALANCE_IN_PROGRESS)

    assert ledger.arrived(again) is CommitVerdict.REBALANCING

    assert given_up.failed == {P1: ErrorCode.ILLEGAL_GENERATION}
    assert not kept.is_done
    assert ledger.depart() == Flight("generation 2", offset(10))


def test_a_partition_that_was_given_up_and_came_back_is_another_matter() -> None:
    """Another member may have read and committed those records meanwhile."""
    ledger = CommitLedger[str]()
    before = ledger.ask(offset(10), "generation 1")
    ledger.depart()
    ledger.forget([P0])
    after = ledger.ask(offset(50), "generation 3")

    ledger.arrived({P0: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})

    assert before.failed == {P0: ErrorCode.ILLEGAL_GENERATION}
    assert not after.is_done
    assert ledger.depart() == Flight("generation 3", offset(50))


def test_two_identities_never_share_a_request() -> None:
    """The coordinator judges a request by one of them."""
    ledger = CommitLedger[str]()
    ledger.ask(offset(10), "generation 1")
    ledger.ask({P1: Committed(7)}, "generation 2")

    assert ledger.depart() == Flight("generation 1", offset(10))
    ledger.arrived({P0: ErrorCode.ILLEGAL_GENERATION})
    assert ledger.depart() == Flight("generation 2", {P1: Committed(7)})


def test_consumed_positions_are_uncommitted_until_they_are_asked_for() -> None:
    """Each is sent once; one that failed counts again."""
    ledger = CommitLedger[str]()
    ledger.consumed(P0, 5, 2)
    assert ledger.uncommitted() == {P0: Committed(5, 2)}
    ledger.ask(ledger.uncommitted(), "me")
    assert ledger.uncommitted() == {}
    ledger.depart()

    ledger.arrived({P0: ErrorCode.TOPIC_AUTHORIZATION_FAILED})

    assert ledger.uncommitted() == {P0: Committed(5, 2)}


def test_a_seek_backwards_is_committed_too() -> None:
    """The application wants to read again, also after a restart."""
    ledger = CommitLedger[str]()
    ledger.consumed(P0, 50)
    ledger.ask(ledger.uncommitted(), "me")
    ledger.consumed(P0, 3)

    assert ledger.uncommitted() == {P0: Committed(3)}


def test_what_is_forgotten_is_not_committed() -> None:
    """Another member may have read on from there (G-02)."""
    ledger = CommitLedger[str]()
    ledger.consumed(P0, 5)
    waiting = ledger.ask(offset(4), "me")
    ledger.forget([P0])

    assert ledger.uncommitted() == {}
    assert waiting.failed == {P0: ErrorCode.ILLEGAL_GENERATION}
    assert ledger.depart() is None


def test_the_interval_begins_with_the_first_question() -> None:
    """Records of the first poll are finished at the second poll at the earliest."""
    ledger = CommitLedger[str](interval_ms=100)

    assert [ledger.due(now_ms) for now_ms in (1_000, 1_099, 1_100, 1_150, 1_200)] == [
        False,
        False,
        True,
        False,
        True,
    ]
    assert not CommitLedger[str]().due(1e9)


def test_an_abandoned_wish_is_not_tried_again() -> None:
    """Its caller has been told that it failed."""
    ledger = CommitLedger[str]()
    ticket = ledger.ask(offset(10), "me")
    ledger.depart()
    ledger.arrived({P0: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})
    ledger.consumed(P0, 10)

    assert ledger.abandon(ticket) == {P0: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}

    assert ledger.depart() is None
    assert ledger.uncommitted() == offset(10)


def test_a_ticket_can_join_what_is_under_way_already() -> None:
    """A member that gives up partitions waits for the automatic commit that is in flight."""
    ledger = CommitLedger[str]()
    ledger.ask(offset(10), "me")
    ledger.depart()
    ledger.ask({P1: Committed(3)}, "me")
    ticket = Ticket(set())
    ledger.join(ticket)
    assert ticket.left == {P0, P1}

    ledger.arrived({P0: ErrorCode.NONE})
    ledger.depart()
    ledger.arrived({P1: ErrorCode.NONE})

    assert ticket.is_done


@pytest.mark.parametrize("code", ErrorCode)
def test_every_error_has_a_meaning(code: ErrorCode) -> None:
    """The table, or what the code itself says of trying again."""
    verdict = judge_commit(code)

    if code not in TABLE:
        expected = CommitVerdict.AGAIN if code.retriable else CommitVerdict.REFUSED
        assert verdict is expected
    assert verdict.is_final == (
        verdict in (CommitVerdict.DONE, CommitVerdict.FENCED, CommitVerdict.REFUSED)
    )


ANSWERS = st.sampled_from(
    [
        ErrorCode.NONE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.ILLEGAL_GENERATION,
    ]
)
PARTITIONS = st.sampled_from([P0, P1])


class History(RuleBasedStateMachine):
    """Commits in any order of events; positions only ever grow, as those of a reader do."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = CommitLedger[int]()
        self.position = 0
        self.generation = 1
        self.tickets: list[tuple[Ticket, set[TopicPartition]]] = []
        self.flight: Flight[int] | None = None
        self.sent: dict[TopicPartition, int] = {P0: -1, P1: -1}
        self.since: dict[TopicPartition, int] = {P0: 1, P1: 1}

    @rule(partition=PARTITIONS)
    def ask(self, partition: TopicPartition) -> None:
        self.position += 1
        wanted = {partition: Committed(self.position)}
        self.tickets.append((self.ledger.ask(wanted, self.generation), {partition}))

    @rule()
    def ask_for_both(self) -> None:
        self.position += 1
        wanted = dict.fromkeys((P0, P1), Committed(self.position))
        self.tickets.append((self.ledger.ask(wanted, self.generation), {P0, P1}))

    @rule(partition=PARTITIONS)
    def give_up(self, partition: TopicPartition) -> None:
        """Give the partition to another member for one generation; it comes back afterwards."""
        self.ledger.forget([partition])
        self.generation += 1
        self.ledger.renew(self.generation)
        self.since[partition] = self.generation

    @rule()
    def rebalance(self) -> None:
        self.generation += 1
        self.ledger.renew(self.generation)

    @precondition(lambda self: self.flight is None)
    @rule()
    def depart(self) -> None:
        self.flight = self.ledger.depart()
        if self.flight is None:
            return
        for partition, position in self.flight.offsets.items():
            assert position.offset >= self.sent[partition], "an older position after a newer one"
            assert self.flight.member >= self.since[partition], "of a generation before it was lost"
            self.sent[partition] = position.offset

    @precondition(lambda self: self.flight is not None)
    @rule(data=st.data())
    def arrive(self, data: st.DataObject) -> None:
        assert self.flight is not None
        answers = {partition: data.draw(ANSWERS) for partition in self.flight.offsets}
        self.flight = None
        self.ledger.arrived(answers)

    @invariant()
    def nothing_is_forgotten(self) -> None:
        """Every call ends once everything has been answered."""
        if self.flight is None and self.ledger.depart() is None:
            assert all(ticket.is_done for ticket, _partitions in self.tickets)
        elif self.flight is None:
            # The look was a departure; take it back by a failure that is tried again.
            self.ledger.arrived(dict.fromkeys((P0, P1), ErrorCode.NOT_COORDINATOR))

    @invariant()
    def failures_are_of_partitions_that_were_asked_for(self) -> None:
        for ticket, partitions in self.tickets:
            assert set(ticket.failed) <= partitions


TestHistories = History.TestCase
TestHistories.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


@given(st.lists(st.integers(0, 100), min_size=1, max_size=20), st.integers(0, 3))
def test_in_the_end_the_last_position_is_stored(asked: list[int], failures: int) -> None:
    """Whatever requests are lost, the last committed position counts."""
    ledger = CommitLedger[str]()
    stored = None
    tickets = []
    for number in asked:
        tickets.append(ledger.ask(offset(number), "me"))
        flight = ledger.depart()
        if flight is not None and failures:
            failures -= 1
            ledger.arrived({P0: ErrorCode.NETWORK_EXCEPTION})
        elif flight is not None:
            stored = flight.offsets[P0].offset
            ledger.arrived({P0: ErrorCode.NONE})
    while (flight := ledger.depart()) is not None:
        stored = flight.offsets[P0].offset
        ledger.arrived({P0: ErrorCode.NONE})

    assert stored == asked[-1]
    assert all(ticket.is_done for ticket in tickets)
