"""A member of a group of the newer protocol, without a group."""

from __future__ import annotations

import pytest

from ottla.client.group.change import AssignmentChange, MembershipPhase
from ottla.client.group.identity import GroupIdentity
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.client.group.scene import SETTINGS, STATIC, ConsumerScene, parts

OTHER_ID = b"\2" * 16


def test_a_join_tells_everything_and_owns_nothing() -> None:
    """KIP-848: the coordinator refuses anything else."""
    scene = ConsumerScene()
    request = scene.beat(epoch=5, given=(0, 1))

    assert (request.member_epoch, request.member_id) == (0, "me")
    assert request.subscribed_topic_names == ["t"]
    assert request.topic_partitions == []
    assert request.rebalance_timeout_ms == SETTINGS.rebalance_timeout_ms
    assert scene.member.identity == GroupIdentity("g", "me", 5)


def test_what_was_carried_out_is_told_at_once() -> None:
    """The coordinator assigns only partitions that it knows to be free."""
    scene = ConsumerScene()
    scene.beat(given=(0, 1))
    scene.member.name_topics({scene.TOPIC_ID: "t"})
    assert scene.is_idle()
    assert scene.apply() == AssignmentChange(assigned=parts(0, 1))
    request = scene.beat(given=(1, 2))
    told = request.topic_partitions
    assert told is not None
    assert [(one.topic_id, one.partitions) for one in told] == [(scene.TOPIC_ID, [0, 1])]

    assert scene.is_idle()
    assert scene.apply() == AssignmentChange(revoked=parts(0), assigned=parts(2))
    told = scene.beat().topic_partitions
    assert told is not None
    assert told[0].partitions == [1, 2]


def test_a_heartbeat_without_news_is_short_and_comes_when_the_coordinator_wants_it() -> None:
    """Thousands of members send nothing else most of the time."""
    scene = ConsumerScene()
    scene.settle(0)
    assert scene.is_idle()
    scene.wait(1_000)
    request = scene.beat()

    assert request.subscribed_topic_names is None
    assert request.topic_partitions is None
    assert request.member_epoch == 1


def test_everything_is_told_again_after_a_lost_answer() -> None:
    """It is unknown whether the coordinator got the last request."""
    scene = ConsumerScene()
    scene.settle(0)
    scene.wait(1_000)
    scene.member.unanswered(scene.next(ConsumerGroupHeartbeatRequest))
    request = scene.next(ConsumerGroupHeartbeatRequest)

    assert request.subscribed_topic_names == ["t"]
    assert request.topic_partitions is not None


def test_a_topic_without_a_name_is_waited_for() -> None:
    """Assignments come by id, and the metadata may not know the topic yet."""
    scene = ConsumerScene()
    scene.beat(given=(0,), topic_id=OTHER_ID)
    assert scene.member.unnamed == {OTHER_ID}
    assert scene.is_idle()
    assert scene.member.change is None

    scene.member.name_topics({OTHER_ID: "u"})
    assert scene.is_idle()
    assert scene.apply() == AssignmentChange(assigned=parts(0, topic="u"))


def test_a_topic_that_was_made_anew_is_another_topic() -> None:
    """Offsets of the new topic start over; the old position would skip records."""
    scene = ConsumerScene()
    scene.settle(0, 1)
    scene.wait(1_000)
    scene.beat(given=(0,), topic_id=OTHER_ID)
    scene.member.name_topics({OTHER_ID: "t"})
    assert scene.is_idle()

    assert scene.apply() == AssignmentChange(revoked=parts(0, 1), assigned=parts(0))
    told = scene.beat().topic_partitions
    assert told is not None
    assert [(one.topic_id, one.partitions) for one in told] == [(OTHER_ID, [0])]


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH])
def test_a_fenced_member_gives_up_everything_before_it_joins_again(code: ErrorCode) -> None:
    """KIP-848: its partitions may be another member's, and a joining member owns nothing."""
    scene = ConsumerScene()
    scene.settle(0)
    scene.wait(1_000)
    scene.beat(code)

    assert scene.is_idle()
    assert scene.member.identity == GroupIdentity("g", "me", 1)
    assert scene.apply() == AssignmentChange(lost=parts(0))
    request = scene.beat(epoch=7)
    assert (request.member_epoch, request.topic_partitions) == (0, [])


@pytest.mark.parametrize("code", [code for code in ErrorCode if code is not ErrorCode.NONE])
@pytest.mark.parametrize("is_new", [True, False])
def test_every_error_leads_somewhere(is_new: bool, code: ErrorCode) -> None:
    """A member that makes no progress is the loudest complaint about consumers."""
    scene = ConsumerScene()
    if not is_new:
        scene.settle(0)
        scene.wait(1_000)
    scene.beat(code)
    if scene.member.phase is MembershipPhase.FAILED:
        assert not code.retriable
        return
    if scene.member.change is not None:
        scene.apply()
    scene.next(ConsumerGroupHeartbeatRequest)


@pytest.mark.parametrize("code", [ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.UNSUPPORTED_ASSIGNOR])
def test_a_refused_member_says_why(code: ErrorCode) -> None:
    """Waiting would not help; the application has to know."""
    scene = ConsumerScene(STATIC)
    request = scene.next(ConsumerGroupHeartbeatRequest)
    scene.answer(request, code, error_message="because")

    assert scene.member.refusal is not None
    assert scene.member.refusal == (code, "because")
    assert scene.is_idle()


@pytest.mark.parametrize(
    ("settings", "is_closing", "epoch"),
    [(SETTINGS, True, -1), (STATIC, True, -2), (STATIC, False, -1)],
)
def test_who_leaves_says_whether_it_will_be_back(
    settings: object, is_closing: bool, epoch: int
) -> None:
    """A static member's partitions wait for it; of one that unsubscribes nothing is to wait."""
    scene = ConsumerScene(STATIC if settings is STATIC else SETTINGS)
    scene.settle(0)
    assert scene.member.leaving_change() == AssignmentChange(revoked=parts(0))
    scene.member.end_change()
    scene.member.leave("closed", is_closing=is_closing)
    request = scene.beat(epoch=epoch)

    assert request.member_epoch == epoch
    assert scene.member.phase is MembershipPhase.OUT


def test_an_answer_that_comes_after_the_end_changes_nothing() -> None:
    """The consumer was closed while its heartbeat was on its way."""
    scene = ConsumerScene()
    scene.settle(0)
    scene.wait(1_000)
    request = scene.next(ConsumerGroupHeartbeatRequest)
    scene.member.leaving_change()
    scene.member.end_change()
    scene.member.leave("closed", is_closing=True)
    scene.answer(request, member_epoch=9)

    assert scene.member.phase is MembershipPhase.LEAVING


def test_silence_ends_the_membership_until_the_application_polls() -> None:
    """As in the classic protocol, another member takes over the partitions."""
    scene = ConsumerScene()
    scene.settle(0)
    scene.member.liveness.exit_poll(scene.now_ms)
    scene.wait(SETTINGS.max_poll_interval_ms)
    assert scene.beat().member_epoch == -1
    assert scene.member.phase is MembershipPhase.SILENT

    scene.member.liveness.enter_poll()
    assert scene.is_idle()
    assert scene.apply() == AssignmentChange(lost=parts(0))
    assert scene.next(ConsumerGroupHeartbeatRequest).member_epoch == 0


def test_an_expression_is_taken_back_by_an_empty_one() -> None:
    """Null would mean that nothing has changed."""
    scene = ConsumerScene()
    scene.member.subscribe([], scene.now_ms, regex="(?:t).*")
    assert scene.beat().subscribed_topic_regex == "(?:t).*"
    scene.member.subscribe(["t"], scene.now_ms)
    request = scene.next(ConsumerGroupHeartbeatRequest)

    assert request.subscribed_topic_regex == ""
    assert request.subscribed_topic_names == ["t"]
    # Its answer never came.
    scene.member.unanswered(request)
    assert scene.beat().subscribed_topic_regex == ""
    scene.member.subscribe(["u"], scene.now_ms)
    assert scene.beat().subscribed_topic_regex is None
