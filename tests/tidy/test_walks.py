"""The way of a record, and of a member into its group, changes files no more often than it did."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.support.broker_process import ROOT

# How often the client's event loop goes from one file to another. ``python -m benchmarks.walks
# --lines`` shows the way. With the last change it was 63 and 736.
LIMITS = {"send": 66, "join": 750}
ATTEMPTS = 4


def _crossings() -> dict[str, int]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.walks", *LIMITS],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [
        line.partition(" client: ") for line in done.stdout.splitlines() if " client: " in line
    ]
    return {name.strip(): json.loads(figures)["file crossings"] for name, _, figures in lines}


def test_the_walks_of_a_client_cross_no_more_files_than_before() -> None:
    """A busy machine lengthens a walk, by timers that fire meanwhile; it never shortens one. So the
    shortest of several counts."""
    shortest = _crossings()
    assert shortest.keys() == LIMITS.keys()
    for _ in range(ATTEMPTS):
        if all(shortest[name] <= limit for name, limit in LIMITS.items()):
            break
        again = _crossings()
        shortest = {name: min(count, again[name]) for name, count in shortest.items()}

    assert all(0 < shortest[name] <= limit for name, limit in LIMITS.items()), shortest
