"""Network cuts between the hosts of a real cluster: safe while they last, live after they heal."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.cluster.support.cuts import CUTS, HOSTS
from tests.cluster.support.namespaces import missing, network
from tests.support.broker_process import ROOT

if TYPE_CHECKING:
    from pathlib import Path

REASON = missing()
pytestmark = pytest.mark.skipif(REASON is not None, reason=REASON or "")


def cut_repeatedly(folder: Path, rounds: int, within_s: float) -> int:
    """Number of acknowledged records; fails with the program's output."""
    seed = random.randrange(10**6)
    with network(HOSTS) as made:
        command = [
            *made.launcher("client"),
            *(sys.executable, "-m", "tests.cluster.support.cuts"),
            *(str(os.getpid()), str(rounds), str(seed), str(folder)),
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=ROOT, timeout=within_s, check=False
        )
    assert done.returncode == 0, f"seed {seed}\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}"
    return int(done.stdout.splitlines()[-1])


@pytest.mark.timeout(400)
def test_every_kind_of_cut_once(tmp_path: Path) -> None:
    """Each is a way in which young clusters have lost records."""
    assert cut_repeatedly(tmp_path, len(CUTS), 300) > 100


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_a_hundred_cuts_lose_and_repeat_nothing(tmp_path: Path) -> None:
    """The order of what happens within a cut is different every time."""
    assert cut_repeatedly(tmp_path, 100, 7000) > 5_000
