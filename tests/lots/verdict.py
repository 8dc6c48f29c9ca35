"""The verdict on all lots: which tests are run again, and the final report.

A machine that is busy with other things can starve a process beyond any patience, and a test that
looks at a wall clock fails then without a defect. Such a test is run once more, by itself, after
all others. A test that fails twice has a defect; one that failed once is shown, so that it gets
looked at. In simulation time is part of the test, so a failure there is final.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tests.requirements import FAILED, PASSED, SKIPPED, Shown

if TYPE_CHECKING:
    from tests.lots.lots import Lot
    from tests.lots.recording import Failure
    from tests.lots.running import Outcome

# More than these are no accident.
AGAIN_MAX = 8
TEXT_LINES_MAX = 80


class Ran(NamedTuple):
    """A lot and its outcome."""

    lot: Lot
    outcome: Outcome


def to_try_again(ran: list[Ran]) -> list[Failure]:
    """The tests that get a second attempt; none if they are too many to be accidents, or if no time
    is left. Where something else failed for good they are run again all the same: one run has to
    give a verdict on each test."""
    if any(outcome.is_overdue for _, outcome in ran):
        return []
    found = [
        failure
        for lot, outcome in ran
        if lot.sees_wall_clock
        for failure in outcome.record.failures
        # A file that cannot be imported stays so, and no busy machine makes an interpreter crash.
        if "::" in failure.node_id and not _is_crash(failure)
    ]
    return found if len(found) <= AGAIN_MAX else []


def shown_by(ran: list[Ran], second: Outcome | None) -> list[Shown]:
    """The final outcome of every test that is marked with rows of the specification."""
    found: dict[str, Shown] = {}
    for outcome in [*(one.outcome for one in ran), *([second] if second is not None else [])]:
        record = outcome.record
        failed = {failure.node_id for failure in record.failures}
        for node_id, rows in record.rows.items():
            was = found.get(node_id)
            came = PASSED if node_id in record.passed else SKIPPED
            if node_id in failed or node_id in record.under_way:
                came = FAILED
            elif came == SKIPPED and was is not None:
                # Its first failure may be what made something look absent.
                came = was.outcome
            found[node_id] = Shown(node_id, rows, came, record.used.get(node_id, ()))
    return list(found.values())


def final_failures(ran: list[Ran], second: Outcome | None) -> list[str]:
    """A line for each: what has failed for good."""
    tried = {failure.node_id for failure in to_try_again(ran)} if second is not None else set()
    failed_twice = second.record.failures if second is not None else []
    lines = []
    for lot, outcome in ran:
        lines += _cut_short(f'the lot "{lot.name}"', outcome)
        lines += [_line(one) for one in outcome.record.failures if one.node_id not in tried]
        if outcome.status != 0 and not outcome.record.failures and not outcome.was_cut_short:
            lines.append(f'the lot "{lot.name}" ended with status {outcome.status}, see above')
    lines += [f"{_line(one)} (for the second time)" for one in failed_twice]
    if second is not None:
        known = {failure.node_id for failure in failed_twice} | set(second.record.under_way)
        lines += [
            f"{_line(one)} (and not tried again: skipped)"
            for one in to_try_again(ran)
            if one.node_id not in known | second.record.passed and not second.was_cut_short
        ]
        lines += _cut_short("the second attempt", second)
        if second.status != 0 and not failed_twice and not second.was_cut_short:
            lines.append(f"the second attempt ended with status {second.status}, see above")
    return lines


def _is_crash(failure: Failure) -> bool:
    """Of a process that ran tests; so pytest-xdist says it."""
    return failure.brief.startswith("worker '")


def _cut_short(what: str, outcome: Outcome) -> list[str]:
    if not outcome.was_cut_short:
        return []
    reason = "found no end in time" if outcome.is_overdue else f"ended with {outcome.status}"
    return [f"{what} {reason}; under way: {', '.join(outcome.record.under_way) or 'nothing'}"]


def _line(failure: Failure) -> str:
    return f"FAILED {failure.node_id} - {failure.brief}"


def _tail(text: str) -> list[str]:
    lines = text.splitlines()
    return lines if len(lines) <= TEXT_LINES_MAX else ["...", *lines[-TEXT_LINES_MAX:]]


def report(ran: list[Ran], second: Outcome | None) -> list[str]:
    """The lines that are printed after everything else, the most important last."""
    lines: list[str] = []
    final = final_failures(ran, second)
    if second is not None:
        firsts = to_try_again(ran)
        for failure in firsts:
            lines += ["", _rule(f"first failure of {failure.node_id}"), *_tail(failure.text)]
        lines += ["", _rule("tests that needed a second attempt")]
        lines += [_line(failure) for failure in firsts]
        lines.append("Each is a defect of the test, unless the machine was starved: look at it.")
    lines += ["", _rule("lots")]
    lines += [f"{lot.name}: {outcome.seconds:.0f} s" for lot, outcome in ran]
    if second is not None:
        lines.append(f"second attempt: {second.seconds:.0f} s")
    return [*lines, "", _rule("failed" if final else "passed"), *final]


def _rule(title: str) -> str:
    return f" {title} ".center(100, "=")
