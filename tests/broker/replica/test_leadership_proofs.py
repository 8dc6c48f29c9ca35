"""What a follower's fetch proves about the time when it was sent, and about whom it matters."""

from __future__ import annotations

from collections import deque
from random import Random

import pytest

from ottla.broker.replica.isr import ChangeOutcome
from ottla.broker.replica.leadership_proofs import CONNECTIONS_MAX, NOT_PROVEN, LeadershipProofs
from ottla.broker.replica.leading import Leading, PartitionLeadership, ReplicaLimits

LATER_MS = 2_000.0
HERE, ELSEWHERE = "a connection", "another connection"


def test_a_fetch_that_lay_in_a_socket_proves_nothing() -> None:
    """It was sent while the leader slept, or before (P-02)."""
    proofs = LeadershipProofs()
    proofs.ask(LATER_MS)

    assert proofs.on_fetch(HERE, 0.0) == NOT_PROVEN


def test_a_fetch_sent_after_an_answer_that_was_given_after_the_question_proves() -> None:
    """Its sender had read the answer, so the question had come."""
    proofs = LeadershipProofs()
    question = proofs.ask(LATER_MS)
    proofs.on_answer(HERE)

    assert proofs.on_fetch(HERE, 0.0) == question


def test_an_answer_from_before_the_question_proves_nothing() -> None:
    """What was sent upon it may have lain in the socket through the whole sleep."""
    proofs = LeadershipProofs()
    first = proofs.ask(LATER_MS)
    proofs.on_answer(HERE)
    second = proofs.ask(LATER_MS)

    assert proofs.on_fetch(HERE, 0.0) == first < second


def test_an_answer_on_another_connection_proves_nothing() -> None:
    """Who sent this one need not have read that one."""
    proofs = LeadershipProofs()
    proofs.ask(LATER_MS)
    proofs.on_answer(ELSEWHERE)

    assert proofs.on_fetch(HERE, 0.0) == NOT_PROVEN


def test_nothing_is_kept_when_no_question_is_open() -> None:
    """Connections come and go for as long as the broker lives."""
    proofs = LeadershipProofs()
    proofs.on_answer(HERE)
    proofs.ask(LATER_MS)
    early = proofs.on_fetch(HERE, LATER_MS)
    proofs.on_answer(HERE)
    late = proofs.on_fetch(HERE, LATER_MS + 1)

    assert (early, late) == (NOT_PROVEN, NOT_PROVEN)
    assert not proofs.is_open


def test_the_number_of_remembered_connections_is_limited() -> None:
    """Each of them holds memory; without its entry a connection needs one more round."""
    proofs = LeadershipProofs()
    question = proofs.ask(LATER_MS)
    for number in range(CONNECTIONS_MAX + 1):
        proofs.on_answer(number)

    assert proofs.on_fetch(0, 0.0) == NOT_PROVEN
    assert proofs.on_fetch(CONNECTIONS_MAX, 0.0) == question


@pytest.mark.parametrize("seed", range(30))
def test_no_order_of_things_proves_too_much_and_two_rounds_are_enough(seed: int) -> None:
    """A follower asks one thing at a time, reconnects at will, and the leader sleeps at will."""
    random = Random(seed)
    proofs = LeadershipProofs()
    asked = connection = 0
    # How many questions had come when each fetch was sent, and over which connection it came.
    sent: deque[tuple[int, int]] = deque([(asked, connection)])
    held: list[tuple[int, int]] = []
    for _ in range(300):
        match random.choice(("question", "take", "answer", "reconnect")):
            case "question":
                asked = proofs.ask(LATER_MS)
            case "take" if sent:
                fetch = sent.popleft()
                assert proofs.on_fetch(fetch[1], 0.0) <= fetch[0]
                held.append(fetch)
            case "answer" if held:
                fetch = held.pop(0)
                proofs.on_answer(fetch[1])
                if fetch[1] == connection:
                    sent.append((asked, connection))
            case "reconnect":
                connection += 1
                sent.append((asked, connection))
    asked = proofs.ask(LATER_MS)
    for _ in range(2):
        proven = proofs.on_fetch(connection, 0.0)
        proofs.on_answer(connection)

    assert proven == asked


# ---- whose word is needed ----


def leading(
    isr: tuple[int, ...],
    eligible: tuple[int, ...] = (),
    replicas: tuple[int, ...] = (1, 2, 3),
    *,
    unclean: bool = False,
    min_insync: int = 1,
) -> Leading:
    """Broker 1 leads in epoch 5."""
    leadership = PartitionLeadership(1, 5, 0, isr, replicas, eligible)
    limits = ReplicaLimits(min_insync_replicas=min_insync, unclean_leader_election=unclean)
    return Leading(1, leadership, 0, limits, 0.0)


def test_rivals_are_the_others_in_sync_and_the_eligible_ones() -> None:
    """A controller elects from the ISR, and from the eligible leaders when the ISR is empty."""
    assert leading((1, 3)).rivals == (3,)
    assert leading((1,), (2,)).rivals == (2,)
    assert leading((3, 1), (2,)).rivals == (2, 3)
    assert leading((1,)).rivals == ()


def test_a_replica_that_may_have_joined_or_left_is_a_rival() -> None:
    """The store may have taken a change whose answer was lost (R-13)."""
    joining = leading((1, 2))
    change = joining.in_sync.propose((1, 2, 3), ((3, 7),), 5, 1)
    while_open = joining.rivals
    joining.on_answer(change, ChangeOutcome.REFUSED)
    leaving = leading((1, 2), min_insync=2)
    leaving.in_sync.propose((1,), (), 5, 2)

    assert (while_open, joining.rivals) == ((2, 3), (2,))
    assert leaving.rivals == (2,)


def test_where_elections_may_be_unclean_a_lone_leader_has_every_replica_for_a_rival() -> None:
    """As with what it may acknowledge without its lease (R-19)."""
    assert leading((1,), unclean=True).rivals == (2, 3)
    assert leading((1, 2), unclean=True).rivals == (2,)


def test_it_is_proven_when_every_rival_has_shown_it() -> None:
    """A rival that has not answered may be the successor."""
    one = leading((1, 2, 3))
    one.followers[2].proven_question = 7
    half = one.is_proven_since(7)
    one.followers[3].proven_question = 7

    assert not half
    assert one.is_proven_since(7)
    assert not one.is_proven_since(8)
    assert leading((1,)).is_proven_since(8)


def test_a_rival_that_is_not_among_the_replicas_shows_nothing() -> None:
    """A reassignment of which this leader has not heard (R-30)."""
    assert not leading((1, 4)).is_proven_since(1)


def test_parked_fetches_of_in_sync_followers_are_answered_for_a_leadership_proof() -> None:
    """Otherwise a proof takes as long as their fetches may wait."""
    one = leading((1, 2))
    for follower in one.followers.values():
        follower.told_watermark = 0
    before = [one.owes_news(node_id) for node_id in (2, 3)]
    one.greet()

    assert before == [False, False]
    assert [one.owes_news(node_id) for node_id in (2, 3)] == [True, False]
