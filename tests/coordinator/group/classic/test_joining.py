"""JoinGroup: who gets in, who gets an id first, and what repeating it does."""

from __future__ import annotations

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.leave_group import MemberIdentity
from tests.coordinator.group.classic.scene import (
    DELAY_MS,
    REBALANCE_MS,
    SESSION_MS,
    Scene,
    Wish,
    join_request,
    subscription,
)


def test_a_newcomer_is_first_given_its_id() -> None:
    """KIP-394: a client whose answer was lost leaves an id behind, and not a ghost member."""
    scene = Scene()

    told = scene.answer(join_request(Wish()))

    assert told.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert told.member_id == "client-id1"
    assert scene.group.roster.members == {}


@pytest.mark.parametrize("wish", [Wish(api_version=3), Wish(instance_id="a")])
def test_old_and_static_newcomers_join_at_once(wish: Wish) -> None:
    """Before version 4 clients know no second step; static members leave no ghosts."""
    scene = Scene()

    scene.ask(join_request(wish), wish.api_version)

    assert len(scene.group.roster.members) == 1


def test_an_unused_member_id_is_removed_with_its_group() -> None:
    """Clients that request member ids and disconnect must not fill the memory."""
    scene = Scene()
    scene.ask(join_request(Wish()))

    scene.advance(SESSION_MS)

    assert scene.state == "none"
    assert scene.log == []


def test_a_member_of_no_group_must_join_as_a_new_one() -> None:
    """UNKNOWN_MEMBER_ID makes a client drop its id; any other code would make it retry for ever."""
    told = Scene().answer(join_request(Wish(member_id="x")))

    assert (told.error_code, told.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "x")


def test_an_unknown_id_in_a_group_is_refused() -> None:
    """A member that was removed learns it here."""
    scene = Scene()
    scene.stable(Wish())

    assert scene.answer(join_request(Wish(member_id="x"))).error_code == (
        ErrorCode.UNKNOWN_MEMBER_ID
    )


def test_a_group_needs_a_name() -> None:
    """Every client library treats INVALID_GROUP_ID as a mistake of its configuration."""
    told = Scene().answer(join_request(Wish(group_id="")))

    assert told.error_code == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize(
    ("session_ms", "error"),
    [
        (5_999, ErrorCode.INVALID_SESSION_TIMEOUT),
        (6_000, ErrorCode.MEMBER_ID_REQUIRED),
        (1_800_000, ErrorCode.MEMBER_ID_REQUIRED),
        (1_800_001, ErrorCode.INVALID_SESSION_TIMEOUT),
    ],
)
def test_session_timeouts_have_bounds(session_ms: int, error: ErrorCode) -> None:
    """Too short ones make rebalances of hiccups, too long ones keep partitions with the dead."""
    told = Scene().answer(join_request(Wish(session_ms=session_ms)))

    assert told.error_code == error


@pytest.mark.parametrize(
    "wish",
    [
        Wish(protocol_type="connect"),
        Wish(protocols=("roundrobin",)),
        Wish(protocols=()),
        Wish(protocol_type=""),
    ],
)
def test_members_must_have_a_protocol_in_common(wish: Wish) -> None:
    """Without a common protocol some members could not read their assignment."""
    scene = Scene()
    scene.stable(Wish())

    assert scene.answer(join_request(wish)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("wish", [Wish(protocols=()), Wish(protocol_type="")])
def test_a_group_is_not_founded_without_a_protocol(wish: Wish) -> None:
    """A refused join leaves no group behind."""
    scene = Scene()

    assert scene.answer(join_request(wish)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert scene.state == "none"


def test_the_protocol_that_most_members_like_best_is_chosen() -> None:
    """Each member votes for its first one that all support."""
    joined = Scene().form(
        Wish(protocols=("range", "sticky")),
        Wish(protocols=("sticky", "range")),
        Wish(protocols=("other", "sticky", "range")),
    )

    assert {one.protocol_name for one in joined} == {"sticky"}


def test_the_leader_alone_gets_the_members() -> None:
    """With the metadata for the chosen protocol: it assigns by that."""
    first, second = Scene().form(Wish(topics=("a",)), Wish(topics=("b",)))

    assert first.leader == second.leader == first.member_id
    assert [one.metadata for one in first.members] == [subscription("a"), subscription("b")]
    assert second.members == []
    assert (first.generation_id, second.generation_id) == (1, 1)
    assert first.protocol_type == "consumer"


# The first round.


def test_the_first_round_waits_for_others() -> None:
    """KIP-134: consumers that are started together make one generation and not many (G-05)."""
    scene = Scene()
    ticket = scene.join(Wish())

    scene.advance(DELAY_MS - 1)
    assert ticket not in scene.answers
    scene.advance(1)

    assert scene.told(ticket).error_code == ErrorCode.NONE


def test_newcomers_make_the_first_round_longer_up_to_the_rebalance_timeout() -> None:
    """A group whose members trickle in is formed some time."""
    scene = Scene()
    ticket = scene.join(Wish(rebalance_ms=10_000))
    waited_ms = 0

    while ticket not in scene.answers:
        scene.join(Wish(rebalance_ms=10_000))
        scene.advance(1_000)
        waited_ms += 1_000

    assert waited_ms == 10_000


def test_five_hundred_members_at_once_take_at_most_three_generations() -> None:
    """Hazard G-05: one round for each newcomer is a storm that does not end."""
    scene = Scene()
    tickets = []

    for number in range(500):
        tickets.append(scene.join(Wish(client_id=f"c{number}")))
        scene.advance(20)
    scene.advance(REBALANCE_MS)

    joined = [scene.told(ticket) for ticket in tickets]
    assert {one.error_code for one in joined} == {ErrorCode.NONE}
    assert max(one.generation_id for one in joined) <= 3
    assert scene.group.generation.generation_id <= 3


# Coming again.


def test_a_repeated_join_is_answered_with_the_same_generation() -> None:
    """The first answer may have been lost; a new rebalance would cost every member."""
    scene = Scene()
    leader, follower = scene.form(Wish(), Wish())

    again = scene.answer(join_request(Wish(member_id=follower.member_id)))
    leader_again = scene.answer(join_request(Wish(member_id=leader.member_id)))

    assert again == follower
    assert leader_again == leader
    assert scene.state == "CompletingRebalance"


def test_the_second_of_two_parked_joins_is_the_one_that_counts() -> None:
    """A client that gave up its first request has forgotten it, and the answer with it."""
    scene = Scene()
    first = scene.join(Wish(api_version=3))
    member_id = next(iter(scene.group.roster.members))

    second = scene.ask(join_request(Wish(member_id=member_id)))
    scene.advance(DELAY_MS * 2)

    assert scene.told(first).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert scene.told(second).error_code == ErrorCode.NONE


def test_a_follower_that_joins_again_unchanged_starts_no_round() -> None:
    """The member only asks for its generation."""
    scene = Scene()
    _leader, follower = scene.stable(Wish(), Wish())

    told = scene.answer(join_request(Wish(member_id=follower.member_id)))

    assert told == follower
    assert scene.state == "Stable"


def test_a_leader_that_joins_again_starts_a_round() -> None:
    """It has seen that topics have changed, which no metadata of members shows."""
    scene = Scene()
    leader, follower = scene.stable(Wish(), Wish())

    scene.ask(join_request(Wish(member_id=leader.member_id)))

    assert scene.state == "PreparingRebalance"
    assert scene.heartbeat(follower) == ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("synced", [True, False])
def test_another_subscription_starts_a_round(synced: bool) -> None:
    """The assignment was made for the old one, whether it is handed out already or not."""
    scene = Scene()
    joined = scene.form(Wish(), Wish())
    if synced:
        scene.settle(*joined)

    ticket = scene.ask(join_request(Wish(member_id=joined[1].member_id, topics=("other",))))

    assert scene.state == "PreparingRebalance"
    assert ticket not in scene.answers


def test_who_does_not_join_again_in_time_is_removed() -> None:
    """Heartbeats alone do not help: the group cannot wait for a member that is stuck."""
    scene = Scene()
    leader, follower = scene.stable(Wish(), Wish(session_ms=SESSION_MS))
    ticket = scene.ask(join_request(Wish(member_id=leader.member_id)))

    for _ in range(REBALANCE_MS // 5_000):
        assert scene.heartbeat(follower) == ErrorCode.REBALANCE_IN_PROGRESS
        scene.advance(5_000)

    assert [one.member_id for one in scene.told(ticket).members] == [leader.member_id]
    assert scene.heartbeat(follower) == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_longest_rebalance_timeout_of_all_counts() -> None:
    """The slowest member knows how long it needs."""
    scene = Scene()
    leader, slow = scene.stable(Wish(rebalance_ms=6_000), Wish(rebalance_ms=20_000))
    ticket = scene.ask(join_request(Wish(member_id=leader.member_id, rebalance_ms=6_000)))

    for _ in range(4):
        scene.advance(4_999)
        assert ticket not in scene.answers
        scene.heartbeat(slow)
    scene.advance(5)

    assert ticket in scene.answers


def test_before_version_1_the_session_timeout_is_the_rebalance_timeout() -> None:
    """KIP-62 made them two."""
    scene = Scene()

    scene.ask(join_request(Wish(api_version=0, rebalance_ms=-1)), 0)

    assert scene.group.roster.rebalance_timeout_ms == SESSION_MS


def test_the_round_waits_for_ids_that_were_given_out() -> None:
    """The second step of a join comes a moment after the first."""
    scene = Scene()
    (leader,) = scene.stable(Wish())
    told = scene.answer(join_request(Wish()))
    ticket = scene.ask(join_request(Wish(member_id=leader.member_id)))
    assert ticket not in scene.answers

    scene.ask(join_request(Wish(member_id=told.member_id)))

    assert len(scene.told(ticket).members) == 2


@pytest.mark.parametrize("leaves", [True, False])
def test_a_given_id_that_goes_does_not_hold_up_the_round(leaves: bool) -> None:
    """The other members wait no longer than the session of an id whose client does not return."""
    scene = Scene()
    (leader,) = scene.stable(Wish())
    told = scene.answer(join_request(Wish()))
    ticket = scene.ask(join_request(Wish(member_id=leader.member_id)))

    if leaves:
        scene.leave(MemberIdentity(told.member_id))
    else:
        scene.advance(SESSION_MS)

    assert scene.told(ticket).error_code == ErrorCode.NONE


def test_a_newcomer_whose_join_waits_too_long_is_removed() -> None:
    """It may have gone long ago: only when it is answered does it show signs of life."""
    scene = Scene()
    (leader,) = scene.stable(Wish(rebalance_ms=3_600_000, session_ms=600_000))

    ticket = scene.join(Wish(rebalance_ms=3_600_000))
    scene.advance(299_999)
    assert ticket not in scene.answers
    scene.advance(1)

    assert scene.told(ticket).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.told(ticket).member_id == ""
    assert scene.heartbeat(leader) == ErrorCode.REBALANCE_IN_PROGRESS
