"""When processes start, stop and start again: decisions only, without processes."""

from __future__ import annotations

import pytest

from ottla.broker.processes.fleet import (
    KILL_MS,
    PAUSE_MS_MAX,
    SYNC_LOOK_MS,
    SYNC_MS_MAX,
    TURN_MS,
    AllServe,
    AskForSync,
    AskToStop,
    ChildState,
    Finished,
    Fleet,
    FleetAction,
    FleetPhase,
    Kill,
    Launch,
    Told,
)

IDS = {1: 11, 2: 12, 3: 13}


def without_words(actions: list[FleetAction]) -> list[FleetAction]:
    """What is done, not what is said."""
    return [action for action in actions if not isinstance(action, Told)]


def serving(count: int = 3) -> Fleet:
    """All processes serve since the time 0."""
    fleet = Fleet({place: IDS[place] for place in range(1, count + 1)})
    fleet.begin(0.0)
    for place in fleet.places:
        fleet.on_serving(place, 0.0)
    assert fleet.phase is FleetPhase.RUNNING
    return fleet


def test_all_start_together_and_are_announced_once() -> None:
    """The command says that it is ready when every address answers."""
    fleet = Fleet(IDS)

    assert fleet.begin(0.0) == [Launch(1), Launch(2), Launch(3)]
    assert fleet.on_serving(2, 1.0) == []
    assert fleet.on_serving(1, 2.0) == []
    assert fleet.on_serving(3, 3.0) == [AllServe()]


def test_a_process_that_cannot_start_ends_the_start() -> None:
    """A person reads the reason; half a machine would hide it."""
    fleet = Fleet(IDS)
    fleet.begin(0.0)
    fleet.on_serving(1, 1.0)

    actions = fleet.on_ended(2, 2.0, "has ended with status 1")

    assert without_words(actions) == [AskToStop(3), AskToStop(1)]
    assert fleet.on_ended(1, 3.0, "") == []
    assert fleet.on_ended(3, 4.0, "") == [Finished(1)]


def test_a_dead_process_starts_again_at_once_if_it_has_lived() -> None:
    """The others serve on."""
    fleet = serving()

    (told,) = fleet.on_ended(2, 60_000.0, "was ended by SIGKILL")

    assert isinstance(told, Told)
    assert told.text == "broker 12 was ended by SIGKILL; it starts again in 0.0 s"
    assert fleet.tick(60_000.0) == [Launch(2)]
    assert fleet.on_serving(2, 61_000.0) == []


def test_a_process_starts_at_most_once_a_second() -> None:
    """And ever more rarely while it does not come to serve: a broken disk is not mended by that."""
    fleet = serving(1)
    times: list[float] = []
    now_ms = 500.0
    fleet.on_ended(1, now_ms, "x")
    while len(times) < 9:
        if fleet.tick(now_ms) == [Launch(1)]:
            times.append(now_ms)
            fleet.on_ended(1, now_ms, "x")
        now_ms += 100.0

    pauses = [after - before for before, after in zip([0.0, *times], times, strict=False)]
    assert pauses[:5] == [1_000.0, 2_000.0, 4_000.0, 8_000.0, 16_000.0]
    assert set(pauses[5:]) == {PAUSE_MS_MAX}


def test_serving_makes_the_pause_short_again() -> None:
    """What was wrong has gone."""
    fleet = serving(1)
    now_ms = 0.0
    for _ in range(5):
        fleet.on_ended(1, now_ms, "x")
        now_ms += 60_000.0
        assert fleet.tick(now_ms) == [Launch(1)]
    fleet.on_serving(1, now_ms)
    fleet.on_ended(1, now_ms + 1.0, "x")

    assert fleet.tick(now_ms + 999.0) == []
    assert fleet.tick(now_ms + 1_000.0) == [Launch(1)]


def test_processes_stop_one_after_the_other() -> None:
    """Each hands over what it leads while others are there to take it."""
    fleet = serving()

    assert fleet.stop(0.0) == [AskToStop(3)]
    assert fleet.tick(100.0) == []
    assert fleet.on_ended(3, 200.0, "") == [AskToStop(2)]
    assert fleet.on_ended(2, 300.0, "") == [AskToStop(1)]
    assert fleet.on_ended(1, 400.0, "") == [Finished(0)]


def test_a_slow_stop_does_not_keep_the_others() -> None:
    """The grace period of a container is for all of them."""
    fleet = serving()
    fleet.stop(0.0)

    assert fleet.tick(TURN_MS - 1) == []
    assert fleet.tick(TURN_MS) == [AskToStop(2)]
    assert fleet.tick(TURN_MS + 1) == []
    assert fleet.tick(2 * TURN_MS) == [AskToStop(1)]


def test_many_processes_have_short_turns() -> None:
    """Sixteen have had theirs in half a minute."""
    fleet = Fleet({place: place for place in range(1, 17)})
    fleet.begin(0.0)
    for place in fleet.places:
        fleet.on_serving(place, 0.0)
    asked = fleet.stop(0.0)
    for now_ms in range(0, 30_000, 100):
        asked += fleet.tick(float(now_ms))

    assert asked == [AskToStop(place) for place in range(16, 0, -1)]


def test_a_second_request_stops_all_at_once() -> None:
    """The person is in a hurry."""
    fleet = serving()
    fleet.stop(0.0)

    assert fleet.stop(1.0) == [AskToStop(1), AskToStop(2)]
    assert fleet.stop(2.0) == []


def test_a_stop_during_the_start_ends_it() -> None:
    """A recovery may take minutes."""
    fleet = Fleet(IDS)
    fleet.begin(0.0)
    fleet.on_serving(1, 1.0)

    assert fleet.stop(2.0) == [AskToStop(3), AskToStop(2), AskToStop(1)]
    assert fleet.on_ended(1, 3.0, "") == []
    assert fleet.on_ended(3, 3.0, "") == []
    assert fleet.on_ended(2, 3.0, "") == [Finished(0)]


def test_processes_that_are_down_stay_down_after_a_stop() -> None:
    """A stop is final."""
    fleet = serving()
    fleet.on_ended(2, 0.0, "x")
    fleet.stop(1.0)

    assert fleet.tick(5_000.0) == []
    assert fleet.on_ended(3, 6_000.0, "") == [AskToStop(1)]
    assert fleet.on_ended(1, 7_000.0, "") == [Finished(0)]


def test_a_stop_while_all_are_down_ends_at_once() -> None:
    """There is no process whose end could be waited for."""
    fleet = serving(1)
    fleet.on_ended(1, 0.0, "x")

    assert fleet.stop(1.0) == [Finished(0)]


def test_a_failed_store_ends_all_of_them_with_status_1() -> None:
    """Without it they cannot even leave in order: those that hang are killed."""
    fleet = serving()

    assert fleet.fail(0.0) == [AskToStop(3), AskToStop(2), AskToStop(1)]
    assert fleet.tick(KILL_MS - 1) == []
    fleet.on_ended(2, KILL_MS - 1, "")
    assert fleet.tick(KILL_MS) == [Kill(1), Kill(3)]
    fleet.on_ended(1, KILL_MS, "")
    assert fleet.on_ended(3, KILL_MS, "") == [Finished(1)]


def restarted(fleet: Fleet, place: int, now_ms: float) -> list[FleetAction]:
    """The process has stopped, started, and is in all of its ISRs: what comes next."""
    assert fleet.on_ended(place, now_ms, "has ended with status 0") == [Launch(place)]
    assert fleet.on_serving(place, now_ms) == []
    assert fleet.tick(now_ms + SYNC_LOOK_MS) == [AskForSync(place)]
    return fleet.on_sync(place, 0, "", now_ms + SYNC_LOOK_MS)


def test_a_rolling_restart_takes_one_process_at_a_time() -> None:
    """Never are two of them away."""
    fleet = serving()

    assert without_words(fleet.restart(0.0)) == [AskToStop(1)]
    assert without_words(restarted(fleet, 1, 1_000.0)) == [AskToStop(2)]
    assert without_words(restarted(fleet, 2, 2_000.0)) == [AskToStop(3)]
    assert fleet.is_rolling
    assert without_words(restarted(fleet, 3, 3_000.0)) == []
    assert not fleet.is_rolling


def test_a_rolling_restart_waits_for_the_isrs() -> None:
    """A second replica that goes before the first is back would stop acks=all."""
    fleet = serving()
    fleet.restart(0.0)
    fleet.on_ended(1, 100.0, "x")
    fleet.on_serving(1, 200.0)

    assert fleet.tick(SYNC_LOOK_MS) == [AskForSync(1)]
    assert fleet.on_sync(1, 7, "t-0", 1_000.0) == []
    assert fleet.tick(1_100.0) == [AskForSync(1)]
    assert without_words(fleet.on_sync(1, 0, "", 2_000.0)) == [AskToStop(2)]


def test_a_rolling_restart_waits_for_a_process_that_has_died() -> None:
    """It counts as one that is away."""
    fleet = serving()
    fleet.restart(0.0)
    fleet.on_ended(1, 100.0, "x")
    fleet.on_serving(1, 200.0)
    fleet.on_ended(3, 300.0, "was ended by SIGKILL")

    assert fleet.on_sync(1, 0, "", 600.0) == []
    assert fleet.tick(1_300.0) == [Launch(3)]
    assert fleet.tick(2_000.0) == []
    fleet.on_serving(3, 2_100.0)
    assert fleet.tick(2_200.0) == [AskForSync(1)]
    assert without_words(fleet.on_sync(1, 0, "", 2_300.0)) == [AskToStop(2)]


def test_a_rolling_restart_begins_when_all_serve() -> None:
    """One that is down now comes back first."""
    fleet = serving()
    fleet.on_ended(3, 60_000.0, "x")

    assert without_words(fleet.restart(60_000.0)) == []
    assert fleet.tick(60_000.0) == [Launch(3)]
    assert without_words(fleet.on_serving(3, 61_000.0)) == [AskToStop(1)]


def test_a_rolling_restart_gives_up_and_leaves_the_others_alone() -> None:
    """What keeps one broker out of its ISRs may keep the next one out, too."""
    fleet = serving()
    fleet.restart(0.0)
    fleet.on_ended(1, 100.0, "x")
    fleet.on_serving(1, 200.0)

    (told,) = fleet.on_sync(1, 2, "t-0", SYNC_MS_MAX + 1)

    assert isinstance(told, Told)
    assert told.is_warning
    assert "broker 11" in told.text
    assert "not started again: 12, 13" in told.text
    assert not fleet.is_rolling
    assert fleet.tick(SYNC_MS_MAX + 1_000) == []


def test_a_death_during_a_rolling_restart_is_mended_as_any_other() -> None:
    """The restarted process itself may die before it is in sync."""
    fleet = serving()
    fleet.restart(0.0)
    fleet.on_ended(1, 100.0, "x")
    fleet.on_serving(1, 200.0)
    fleet.on_ended(1, 300.0, "was ended by SIGSEGV")

    assert fleet.tick(1_200.0) == [Launch(1)]
    fleet.on_serving(1, 1_500.0)
    assert fleet.tick(2_000.0) == [AskForSync(1)]
    assert without_words(fleet.on_sync(1, 0, "", 2_100.0)) == [AskToStop(2)]


@pytest.mark.parametrize("is_stopping", [True, False])
def test_only_one_thing_happens_at_a_time(is_stopping: bool) -> None:
    """A second rolling restart, or one during a stop, is refused with a word."""
    fleet = serving()
    if is_stopping:
        fleet.stop(0.0)
    else:
        fleet.restart(0.0)

    (told,) = fleet.restart(1.0)

    assert isinstance(told, Told)
    assert told.is_warning


def test_a_stop_ends_a_rolling_restart() -> None:
    """The process that starts just now stops with the others."""
    fleet = serving()
    fleet.restart(0.0)
    fleet.on_ended(1, 100.0, "x")

    assert fleet.stop(200.0) == [AskToStop(1)]
    assert fleet.on_sync(1, 0, "", 300.0) == []
    assert fleet.on_ended(1, 400.0, "") == [AskToStop(3)]
    assert fleet.state(1) is ChildState.DOWN


def test_a_process_that_hangs_is_ended_and_starts_again() -> None:
    """It serves no client, and keeps its port."""
    fleet = serving()

    assert without_words(fleet.on_hung(2)) == [Kill(2)]
    fleet.on_ended(2, 60_000.0, "was ended by SIGKILL")
    assert fleet.tick(62_000.0) == [Launch(2)]
    assert without_words(fleet.on_hung(2)) == [Kill(2)]


def test_a_process_that_hangs_is_left_alone_while_a_person_is_present() -> None:
    """At the first start, and while all stop, which has time limits of its own."""
    starting = Fleet(IDS)
    starting.begin(0.0)
    stopping = serving()
    stopping.stop(1.0)

    assert starting.on_hung(1) == stopping.on_hung(1) == stopping.on_hung(3) == []
