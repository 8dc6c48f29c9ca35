"""``python -m tests.simulation SEED`` replays one seed; ``--seeds A-B`` runs many.

``--seeds A-`` runs until it is interrupted, ``--minutes M`` for that long, from SEED or A on. Many
seeds end at the first that fails, with what replays it, unless ``--keep-going``; ``--jobs 2`` runs
two at a time, ``--each`` reports every one. What they did is summed up at the end, and when
interrupted. ``--twice`` runs each seed twice and compares the digests. ``--groups`` runs the
scenario of consumer groups, ``--cluster`` that of several brokers, ``--served`` the same on the
store of ``--processes``, ``--transactions`` that of transactional producers on them,
``--security`` that of the audit log and of delegation tokens, ``--toy`` the toy broker, to try the
simulator itself. Exit status 1 when any seed fails.
``--hazard R-01`` puts an old bug back into the cluster and succeeds at the first seed that finds
it; with ``--sound`` the same seeds run without the bug. ``--point N`` kills the coordinator of a
transaction at the Nth step of it, ``--old`` is for clients of the first protocol.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import time
from functools import partial
from itertools import count, takewhile
from typing import TYPE_CHECKING

from tests.simulation import lanes, single_broker
from tests.simulation.cluster import scenario as cluster
from tests.simulation.cluster import served
from tests.simulation.cluster.hazards import hunting
from tests.simulation.groups import story
from tests.simulation.security import scenario as security
from tests.simulation.subject import build_broker, build_toy
from tests.simulation.totals import Totals
from tests.simulation.transactions import matrix
from tests.simulation.transactions import scenario as transactions
from tests.simulation.transactions.hazards import hunting as transactional_hunting
from tests.simulation.transactions.hazards.patches import HAZARDS as TRANSACTIONAL_HAZARDS

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence
    from types import ModuleType

    from tests.simulation.world.world import Outcome


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("seed", nargs="?", type=int, help="one seed, told in detail")
    parser.add_argument("--seeds", metavar="A-B", help="all seeds from A to B, or from A- on")
    parser.add_argument("--minutes", type=float, help="one seed after the other for so long")
    parser.add_argument("--seconds", type=float, help="virtual seconds of chaos")
    parser.add_argument("--twice", action="store_true", help="run twice, compare the digests")
    parser.add_argument("--jobs", type=int, default=1, help="so many seeds at a time")
    parser.add_argument("--each", action="store_true", help="a line for each seed that is done")
    parser.add_argument("--keep-going", action="store_true", help="after a failure, too")
    parser.add_argument("--groups", action="store_true", help="the scenario of consumer groups")
    parser.add_argument("--cluster", action="store_true", help="the scenario of a cluster")
    parser.add_argument("--served", action="store_true", help="a cluster on a served store")
    parser.add_argument("--transactions", action="store_true", help="a cluster with transactions")
    parser.add_argument("--security", action="store_true", help="a cluster with logins")
    parser.add_argument("--hazard", metavar="ID", help="a known bug, put back into the cluster")
    parser.add_argument("--sound", action="store_true", help="what --hazard runs, without the bug")
    parser.add_argument("--point", type=int, help="kill a coordinator at this step")
    parser.add_argument("--old", action="store_true", help="with --point: the first protocol")
    parser.add_argument("--toy", action="store_true", help="the toy broker instead")
    parser.add_argument("-v", "--verbose", action="store_true", help="with the broker's own log")
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> int:
    """Do it."""
    arguments = parse(argv)
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.DEBUG if arguments.verbose else logging.CRITICAL,
        format="%(levelname)s %(name)s: %(message)s",
    )
    if not arguments.verbose:
        for handler in logging.getLogger().handlers:
            handler.setLevel(logging.CRITICAL + 1)
    run = scenario_of(arguments)
    if arguments.seconds is not None:
        run = partial(run, chaos_s=arguments.seconds)
    if arguments.seeds or arguments.minutes is not None:
        seeds = seeds_of(arguments)
        if arguments.hazard and not arguments.sound:
            return hunt(run, seeds, arguments.hazard)
        if arguments.twice:
            run = partial(run_twice, run)
        found = lanes.outcomes(run, seeds, max(1, arguments.jobs))
        return run_many(found, each=arguments.each, keeps_going=arguments.keep_going)
    outcome = run(arguments.seed if arguments.seed is not None else 1)
    for event in outcome.events:
        print(event)
    print_outcome(outcome)
    if arguments.twice:
        print("again:", run(outcome.seed).digest)
    return 0 if outcome.ok else 1


def scenario_of(arguments: argparse.Namespace) -> Callable[..., Outcome]:
    """The function that runs one seed."""
    if arguments.hazard:
        hunters = hunters_of(arguments.hazard)
        run = hunters.run_sound if arguments.sound else hunters.run
        return partial(run, hazard=arguments.hazard)
    if arguments.point is not None:
        return partial(matrix.run, target=arguments.point, second=not arguments.old)
    if arguments.cluster:
        return cluster.run
    if arguments.served:
        return served.run
    if arguments.transactions:
        return transactions.run
    if arguments.security:
        return security.run
    build = build_toy if arguments.toy else build_broker
    scenario = story if arguments.groups else single_broker
    return partial(scenario.run, build=build)


def hunters_of(hazard: str) -> ModuleType:
    """Where that bug is at home."""
    return transactional_hunting if hazard in TRANSACTIONAL_HAZARDS else hunting


def seeds_of(arguments: argparse.Namespace) -> Iterator[int]:
    """The seeds that were asked for, until the time is up."""
    first, dash, last = (arguments.seeds or f"{arguments.seed or 1}-").partition("-")
    endless = bool(dash) and not last
    seeds = count(int(first)) if endless else range(int(first), int(last or first) + 1)
    if arguments.minutes is None:
        return iter(seeds)
    deadline_s = time.monotonic() + 60.0 * arguments.minutes
    return takewhile(lambda _: time.monotonic() < deadline_s, seeds)


def hunt(run: Callable[[int], Outcome], seeds: Iterator[int], hazard: str) -> int:
    """Run until a seed finds the bug that was put back."""
    started = time.monotonic()
    tried = 0
    for seed in seeds:
        tried += 1
        outcome = run(seed)
        if not outcome.ok:
            sound = hunters_of(hazard).run_sound(seed, hazard)
            if not sound.ok:
                print(f"seed {seed} fails without {hazard}, too: {sound.violations[0]}")
                continue
            elapsed_s = time.monotonic() - started
            print(f"{hazard} found by seed {seed}, the {tried}. one, after {elapsed_s:.0f} s")
            print(f"  {outcome.violations[0]}")
            return 0
    print(f"{hazard} was not found by {tried} seeds")
    return 1


def run_twice(run: Callable[[int], Outcome], seed: int) -> Outcome:
    """Once more, to see whether all is the same."""
    outcome = run(seed)
    if run(seed).digest != outcome.digest:
        outcome.violations.append("digest: two runs of this seed have different digests")
    return outcome


def run_many(found: Generator[Outcome, None, None], *, each: bool, keeps_going: bool) -> int:
    """A line for each seed that fails, and the sums at the end, or when interrupted."""
    totals = Totals()
    started = time.monotonic()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for outcome in found:
            totals.add(outcome)
            if each:
                told = "ok" if outcome.ok else "FAILED"
                print(f"seed {outcome.seed} {told} {outcome.digest[:16]}", flush=True)
            if outcome.ok:
                continue
            many = len(outcome.violations)
            print(f"seed {outcome.seed}: {many} violations; {outcome.violations[0]}", flush=True)
            if not keeps_going:
                print(f"replay with: {outcome.command}")
                break
    except KeyboardInterrupt:
        print("interrupted")
    found.close()
    print(*totals.told(time.monotonic() - started), sep="\n", flush=True)
    return 1 if totals.failed else 0


def print_outcome(outcome: Outcome) -> None:
    """All about one seed."""
    print("options:", outcome.options)
    print("counts:", dict(outcome.counts))
    print(f"steps: {outcome.steps}, virtual seconds: {outcome.virtual_s:.1f}")
    print("digest:", outcome.digest)
    for violation in outcome.violations:
        print("VIOLATION:", violation)
    print("ok" if outcome.ok else f"FAILED: {outcome.command}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
