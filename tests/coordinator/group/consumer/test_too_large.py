"""A step of a group that the log cannot take fails alone, and leaves nothing behind (G-10)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.coordinator.group.common.settings import GroupSettings
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.timers import REVOCATION, SESSION, ConsumerTimer
from ottla.protocol.consumer_protocol import ConsumerSubscription, write_subscription
from ottla.protocol.errors import ErrorCode
from tests.coordinator.group.consumer.shard_site import Shard
from tests.coordinator.group.consumer.site import Site, beat, image_of, join, told

if TYPE_CHECKING:
    from ottla.coordinator.effects import LogRecord
    from ottla.coordinator.group.consumer.state import ConsumerGroupState
    from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

TOO_LARGE = ErrorCode.UNKNOWN_SERVER_ERROR


def _durable(state: ConsumerGroupState) -> dict[str, Any]:
    """All of a group that records tell."""
    fields = dict(vars(state))
    fields["members"] = {
        name: (member.subscription, member.progress) for name, member in state.members.items()
    }
    return fields


def _is_as_in_its_log(shard: Shard) -> bool:
    loaded = Shard(log=shard.log)
    for group_id in shard.shard.groups.keys() | loaded.shard.groups.keys():
        living, read = shard.shard.groups[group_id], loaded.shard.groups[group_id]
        assert isinstance(living, ConsumerGroup)
        assert isinstance(read, ConsumerGroup)
        assert _durable(living.state) == _durable(read.state)
    return True


def _of_group(
    group_id: str, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatRequest:
    request.group_id = group_id
    return request


def test_more_partitions_than_a_batch_holds_are_written_in_several() -> None:
    """A target and what is given of it are as large as one another: no reason to refuse a group."""
    shard = Shard()
    shard.image = image_of({"t": 140_000})

    answer = shard.consumer(join("m"))

    assert answer.error_code == ErrorCode.NONE
    assert {"t": list(range(140_000))} == told(answer)
    assert _is_as_in_its_log(shard)


def test_a_join_that_cannot_be_written_is_refused_and_nothing_else_happens() -> None:
    """The shard was loaded again at every heartbeat, for all of its groups."""
    shard = Shard()
    shard.consumer(_of_group("other", join("o")))
    before = list(shard.log)
    shard.image = image_of({"t": 300_000})

    answer = shard.consumer(join("m"))

    assert answer.error_code == TOO_LARGE
    assert "too many for batches" in str(answer.error_message)
    assert shard.log == before
    assert not shard.shard.must_reload
    assert shard.group is None
    assert shard.shard.next_deadline_ms() == 45_000
    assert shard.consumer(_of_group("other", beat("o", -1))).error_code == ErrorCode.NONE


def test_a_member_stays_while_it_subscribes_to_too_many_topics() -> None:
    """It keeps its assignment, and the group continues once the topics are fewer."""
    shard = Shard()
    shard.consumer(join("m"))
    before = list(shard.log)
    shard.image = image_of({"t": 300_000})

    for _ in range(5):
        shard.advance(30_000)
        assert shard.consumer(beat("m", 1)).error_code == TOO_LARGE
    assert shard.log == before
    assert _is_as_in_its_log(shard)

    shard.image = image_of({"t": 6})
    assert told(shard.consumer(beat("m", 1))) == {"t": [0, 1, 2, 3, 4, 5]}


def test_no_member_is_kept_from_leaving_by_an_expression_that_matches_too_much() -> None:
    """Whom the group cannot let go holds its partitions for ever."""
    shard = Shard()
    shard.consumer(join("a", regex="t.*"))
    shard.consumer(join("b", regex="t.*"))
    shard.image = image_of({f"t{'x' * 200}{index}": 1 for index in range(6_000)})

    left = shard.consumer(beat("a", -1))
    shard.advance(45_000)

    assert left.error_code == ErrorCode.NONE
    assert not shard.consumer_group().state.members


def test_a_static_member_whose_place_could_not_be_taken_keeps_it_for_its_time() -> None:
    """For a moment its timers belonged to the other member."""
    shard = Shard()
    shard.consumer(join("old", instance_id="i"))
    shard.consumer(beat("old", -2, instance_id="i"))
    shard.image = image_of({"t": 300_000})

    refused = shard.consumer(join("new", instance_id="i"))
    members = dict(shard.consumer_group().state.static_members)
    shard.image = image_of({"t": 4})
    shard.advance(45_000)

    assert refused.error_code == TOO_LARGE
    assert members == {"i": "old"}
    assert not shard.consumer_group().state.members
    assert _is_as_in_its_log(shard)


def test_a_member_that_was_not_told_to_revoke_is_not_removed_for_it() -> None:
    """The timer of a step that was taken back would fence a member that did nothing wrong."""
    site = Site({"t": 4})
    site.ask(join("a"))
    site.ask(join("b"))
    site.scope.batch_limit = lambda: 150

    assert site.ask(beat("a", 1, {"t": [0, 1, 2, 3]})).error_code == TOO_LARGE

    assert ("g", ConsumerTimer(REVOCATION, "a")) not in site.scope.deadlines
    assert ("g", ConsumerTimer(SESSION, "a")) in site.scope.deadlines


def test_a_group_too_large_to_be_a_classic_one_stays_and_the_last_one_may_leave() -> None:
    """The record of a classic group has all members in it, those of this kind one each."""
    shard = Shard()
    shard.settings = replace(shard.settings, max_record_bytes=3_000)
    shard.shard.scope.settings = shard.settings
    shard.consumer(join("new"))
    for number in range(6):
        # Of their own choice, so that each of them brings 400 bytes.
        answer = shard.join_classic("", metadata=_padded(400 + number))
        assert answer.error_code == ErrorCode.NONE

    assert shard.consumer(beat("new", -1)).error_code == ErrorCode.NONE

    state = shard.consumer_group().state
    assert len(state.members) == state.classic_count == 6
    assert _is_as_in_its_log(shard)


def _padded(size_bytes: int) -> bytes:
    return write_subscription(ConsumerSubscription(["t"], user_data=bytes(size_bytes)), 1)


def test_targets_of_many_members_are_written_in_portions_and_any_of_them_may_be_the_last() -> None:
    """A crash between two batches of a step must leave a group that can continue."""
    limit_bytes = 600
    shard = Shard()
    shard.image = image_of({"t": 190})
    names = [f"m{number:02}" for number in range(20)]
    for name in names[1:]:
        shard.consumer(_with_ranges(join(name)))
    shard.settings = replace(shard.settings, max_record_bytes=limit_bytes)
    shard.shard.scope.settings = shard.settings
    before = len(shard.log)

    # A member that sorts first shifts the ranges of all others.
    assert shard.consumer(_with_ranges(join(names[0]))).error_code == ErrorCode.NONE

    sizes = [len(key) + len(value or b"") for key, value in shard.log[before:]]
    assert sum(sizes) > limit_bytes
    for end in range(before, len(shard.log)):
        _goes_on(shard.log[:end], names)


def _with_ranges(request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatRequest:
    request.server_assignor = "range"
    return request


def _goes_on(log: list[LogRecord], names: list[str]) -> None:
    shard = Shard(log=log)
    shard.image = image_of({"t": 190})
    owned = {name: list[int]() for name in names}
    epochs = dict.fromkeys(names, 0)
    for _ in range(4):
        for name in names:
            answer = shard.consumer(
                beat(name, epochs[name], {"t": owned[name]}) if epochs[name] else join(name)
            )
            assert answer.error_code == ErrorCode.NONE
            epochs[name] = answer.member_epoch
            owned[name] = (told(answer) or {"t": owned[name]}).get("t", [])
    assert sorted(index for mine in owned.values() for index in mine) == list(range(190))


STEPS = st.tuples(
    st.sampled_from(["join", "static", "beat", "revoked", "leave", "away", "time", "topics"]),
    st.integers(0, 3),
    st.integers(120, 700),
)


@given(st.lists(STEPS, max_size=30))
@settings(max_examples=80, deadline=None)
def test_whatever_is_taken_back_the_group_is_what_its_log_says(
    steps: list[tuple[str, int, int]],
) -> None:
    """What is left of a step that failed is in no log, and would be gone at the next failover."""
    shard = Shard()
    shard.settings = GroupSettings()
    for deed, number, limit_bytes in steps:
        shard.shard.scope.batch_limit = partial(int, limit_bytes)
        name = f"m{number}"
        members = shard.consumer_group().state.members if shard.group is not None else {}
        epoch = members[name].progress.member_epoch if name in members else 1
        match deed:
            case "join":
                shard.consumer(join(name, regex="t.*" if number == 3 else None))
            case "static":
                shard.consumer(join(f"{name}-{limit_bytes % 2}", instance_id=name))
            case "beat":
                shard.consumer(beat(name, epoch))
            case "revoked":
                shard.consumer(beat(name, epoch, {}))
            case "leave":
                shard.consumer(beat(name, -1))
            case "away":
                shard.consumer(beat(f"{name}-{number % 2}", -2, instance_id=name))
            case "time":
                shard.advance(10_000)
            case "topics":
                shard.image = image_of({"t": 2 + 3 * number, "t2": 1 + number})
        assert not shard.shard.must_reload
        assert _is_as_in_its_log(shard)
