"""What a heartbeat is answered, rule by rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.coordinator.effects import RequestOrigin
from ottla.coordinator.group.common.settings import GroupSettings
from ottla.coordinator.group.consumer.timers import REVOCATION, ConsumerTimer
from ottla.protocol.errors import ErrorCode
from tests.coordinator.group.consumer.site import Site, beat, join, told

if TYPE_CHECKING:
    from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


def two_members() -> Site:
    """``a`` holds all four partitions; ``b`` has joined, which ``a`` does not know."""
    site = Site({"t": 4})
    site.ask(join("a"))
    site.ask(join("b"))
    return site


def settled() -> Site:
    """``a`` holds 0 and 1, ``b`` holds 2 and 3, both in epoch 2."""
    site = two_members()
    site.ask(beat("a", 1, {"t": [0, 1, 2, 3]}))
    site.ask(beat("a", 1, {"t": [0, 1]}))
    site.ask(beat("b", 2, {}))
    assert site.group.state_name == "Stable"
    return site


def test_first_member_gets_everything_at_once() -> None:
    """No other member can hold a partition, so there is nothing to wait for."""
    response = Site({"t": 4}).ask(join("a"))

    assert (response.member_id, response.member_epoch) == ("a", 1)
    assert response.heartbeat_interval_ms == 5_000
    assert told(response) == {"t": [0, 1, 2, 3]}


def test_second_member_gets_nothing_until_the_first_has_revoked() -> None:
    """A partition that is given before it is released is read twice (KIP-848)."""
    site = two_members()

    assert told(site.ask(beat("a", 1, {"t": [0, 1, 2, 3]}))) == {"t": [0, 1]}
    assert told(site.ask(beat("b", 2))) is None
    still_revoking = site.ask(beat("a", 1, {"t": [0, 1, 2]}))
    assert (still_revoking.member_epoch, told(still_revoking)) == (1, {"t": [0, 1]})
    assert told(site.ask(beat("b", 2))) is None
    assert site.ask(beat("a", 1, {"t": [0, 1]})).member_epoch == 2
    assert told(site.ask(beat("b", 2))) == {"t": [2, 3]}


def test_partition_that_is_missing_in_a_report_is_not_revoked_before_it_was_asked_for() -> None:
    """The member may be about to take it up: its report is older than its assignment.

    1. a is given 0 to 3 and begins to take them up. 2. It reports what it has so far, nothing.
    3. The new target takes 2 and 3. Were they free now, a would take them up after b."""
    site = two_members()

    told_to_revoke = site.ask(beat("a", 1, {}))

    assert (told_to_revoke.member_epoch, told(told_to_revoke)) == (1, {"t": [0, 1]})
    assert told(site.ask(beat("b", 2))) is None


def full(request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatRequest:
    """What a client sends after an answer was lost: everything."""
    request.rebalance_timeout_ms = 60_000
    request.subscribed_topic_names = ["t"]
    return request


def test_report_after_a_lost_answer_revokes_only_what_was_owned_before() -> None:
    """The answer that told to revoke may be the lost one, and the member still taking up."""
    site = two_members()
    site.ask(beat("a", 1))

    again = site.ask(full(beat("a", 1, {})))
    assert (again.member_epoch, told(again)) == (1, {"t": [0, 1]})
    assert told(site.ask(beat("b", 2))) is None

    assert site.ask(beat("a", 1)).member_epoch == 2
    assert told(site.ask(beat("b", 2))) == {"t": [2, 3]}


def test_report_after_a_lost_answer_revokes_what_is_no_longer_owned() -> None:
    """What it had and has no more it will not take up again."""
    site = two_members()
    site.ask(beat("a", 1, {"t": [0, 1, 2, 3]}))

    assert site.ask(full(beat("a", 1, {"t": [0, 1]}))).member_epoch == 2


def test_report_of_an_earlier_epoch_revokes_nothing() -> None:
    """It was made before the partitions came that are now to be revoked."""
    site = settled()
    site.set_topics({"t": 6})
    # Both get one more; of a's two answers none arrives.
    assert told(site.ask(beat("a", 2))) == {"t": [0, 1, 4]}
    site.ask(join("c"))
    site.ask(beat("a", 3, {"t": [0, 1, 4]}))
    late = site.ask(beat("a", 2, {"t": [0, 1]}))

    assert (late.error_code, late.member_epoch) == (ErrorCode.NONE, 3)
    assert site.group.state.members["a"].progress.revoking


def test_a_heartbeat_of_a_stable_member_repeats_no_assignment() -> None:
    """A heartbeat costs a few bytes as long as nothing changes (KIP-848)."""
    site = settled()
    appended = len(site.log)

    response = site.ask(beat("a", 2))

    assert (response.error_code, response.member_epoch) == (ErrorCode.NONE, 2)
    assert response.assignment is None
    assert len(site.log) == appended


def test_a_full_heartbeat_is_answered_with_the_full_assignment() -> None:
    """After an error a client cannot know what it missed, so it sends a full request."""
    site = settled()
    assert told(site.ask(full(beat("a", 2, {"t": [0, 1]})))) == {"t": [0, 1]}


def test_previous_epoch_is_answered_again_when_the_answer_was_lost() -> None:
    """The bump was lost on its way; fencing the member would revoke everything for nothing."""
    site = two_members()
    site.ask(beat("a", 1, {"t": [0, 1, 2, 3]}))
    site.ask(beat("a", 1, {"t": [0, 1]}))

    again = site.ask(beat("a", 1, {"t": [0, 1]}))

    assert (again.error_code, again.member_epoch) == (ErrorCode.NONE, 2)
    assert told(again) == {"t": [0, 1]}


@pytest.mark.parametrize(
    ("epoch", "owned"),
    [(3, {"t": [0, 1]}), (1, {"t": [0, 1, 2]}), (1, None)],
    ids=["ahead", "previous with more than it has", "previous without saying what it has"],
)
def test_other_epochs_are_fenced(epoch: int, owned: dict[str, list[int]] | None) -> None:
    """The member is out of step: it must drop what it has before it does harm."""
    site = two_members()
    site.ask(beat("a", 1, {"t": [0, 1, 2, 3]}))
    site.ask(beat("a", 1, {"t": [0, 1]}))

    response = site.ask(beat("a", epoch, owned))

    assert response.error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert response.error_message
    assert response.assignment is None


def test_a_fenced_member_may_join_again_at_once() -> None:
    """KIP-848: it gives up its partitions and joins with its id, before its session times out."""
    site = settled()
    assert site.ask(beat("a", 7)).error_code == ErrorCode.FENCED_MEMBER_EPOCH

    response = site.ask(join("a"))

    assert (response.error_code, response.member_epoch) == (ErrorCode.NONE, 2)
    assert told(response) == {"t": [0, 1]}
    assert site.group.state.group_epoch == 2


def test_unknown_member_must_join_first() -> None:
    """A member that was removed learns it from its next heartbeat."""
    assert settled().ask(beat("x", 2)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert settled().ask(beat("x", -1)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_group_that_is_not_there_begins_with_a_join_only() -> None:
    """Else any heartbeat of a forgotten consumer would leave an empty group behind."""
    site = Site()

    assert site.ask(beat("a", 1)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert site.ask(beat("a", -1)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert site.group.is_void
    assert not site.log


def test_member_that_leaves_frees_its_partitions() -> None:
    """Closing a consumer must not cost the group a session timeout."""
    site = settled()

    left = site.ask(beat("b", -1))

    assert (left.error_code, left.member_id, left.member_epoch) == (ErrorCode.NONE, "b", -1)
    assert site.group.state_name == "Assigning"
    assert told(site.ask(beat("a", 2))) == {"t": [0, 1, 2, 3]}


def test_silent_member_is_removed_after_its_session() -> None:
    """A crashed consumer must not keep its partitions."""
    site = settled()
    site.pass_time(30_000)
    site.ask(beat("a", 2))

    site.pass_time(15_000)

    assert list(site.group.state.members) == ["a"]
    assert any("session timeout" in event.detail for event in site.scope.timeline.of_group("g"))


def test_heartbeats_move_no_timer() -> None:
    """A heap entry per heartbeat would be the dearest part of it; the timer looks when it fires."""
    site = settled()
    deadline_ms = site.scope.deadlines.next_deadline_ms()
    for _ in range(8):
        site.pass_time(5_000)
        site.ask(beat("a", 2))
        site.ask(beat("b", 2))

    assert site.scope.deadlines.next_deadline_ms() == deadline_ms
    site.pass_time(44_000)
    assert len(site.group.state.members) == 2


def test_member_that_does_not_revoke_in_time_is_removed() -> None:
    """One stuck consumer must not hold the others for ever (KIP-848, rebalance timeout)."""
    site = two_members()
    site.ask(beat("a", 1, {"t": [0, 1, 2, 3]}))
    for _ in range(6):
        site.pass_time(10_000 - 1)
        if "a" in site.group.state.members:
            site.ask(beat("a", 1))
        site.ask(beat("b", 2))
    site.pass_time(10)

    assert "a" not in site.group.state.members
    assert told(site.ask(beat("b", 2))) == {"t": [0, 1, 2, 3]}
    assert any("did not revoke" in event.detail for event in site.scope.timeline.of_group("g"))


def test_member_that_has_revoked_has_no_revocation_timer() -> None:
    """A timer that outlives its reason would remove a healthy member."""
    site = settled()

    assert ("g", ConsumerTimer(REVOCATION, "a")) not in site.scope.deadlines


def test_commit_and_fetch_are_checked_against_the_member_epoch() -> None:
    """A member that lags behind may overwrite the position of the next owner (G-02)."""
    group = settled().group

    def commit(member_id: str, epoch: int) -> ErrorCode:
        return group.check_commit(member_id, None, epoch, is_transactional=False)

    assert commit("a", 2) is ErrorCode.NONE
    assert commit("a", 1) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit("x", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit("", -1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.check_fetch("a", 2) is ErrorCode.NONE
    assert group.check_fetch("a", 3) is ErrorCode.STALE_MEMBER_EPOCH
    assert group.check_fetch("x", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.check_fetch(None, -1) is ErrorCode.NONE
    # No member has an empty member id.
    assert group.check_fetch("", -2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_any_client_may_commit_for_a_group_without_members() -> None:
    """Tools reset offsets of stopped groups this way."""
    site = settled()
    site.ask(beat("a", -1))
    site.ask(beat("b", -1))

    assert site.group.check_commit("", None, -1, is_transactional=False) is ErrorCode.NONE
    assert site.group.state_name == "Empty"
    assert site.group.check_delete() is ErrorCode.NONE
    assert site.group.empty_since_wall_ms is not None


def test_a_transaction_that_names_no_member_is_let_through() -> None:
    """Its producer is older than KIP-447, or was given the group's name alone: the transaction
    itself is fenced by the producer's epoch. Who names something has to be right about it."""
    group = settled().group

    def commit(member_id: str, instance_id: str | None, epoch: int) -> ErrorCode:
        return group.check_commit(member_id, instance_id, epoch, is_transactional=True)

    assert commit("", None, -1) is ErrorCode.NONE
    assert commit("a", None, 2) is ErrorCode.NONE
    assert commit("", "i", -1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit("x", None, -1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit("a", None, 1) is ErrorCode.STALE_MEMBER_EPOCH


def test_commit_shows_life() -> None:
    """A consumer that commits is not dead, even if its heartbeats are late."""
    site = settled()
    site.pass_time(40_000)
    site.group.check_commit("a", None, 2, is_transactional=False)

    site.pass_time(40_000)

    assert list(site.group.state.members) == ["a"]


def test_full_group_turns_newcomers_away_and_no_members() -> None:
    """group.consumer.max.size bounds what a heartbeat storm may cost."""
    site = Site(settings=GroupSettings(consumer_max_size=1))
    site.ask(join("a"))

    assert site.ask(join("b")).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert site.ask(join("a")).error_code == ErrorCode.NONE
    assert list(site.group.state.members) == ["a"]


def test_unknown_assignor_is_refused() -> None:
    """A client that asks for one must not silently get another's balance."""
    request = join("a")
    request.server_assignor = "sticky"

    response = Site().ask(request)

    assert response.error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert "uniform, range" in (response.error_message or "")


def test_assignor_that_most_members_ask_for_is_used() -> None:
    """KIP-848: the members vote, the broker's first one breaks ties."""
    site = Site()
    request = join("a")
    request.server_assignor = "range"
    site.ask(join("b"))
    assert site.described().assignor_name == "uniform"

    site.ask(request)

    assert site.described().assignor_name == "range"


def with_fields(
    request: ConsumerGroupHeartbeatRequest, **fields: object
) -> ConsumerGroupHeartbeatRequest:
    for name, value in fields.items():
        setattr(request, name, value)
    return request


@pytest.mark.parametrize(
    "request_",
    [
        with_fields(join("a"), group_id=""),
        with_fields(join("a"), instance_id=""),
        with_fields(join("a"), rack_id=""),
        with_fields(join("a"), member_id=""),
        with_fields(join("a"), rebalance_timeout_ms=-1),
        with_fields(join("a"), topic_partitions=None),
        with_fields(join("a"), subscribed_topic_names=None),
        with_fields(join("a"), topic_partitions=beat("a", 1, {"t": [0]}).topic_partitions),
        with_fields(beat("a", -2)),
        with_fields(beat("a", -3)),
        with_fields(beat("", 5)),
        with_fields(join("a"), subscribed_topic_names=["n" * 249] * 2_000),
    ],
)
def test_malformed_request_changes_nothing(request_: ConsumerGroupHeartbeatRequest) -> None:
    """What is wrong by itself must not leave a trace in the group."""
    site = Site()

    assert site.ask(request_).error_code == ErrorCode.INVALID_REQUEST
    assert site.group.is_void
    assert not site.log


def test_oldest_version_has_its_member_id_made_by_the_broker() -> None:
    """Version 1 is where the client makes it (KIP-1082)."""
    response = Site().ask(join(""), RequestOrigin("client", "/127.0.0.1", 0))

    assert (response.error_code, response.member_id) == (ErrorCode.NONE, "made-1")
