"""Static members: an instance id is a place in the group that outlives a process (KIP-345)."""

from __future__ import annotations

from ottla.coordinator.group.common.settings import GroupSettings
from ottla.protocol.errors import ErrorCode
from tests.coordinator.group.consumer.site import CALLER, Site, beat, join, told


def with_static() -> Site:
    """``one`` is held by ``a``, which has everything."""
    site = Site({"t": 4})
    site.ask(join("a", instance_id="one"))
    return site


def test_member_that_left_for_a_while_finds_its_partitions_again() -> None:
    """A restart within the session must not move a partition, nor bump the group epoch."""
    site = with_static()
    site.ask(join("b"))
    site.ask(beat("a", 1, {"t": [0, 1, 2, 3]}, "one"))
    assert site.ask(beat("a", 1, {"t": [0, 1]}, "one")).member_epoch == 2
    site.ask(beat("b", 2))
    left = site.ask(beat("a", -2, instance_id="one"))
    assert (left.error_code, left.member_epoch) == (ErrorCode.NONE, -2)
    assert told(site.ask(beat("b", 2))) is None

    back = site.ask(join("a2", instance_id="one"))

    assert (back.error_code, back.member_epoch, told(back)) == (0, 2, {"t": [0, 1]})
    assert sorted(site.group.state.members) == ["a2", "b"]
    assert site.group.state.group_epoch == 2


def test_member_that_does_not_come_back_is_removed_after_its_session() -> None:
    """Else a place would be kept, and partitions unread, for ever."""
    site = with_static()
    site.ask(beat("a", -2, instance_id="one"))

    site.pass_time(44_999)
    assert site.group.state.members
    site.pass_time(1)

    assert not site.group.state.members


def test_second_process_cannot_take_the_place_of_a_living_one() -> None:
    """Two processes with one instance id is a fault of configuration; the first one stays."""
    site = with_static()

    assert site.ask(join("b", instance_id="one")).error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert list(site.group.state.members) == ["a"]
    assert site.ask(beat("a", 1, instance_id="one")).error_code == ErrorCode.NONE


def test_replaced_process_is_fenced() -> None:
    """The old process must learn that it is no longer the one (G-07)."""
    site = with_static()
    site.ask(beat("a", -2, instance_id="one"))
    site.ask(join("a2", instance_id="one"))

    for epoch in (1, -1, -2):
        response = site.ask(beat("a", epoch, instance_id="one"))
        assert response.error_code == ErrorCode.FENCED_INSTANCE_ID
    assert site.ask(beat("x", 1, instance_id="two")).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_zombie_of_a_member_that_left_for_a_while_is_fenced() -> None:
    """Its heartbeat was on its way when it closed."""
    site = with_static()
    site.ask(beat("a", -2, instance_id="one"))

    response = site.ask(beat("a", 1, {"t": [0, 1, 2, 3]}, "one"))

    assert response.error_code == ErrorCode.FENCED_MEMBER_EPOCH


def test_a_fenced_static_member_may_join_again_with_its_instance_id() -> None:
    """Otherwise it would be refused until its own session times out."""
    site = with_static()

    back = site.ask(join("a", instance_id="one"))

    assert (back.error_code, told(back)) == (ErrorCode.NONE, {"t": [0, 1, 2, 3]})


def test_static_member_that_leaves_for_good_gives_up_its_place() -> None:
    """-1 is an unsubscribe or an administrator's wish; nothing is kept."""
    site = with_static()

    site.ask(beat("a", -1, instance_id="one"))

    assert not site.group.state.members
    assert not site.group.state.static_members


def test_static_member_may_come_back_to_a_full_group() -> None:
    """The member already counts towards the limit."""
    site = Site(settings=GroupSettings(consumer_max_size=1))
    site.ask(join("a", instance_id="one"))
    site.ask(beat("a", -2, instance_id="one"))

    assert site.ask(join("a2", instance_id="one")).error_code == ErrorCode.NONE


def test_new_member_id_is_in_the_log_before_the_answer() -> None:
    """A coordinator that takes over would else fence the healthy process (G-07)."""
    site = with_static()
    site.ask(beat("a", -2, instance_id="one"))
    site.is_committing = False
    ticket = site.ticket()
    site.group.heartbeat(join("a2", instance_id="one"), CALLER, ticket)
    site.carry_out()
    assert ticket not in site.answers

    other = site.reloaded()

    assert other.ask(beat("a2", 1, instance_id="one")).error_code == ErrorCode.NONE
    site.commit()
    assert site.answers[ticket].member_id == "a2"
