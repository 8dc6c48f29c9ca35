"""The command line of the simulator: how long it runs."""

from __future__ import annotations

import subprocess
import sys
from itertools import islice

import pytest

from tests.simulation.__main__ import parse, seeds_of


@pytest.mark.parametrize(
    ("command", "first_seeds"),
    [
        ("--seeds 5-6", [5, 6]),
        ("--seeds 5", [5]),
        ("--seeds 5000-", [5000, 5001, 5002]),
        ("--minutes 60", [1, 2, 3]),
        ("--minutes 60 7", [7, 8, 9]),
        ("--minutes 60 --seeds 8-9", [8, 9]),
        ("--minutes 0 --seeds 8-9", []),
    ],
)
def test_seeds_go_on_for_as_long_as_they_are_asked_for(
    command: str, first_seeds: list[int]
) -> None:
    """A night is worth more than a fixed number of seeds."""
    assert list(islice(seeds_of(parse(command.split())), 3)) == first_seeds


def test_a_run_ends_when_its_time_is_up() -> None:
    """The run reports how far it came."""
    command = [sys.executable, "-m", "tests.simulation", "--cluster"]
    done = subprocess.run(
        [*command, "--seconds", "1", "--minutes", "0.02", "3"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert "seeds, 0 failed []" in done.stdout
    assert not done.stdout.startswith("0 seeds")
