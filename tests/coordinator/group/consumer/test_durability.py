"""What is answered is in the log, and what is in the log is the group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode
from tests.coordinator.group.consumer.site import CALLER, Site, beat, join, told

if TYPE_CHECKING:
    from ottla.protocol.messages.consumer_group_describe import DescribedGroup


def test_a_heartbeat_is_answered_after_its_epoch_is_committed() -> None:
    """The next coordinator would fence a member that acts on an epoch it has never read (G-03)."""
    site = Site()
    site.is_committing = False
    first, second = site.ticket(), site.ticket()
    site.group.heartbeat(join("a"), CALLER, first)
    # Brings no record, yet tells of one that is not committed.
    site.group.heartbeat(beat("a", 1), CALLER, second)
    site.carry_out()
    assert not site.answers

    site.commit()

    assert set(site.answers) == {first, second}
    assert site.answers[first].error_code == ErrorCode.NONE


def test_steady_answer_waits_for_nothing() -> None:
    """Heartbeats of a settled group must not queue behind the disk."""
    site = Site()
    site.ask(join("a"))
    site.is_committing = False

    assert site.ask(beat("a", 1)).error_code == ErrorCode.NONE


def test_refused_append_refuses_the_answer_and_asks_for_a_reload() -> None:
    """Memory is ahead of the log then; only the log says what is true."""
    site = Site()
    site.is_committing = False
    ticket = site.ticket()
    site.group.heartbeat(join("a"), CALLER, ticket)
    site.carry_out()

    site.fail(ErrorCode.NOT_COORDINATOR)

    assert site.answers[ticket].error_code == ErrorCode.NOT_COORDINATOR
    assert site.scope.must_reload


def test_a_heartbeat_that_times_out_gets_a_retriable_error() -> None:
    """The outcome is open, so it is neither a success nor a failure."""
    site = Site()
    site.is_committing = False
    ticket = site.ticket()
    site.group.heartbeat(join("a"), CALLER, ticket)
    site.carry_out()

    site.scope.outbox.overdue(site.uncommitted[0])
    site.carry_out()
    assert site.answers[ticket].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    site.commit()

    assert not site.scope.must_reload


def test_unloading_answers_each_caller_once() -> None:
    """A client that is never answered waits for its request timeout."""
    site = Site()
    site.is_committing = False
    ticket = site.ticket()
    site.group.heartbeat(join("a"), CALLER, ticket)

    site.group.on_unload(ErrorCode.NOT_COORDINATOR)
    site.carry_out()
    site.commit()

    assert site.answers[ticket].error_code == ErrorCode.NOT_COORDINATOR
    assert len(site.scope.deadlines) == 0


def test_a_loaded_group_keeps_its_members_and_assignments() -> None:
    """A failover is no rebalance: no member is fenced, no partition moves, sessions restart
    (G-08)."""
    site = Site({"t": 4})
    site.ask(join("a"))
    site.ask(join("b"))
    site.ask(beat("a", 1, {"t": [0, 1, 2, 3]}))
    site.pass_time(44_000)

    other = site.reloaded()
    other.pass_time(44_000)

    assert other.ask(beat("a", 1, {"t": [0, 1]})).member_epoch == 2
    assert told(other.ask(beat("b", 2))) == {"t": [2, 3]}
    assert other.group.state.group_epoch == 2


def test_loaded_member_that_was_revoking_has_its_time_again() -> None:
    """Else it could keep its partitions for ever by losing its coordinator."""
    site = Site({"t": 4})
    site.ask(join("a"))
    site.ask(join("b"))
    site.ask(beat("a", 1, {"t": [0, 1, 2, 3]}))

    other = site.reloaded()
    for _ in range(4):
        other.pass_time(20_000)
        other.ask(beat("a", 1))
        other.ask(beat("b", 2))

    assert list(other.group.state.members) == ["b"]


def test_deleted_group_leaves_nothing_in_the_log() -> None:
    """A record that is forgotten here would bring half a group back at the next load."""
    site = Site({"t": 4})
    site.ask(join("a", regex="t.*"))
    site.ask(beat("a", -1))

    site.log.extend(site.group.tombstones())

    assert site.group.is_void
    last = {record.key: record.value for record in site.log}
    assert set(last.values()) == {None}
    assert site.reloaded().group.is_void


def test_loaded_member_that_stays_silent_is_removed() -> None:
    """A session that begins anew must also end."""
    site = Site({"t": 4})
    site.ask(join("a"))

    other = site.reloaded()
    other.pass_time(45_000)

    assert not other.group.state.members


def test_a_description_waits_until_what_it_shows_is_committed() -> None:
    """An administrator who acts on an epoch that a failover takes back acts on nothing (G-03)."""
    site = Site()
    site.is_committing = False
    shown: list[DescribedGroup] = []
    site.group.heartbeat(join("a"), CALLER, site.ticket())
    site.group.describe(shown.append)
    site.carry_out()
    assert not shown

    site.commit()

    assert [(one.error_code, one.group_epoch) for one in shown] == [(0, 1)]


def test_a_description_of_what_was_lost_is_an_error() -> None:
    """The group is loaded again, and its state is unknown until then."""
    site = Site()
    site.is_committing = False
    shown: list[DescribedGroup] = []
    site.group.heartbeat(join("a"), CALLER, site.ticket())
    site.group.describe(shown.append)
    site.carry_out()

    site.fail(ErrorCode.NOT_COORDINATOR)

    assert [one.error_code for one in shown] == [ErrorCode.NOT_COORDINATOR]


def test_a_heartbeat_after_the_waiting_time_is_answered_at_once() -> None:
    """The timer has already fired: a later request would wait as long as a replica is away."""
    site = Site()
    site.is_committing = False
    site.group.heartbeat(join("a"), CALLER, site.ticket())
    site.carry_out()
    site.scope.outbox.overdue(site.uncommitted[0])
    late = site.ticket()

    site.group.heartbeat(beat("a", 1), CALLER, late)
    site.carry_out()

    assert site.answers[late].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
