"""The lots that ``make test`` runs, in this order, and where each test belongs.

Every test that is neither an interop nor a soak run is in one of them.
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
        # In the order of the paths: a file with few tests may take the longest.
        shared.append("--no-loadscope-reorder")
        return [*shared, *(f"--ignore={path}" for path in self.left_out), *self.paths]


def _tests_of_pure_modules() -> list[str]:
    """``test_x.py`` of each ``x.py`` that calls itself pure, outside of the folders below."""
    found = []
    for package in ("broker", "client", "wire"):
        for path in sorted((ROOT / "tests" / package).rglob("test_*.py")):
            relative = path.relative_to(ROOT / "tests")
            if "spark" in relative.parts:
                continue
            source = ROOT / relative.with_name(relative.name.removeprefix("test_"))
            if relative.parts[:2] in (("broker", "replica"), ("broker", "policy")):
                continue
            if source.is_file() and "Pure." in source.read_text("utf-8").split('"""')[1]:
                found.append(f"tests/{relative.as_posix()}")
    return found


# Nothing in these looks at a wall clock: what fails here fails always.
_SIMULATED = (
    *(
        f"tests/{name}"
        for name in (
            "protocol",
            "coordinator",
            "checker",
            "simulation",
            "client/group/assignors",
            "broker/replica",
            "broker/policy",
        )
    ),
    *(
        str(path.relative_to(ROOT))
        for path in sorted(ROOT.glob("tests/client/**/*_in_simulation.py"))
    ),
    *_tests_of_pure_modules(),
)
# Spark computes on all cores by itself and takes a gigabyte. The files freeze brokers and stores,
# cut them off and measure how long service is interrupted; the last one installs into this
# environment.
_ALONE = (
    "tests/client/spark",
    *(
        f"tests/cluster/test_{name}.py"
        for name in ("cuts", "frozen", "lost_ensemble", "rolling_restart", "readme")
    ),
)
# The slowest first: with one of them left at the end, all workers but one would have nothing to do.
_REAL = tuple(
    f"tests/{name}"
    for name in (
        "interop",
        "cluster",
        "answers",
        "compose",
        "deploy",
        "zookeeper",
        "client",
        "broker",
        "wire",
        "why",
        "ottla",
        "lots",
        "mutants",
        "tidy",
    )
)

SIMULATED = Lot("simulated", _SIMULATED, workers=2, sees_wall_clock=False)
# More than there are cores: most of the time these wait for each other and for time to pass.
REAL = Lot("real", _REAL, workers=3, sees_wall_clock=True, left_out=(*_SIMULATED, *_ALONE))
ALONE = Lot("alone", _ALONE, workers=1, sees_wall_clock=True)
LOTS = (SIMULATED, REAL, ALONE)


def arguments_for(node_ids: list[str]) -> list[str]:
    """For pytest: these tests, one at a time."""
    return ["-m", MARKS, "-n", "1", *node_ids]
