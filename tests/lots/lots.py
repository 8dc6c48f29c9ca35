"""The lots that ``make test`` runs, in this order, and where each test belongs.

Every test that is neither an interop nor a soak run is in one of them: what no other lot names is
in ``REAL``.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
MARKS = "not interop and not soak"


class Lot(NamedTuple):
    """Files and folders, of which some are left out for other lots."""

    name: str
    paths: tuple[str, ...]
    # Tests at a time, those of a file after each other. With one, a crash of it is a failed test as
    # well, and the next ones are run.
    workers: int
    # Whether a machine that is busy with other things can make a test fail.
    sees_wall_clock: bool
    left_out: tuple[str, ...] = ()

    def arguments(self) -> list[str]:
        """For pytest."""
        shared = ["-m", MARKS, "-n", str(self.workers), "--dist", "loadfile"]
        return [*shared, *(f"--ignore={path}" for path in self.left_out), *self.paths]


# Nothing in these looks at a wall clock: what fails here fails always.
_SIMULATED = (
    *(
        f"tests/{name}"
        for name in (
            "protocol",
            "coordinator",
            "checker",
            "simulation",
            "client/state",
            "broker/replica",
            "broker/policy",
        )
    ),
    *(str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("tests/client/*_in_simulation.py"))),
)
# Spark computes on all cores by itself and takes a gigabyte. The others freeze and kill processes
# of which a majority must be heard in time.
_ALONE = ("tests/client/spark", "tests/cluster")

SIMULATED = Lot("simulated", _SIMULATED, workers=2, sees_wall_clock=False)
REAL = Lot("real", ("tests",), workers=2, sees_wall_clock=True, left_out=(*_SIMULATED, *_ALONE))
ALONE = Lot("alone", _ALONE, workers=1, sees_wall_clock=True)
LOTS = (SIMULATED, REAL, ALONE)


def arguments_for(node_ids: list[str]) -> list[str]:
    """For pytest: these tests, one at a time."""
    return ["-m", MARKS, "-n", "1", *node_ids]
