"""Bugs in the controller's decisions."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "smallest-id-is-preferred",
        "coordinator/controller/elections.py",
        "    preferred = state.replicas[0]\n",
        "    preferred = min(state.replicas)\n",
        "The preferred leader is the first of the replicas, whatever its id.",
        ("tests/coordinator/controller/test_elections.py",),
    ),
)
