"""Seeds in processes of their own: the same stories, and one that crashes is one that failed.

All of it in a process without other threads, since it forks.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing to fork with")

OUTCOMES = """
import os
import signal
from tests.simulation import lanes
from tests.simulation.world.world import Outcome

def run(seed):
    if seed == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    if seed == 99:
        signal.pause()
    return Outcome(seed, [], str(seed * 7), 1, 1.0, {"pid": os.getpid()}, "", ["e" * 300_000])

found = {one.seed: one for one in lanes.outcomes(run, iter(range(1, 7)), 3)}
assert sorted(found) == [1, 2, 3, 4, 5, 6], found
assert [one.digest for seed, one in sorted(found.items()) if seed != 3] == "7 14 28 35 42".split()
assert len({one.counts["pid"] for seed, one in found.items() if seed != 3}) == 5
assert found[1].counts["pid"] == os.getpid()
print(found[3].violations)

endless = lanes.outcomes(run, iter([1, 99, 2, 4]), 2)
print(next(endless).seed, next(endless).seed)
endless.close()
try:
    print(os.waitpid(-1, os.WNOHANG))
except ChildProcessError:
    print("nobody is left")
"""


def output(*arguments: str) -> list[str]:
    """Of the interpreter with these, line by line."""
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=300, check=False
    )
    assert not done.stderr, done.stderr
    return done.stdout.splitlines()


def test_every_seed_is_told_of_once_whatever_becomes_of_its_process() -> None:
    """The first runs where it is asked for, and who gives up leaves no process behind."""
    assert output("-c", OUTCOMES) == [
        "['crash: the process of this seed ended with status -9']",
        "1 2",
        "nobody is left",
    ]


def test_a_seed_is_the_same_story_in_any_lane() -> None:
    """A failure found by one of two parallel lanes must be replayable alone."""
    command = ("-m", "tests.simulation", "--toy", "--seconds", "1", "--each", "--seeds")
    one = output(*command, "1-4", "--jobs", "1")
    two = output(*command, "1-4", "--jobs", "2")

    assert sorted(one[:4]) == sorted(two[:4])
    assert one[-1].startswith("digest of all: ")
    assert one[-1] == two[-1]
