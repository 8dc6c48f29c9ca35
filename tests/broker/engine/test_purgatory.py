"""Parked requests: answered exactly once, outside of partition changes, and never left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.broker.support.scratch import Connection, Room

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.requirement("NET-28")
def test_a_release_answers_the_waiter_without_polling() -> None:
    """acks=all is answered by the follower's fetch, not by a timer that looks now and then."""
    room = Room()
    room.park("produce")
    room.ready.add("key")
    room.waiting.release("key")
    room.deferred.run()

    assert room.answers == ["produce"]
    assert room.clock.now_ms() == 0
    room.assert_at_rest()


@pytest.mark.requirement("NET-26")
def test_a_waiter_without_progress_is_answered_at_its_deadline() -> None:
    """A consumer with min_bytes beyond what there is gets what there is after max_wait."""
    room = Room()
    room.park("fetch", deadline_ms=500)
    room.waiting.release("key")
    room.deferred.run()
    room.clock.advance_to(499)
    assert room.answers == []

    room.clock.advance_to(520)
    assert room.answers == ["fetch expired"]
    room.assert_at_rest()


@pytest.mark.requirement("NET-27")
def test_a_request_that_can_be_answered_already_is_not_parked() -> None:
    """Data that came between the read and the parking would otherwise wait for the next append."""
    room = Room()
    room.ready.add("key")
    waiter = room.park("fetch")

    assert room.answers == ["fetch"]
    assert waiter.done
    room.assert_at_rest()


def test_a_caller_that_has_just_looked_is_not_made_to_look_again() -> None:
    """Reading a thousand partitions twice for each idle poll is half of a consumer's cost."""
    room = Room()
    asked: list[int] = []

    def try_complete() -> bool:
        asked.append(1)
        return True

    waiter = room.waiting.park(["key"], 500, try_complete, lambda: None, just_asked=True)
    assert (asked, waiter.done) == ([], False)

    room.waiting.release("key")
    room.deferred.run()
    assert asked == [1]
    room.assert_at_rest()


def test_a_key_that_is_watched_is_not_watched_twice() -> None:
    """A consumer waits for a megabyte of a thousand partitions, and each record wakes it."""
    room = Room()
    waiter = room.park("fetch")
    for _ in range(3):
        room.waiting.watch_also(waiter, ["other", "key", "other"])

    assert waiter.keys == ("key", "other")
    room.ready.add("key")
    room.waiting.release("other")
    room.deferred.run()
    assert room.answers == ["fetch"]
    room.assert_at_rest()


def test_a_release_never_completes_inside_the_caller() -> None:
    """The caller is in the middle of an append; a completion there sees half of it (N-10)."""
    room = Room()
    room.park("fetch")
    room.ready.add("key")
    room.waiting.release("key")

    assert room.answers == []


def test_a_completion_that_releases_another_key_is_not_nested() -> None:
    """Chains of completions are a recursion in disguise."""
    room = Room()
    depth: list[int] = [0]
    deepest: list[int] = []

    def completion(next_key: str) -> Callable[[], bool]:
        def try_complete() -> bool:
            if "go" not in room.ready:
                return False
            depth[0] += 1
            room.waiting.release(next_key)
            deepest.append(depth[0])
            depth[0] -= 1
            return True

        return try_complete

    for index in range(5):
        room.waiting.park([index], 500, completion(str(index + 1)), lambda: None)
        room.waiting.park([str(index)], 500, completion(str(index)), lambda: None)
    room.ready.add("go")
    for index in range(5):
        room.waiting.release(index)
    room.deferred.run_all()

    assert max(deepest) == 1
    assert len(deepest) == 9


def test_a_waiter_on_many_keys_is_answered_once_and_leaves_all_of_them() -> None:
    """A fetch over a hundred partitions is one request."""
    room = Room()
    room.park("fetch", keys=("a", "b", "c", "a"))
    room.ready.add("a")
    for key in ("a", "b", "c"):
        room.waiting.release(key)
    room.deferred.run_all()

    assert room.answers == ["fetch"]
    room.assert_at_rest()


def test_many_releases_are_one_question() -> None:
    """A fetch over a hundred partitions must not be read a hundred times for one turn."""
    room = Room()
    asked: list[int] = []

    def try_complete() -> bool:
        asked.append(1)
        return False

    room.waiting.park(["a", "b", "c"], 500, try_complete, lambda: None)
    for key in ("a", "b", "c", "a"):
        room.waiting.release(key)
    room.deferred.run_all()

    assert len(asked) == 2


def test_a_completion_may_end_another_of_its_turn() -> None:
    """Its answer fails and closes the connection, to which the next waiter belongs as well."""
    room = Room()
    connection = Connection()

    def close() -> bool:
        if room.ready:
            connection.close()
        return bool(room.ready)

    room.waiting.park(["key"], 500, close, lambda: None, connection)
    room.park("second", owner=connection)
    room.ready.add("key")
    room.waiting.release("key")
    room.deferred.run_all()

    assert room.answers == []
    room.assert_at_rest()


def test_a_disconnect_takes_all_waiters_of_the_connection_away() -> None:
    """Waiters of the dead are the leak that grows until the restart (N-09)."""
    room = Room()
    gone, staying = Connection(), Connection()
    room.park("one", owner=gone)
    room.park("two", keys=("other",), owner=gone)
    room.park("three", owner=staying)
    gone.close()
    room.ready.update(("key", "other"))
    room.waiting.release("key")
    room.waiting.release("other")
    room.deferred.run()

    assert room.answers == ["three"]
    room.assert_at_rest()


def test_a_connection_is_asked_once_to_report_its_end() -> None:
    """A callback per request is a list that grows for as long as the connection lives."""
    room = Room()
    connection = Connection()
    for _ in range(100):
        room.park("fetch", owner=connection).cancel()

    assert len(connection.callbacks) == 1


def test_a_request_of_a_closed_connection_is_not_parked() -> None:
    """The connection has already run its close callbacks, so the request would stay parked for
    ever."""
    room = Room()
    connection = Connection()
    connection.close()

    assert room.park("fetch", owner=connection).done
    room.assert_at_rest()


def test_a_cancelled_waiter_stays_silent() -> None:
    """Its place in the connection's answers may belong to another request by now."""
    room = Room()
    waiter = room.park("fetch")
    room.ready.add("key")
    room.waiting.release("key")
    waiter.cancel()
    waiter.cancel()
    room.deferred.run()
    room.clock.advance_to(1_000)

    assert room.answers == []
    room.assert_at_rest()


def test_progress_noted_before_the_deadline_wins_over_it() -> None:
    """The records were replicated in time; a timeout would make the producer send them again."""
    room = Room()
    room.park("produce", deadline_ms=10)
    room.ready.add("key")
    room.waiting.release("key")
    room.clock.advance_to(10)

    assert room.answers == ["produce"]
    room.deferred.run()
    room.assert_at_rest()


def test_a_failing_waiter_does_not_silence_the_others() -> None:
    """One bad request must not hold up the answers to all others on the partition."""
    room = Room()
    broken = [True]

    def fail() -> bool:
        if broken:
            broken.pop()
            return False
        raise ZeroDivisionError

    room.waiting.park(["key"], 500, fail, lambda: room.answers.append("failed expired"))
    room.park("good")
    room.ready.add("key")
    room.waiting.release("key")
    with pytest.raises(ZeroDivisionError):
        room.deferred.run()
    room.deferred.run()

    assert room.answers == ["good"]
    room.clock.advance_to(1_000)
    assert room.answers == ["good", "failed expired"]
    room.assert_at_rest()


def test_a_great_wake_up_is_cut_into_turns() -> None:
    """Ten thousand consumers of one partition must not stop the loop for all the others."""
    room = Room(drain_max=10)
    for index in range(35):
        room.park(str(index))
    room.ready.add("key")
    room.waiting.release("key")
    sizes = []
    while room.deferred.run():
        sizes.append(len(room.answers))

    assert sizes == [10, 20, 30, 35]
    assert room.answers == [str(index) for index in range(35)]


def test_a_release_without_waiters_costs_nothing() -> None:
    """Most appends find no waiter."""
    room = Room()
    room.waiting.release("key")

    assert room.deferred.calls == []


def test_close_forgets_everyone() -> None:
    """Shutdown must not leave timers that call into closed logs."""
    room = Room()
    room.park("one")
    room.park("two", keys=())
    room.park("three", owner=Connection())
    room.waiting.release("key")
    room.waiting.close()
    room.deferred.run()
    room.clock.advance_to(1_000)

    assert room.answers == []
    room.assert_at_rest()
