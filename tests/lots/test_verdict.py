"""Which tests are run again, and the final report."""

from __future__ import annotations

from tests.lots.lots import ALONE, REAL, SIMULATED
from tests.lots.recording import Failure, Record
from tests.lots.running import Outcome
from tests.lots.verdict import AGAIN_MAX, Ran, final_failures, report, to_try_again


def passed(*names: str) -> Outcome:
    return Outcome(0, Record([], [], frozenset(names)), 1.0)


def failed(*names: str) -> Outcome:
    failures = [Failure(name, f"brief of {name}", f"text of {name}") for name in names]
    return Outcome(1, Record(failures, []), 2.0)


def many(count: int) -> list[str]:
    return [f"t.py::test_{number}" for number in range(count)]


def test_what_looks_at_a_wall_clock_is_tried_again() -> None:
    """A busy machine may have starved it."""
    ran = [Ran(REAL, failed("a.py::b")), Ran(ALONE, failed("c.py::d"))]

    assert [one.node_id for one in to_try_again(ran)] == ["a.py::b", "c.py::d"]
    assert final_failures(ran, passed("a.py::b", "c.py::d")) == []


def test_what_passes_in_the_second_attempt_is_shown_with_its_first_failure() -> None:
    """Otherwise a flaky test would never be looked at."""
    lines = report([Ran(REAL, failed("a.py::b"))], passed("a.py::b"))

    assert "text of a.py::b" in lines
    assert "FAILED a.py::b - brief of a.py::b" in lines
    assert " passed " in lines[-1]


def test_what_is_skipped_in_the_second_attempt_has_failed() -> None:
    """Its first failure may be what made something look absent."""
    assert final_failures([Ran(REAL, failed("a.py::b"))], passed()) == [
        "FAILED a.py::b - brief of a.py::b (and not tried again: skipped)"
    ]


def test_a_crash_of_the_interpreter_is_final() -> None:
    """A crash means corrupted memory, not a busy machine."""
    brief = "worker 'gw0' crashed while running 'a.py::b'"
    ran = [Ran(REAL, Outcome(1, Record([Failure("a.py::b", brief, brief)], []), 1.0))]

    assert to_try_again(ran) == []
    assert final_failures(ran, None) == [f"FAILED a.py::b - {brief}"]


def test_a_test_that_never_ended_has_not_passed() -> None:
    """The exit status of pytest does not matter."""
    ran = [Ran(REAL, Outcome(0, Record([], ["a.py::b"]), 1.0))]

    assert final_failures(ran, None) == ['the lot "real" ended with 0; under way: a.py::b']


def test_what_fails_twice_has_failed() -> None:
    """By itself nothing starves."""
    ran = [Ran(REAL, failed("a.py::b", "a.py::c"))]

    second = failed("a.py::c")
    second = second._replace(record=second.record._replace(passed=frozenset({"a.py::b"})))

    assert final_failures(ran, second) == [
        "FAILED a.py::c - brief of a.py::c (for the second time)"
    ]


def test_a_simulated_test_has_one_attempt() -> None:
    """Simulated time makes the failure deterministic."""
    ran = [Ran(SIMULATED, failed("a.py::b"))]

    assert to_try_again(ran) == []
    assert final_failures(ran, None) == ["FAILED a.py::b - brief of a.py::b"]


def test_the_others_are_tried_again_beside_a_failure_for_good() -> None:
    """One run says all that is the matter."""
    ran = [Ran(SIMULATED, failed("a.py::b")), Ran(REAL, failed("c.py::d"))]

    assert [one.node_id for one in to_try_again(ran)] == ["c.py::d"]
    assert final_failures(ran, passed("c.py::d")) == ["FAILED a.py::b - brief of a.py::b"]


def test_many_failures_are_no_accident() -> None:
    """The report lists all of them at the end, whichever lot they are from."""
    few = [Ran(REAL, failed(*many(AGAIN_MAX)))]
    more = [*few, Ran(ALONE, failed("c.py::d"))]

    assert len(to_try_again(few)) == AGAIN_MAX
    assert to_try_again(more) == []
    assert len(final_failures(more, None)) == AGAIN_MAX + 1


def test_a_file_that_could_not_be_collected_has_failed() -> None:
    """Collection would fail in the second attempt as well."""
    ran = [Ran(REAL, failed("a.py"))]

    assert to_try_again(ran) == []
    assert final_failures(ran, None) == ["FAILED a.py - brief of a.py"]


def test_a_lot_that_was_cut_short_has_failed() -> None:
    """There are tests of which nothing is known."""
    crashed = Outcome(-11, Record([], ["a.py::b"]), 1.0)
    overdue = Outcome(2, Record([Failure("c.py::d", "brief", "")], ["a.py::b"]), 1.0, True)

    assert final_failures([Ran(REAL, crashed)], None) == [
        'the lot "real" ended with -11; under way: a.py::b'
    ]
    assert to_try_again([Ran(REAL, overdue)]) == []
    assert final_failures([Ran(REAL, overdue)], None) == [
        'the lot "real" found no end in time; under way: a.py::b',
        "FAILED c.py::d - brief",
    ]


def test_a_second_attempt_that_was_cut_short_excuses_no_test() -> None:
    """A test that was not run again has not passed."""
    crashed = Outcome(3, Record([], ["a.py::b"]), 1.0)

    assert final_failures([Ran(REAL, failed("a.py::b"))], crashed) == [
        "the second attempt ended with 3; under way: a.py::b"
    ]


def test_a_status_without_a_failed_test_is_a_failure() -> None:
    """Something complained when all was over."""
    silent = Outcome(1, Record([], [], frozenset({"a.py::b"})), 1.0)

    assert final_failures([Ran(REAL, silent)], None) == [
        'the lot "real" ended with status 1, see above'
    ]
    assert final_failures([Ran(REAL, failed("a.py::b"))], silent) == [
        "the second attempt ended with status 1, see above"
    ]


def test_the_end_names_what_has_failed() -> None:
    """The last lines are all that a developer sees of a long output."""
    assert report([Ran(REAL, failed(*many(9)))], None)[-1].startswith("FAILED t.py::test_8")
