"""``python -m tests.lots [--minutes N] [LOT ...]``: what ``make test`` runs."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.lots.lots import LOTS, ROOT, arguments_for
from tests.lots.running import run_pytest
from tests.lots.verdict import Ran, final_failures, report, shown_by, to_try_again
from tests.requirements import Run, digest_of_tree, save_run

if TYPE_CHECKING:
    from collections.abc import Callable


def main(arguments: list[str]) -> int:
    """Run the lots; 1 if something has failed for good."""
    parser = argparse.ArgumentParser(prog="python -m tests.lots")
    parser.add_argument("--minutes", type=float, default=None, help="for everything together")
    names = [lot.name for lot in LOTS]
    parser.add_argument("lots", nargs="*", metavar="LOT", help=", ".join(names))
    options = parser.parse_args(arguments)
    if unknown := set(options.lots) - set(names):
        parser.error(f"no such lot: {', '.join(sorted(unknown))}")
    deadline_s = None if options.minutes is None else time.monotonic() + options.minutes * 60
    with tempfile.TemporaryDirectory() as folder:
        return _run(Path(folder), options.lots or names, deadline_s)


def _run(folder: Path, names: list[str], deadline_s: float | None) -> int:
    ran = []
    for lot in LOTS:
        if lot.name in names:
            record = folder / lot.name
            outcome = run_pytest(lot.arguments(), record, deadline_s)
            ran.append(Ran(lot, outcome))
            if outcome.is_overdue:
                break
    again = to_try_again(ran)
    second = None
    if again:
        tests = arguments_for([failure.node_id for failure in again])
        second = run_pytest(tests, folder / "again", deadline_s)
    if {lot.name for lot in LOTS} == set(names):
        # A run of only some lots does not prove all requirements.
        cut_short = any(one.was_cut_short for _, one in ran) or len(ran) < len(LOTS)
        save_run(ROOT, Run(digest_of_tree(ROOT), cut_short, tuple(shown_by(ran, second))))
    print("\n".join(report(ran, second)), flush=True)
    return 1 if final_failures(ran, second) else 0


def interruptible(work: Callable[[], int]) -> int:
    """Exit status of the lots; a signal lets this process clean up first."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        # Under nohup SIGHUP stays ignored.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _leave)
    try:
        return work()
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _leave(number: int, _: object) -> None:
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(interruptible(lambda: main(sys.argv[1:])))
