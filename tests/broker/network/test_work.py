"""The work of one small produce and one small fetch, counted: the same on every machine.

The count of calls holds for every Python, that of bytecodes for the version that it was recorded
with, since each has bytecodes of its own. A change that adds a twentieth to either fails here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.protocol.records.twins import COMPILED
from tests.support.broker_process import ROOT

RECORDED_WITH = (3, 11)
# For each request: calls of functions, and bytecodes.
RECORDED = {
    "compiled": {
        "produce": (75.5, 1648.8),
        "produce of 16": (54.9, 1190.5),
        "fetch": (87.2, 1682.8),
    },
    "pure": {
        "produce": (104.5, 2456.8),
        "produce of 16": (83.9, 1998.5),
        "fetch": (96.2, 1905.8),
    },
}
LIMIT = 1.05
HOW = (
    "Find out what made them more. If the work is worth its price, write the new figures of "
    "`python -m tests.broker.network.work` (with OTTLA_PURE=1 for the pure ones) into RECORDED."
)


@pytest.mark.parametrize("way", RECORDED)
def test_a_small_request_costs_no_more_work_than_recorded(way: str) -> None:
    """A twentieth at a time, the path of every request once lost eight percent unseen."""
    if way == "compiled" and COMPILED is None:
        pytest.skip("nothing is compiled here")
    done = subprocess.run(
        [sys.executable, "-m", "tests.broker.network.work"],
        env={**os.environ, "OTTLA_PURE": "1" if way == "pure" else ""},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    too_much = {}
    for kind, (calls, bytecodes) in RECORDED[way].items():
        limits = {"calls": calls * LIMIT}
        if sys.version_info[:2] == RECORDED_WITH:
            limits["bytecodes"] = bytecodes * LIMIT
        for what, limit in limits.items():
            assert found[kind][what] > 0
            if found[kind][what] > limit:
                too_much[f"{what} for {kind}"] = (found[kind][what], f"at most {limit:.1f}")

    assert not too_much, f"{too_much} {HOW}"
