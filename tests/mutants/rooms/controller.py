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
    Mutant(
        "epoch-stays-when-the-leader-restarts",
        "coordinator/controller/leadership.py",
        "    if settled == state and state.leader not in now.restarted:\n",
        "    if settled == state:\n",
        "The leader epoch grows at every start of a broker, also of a lone broker.",
        (
            "tests/broker/controlling/test_restart.py",
            "tests/coordinator/controller/test_leadership.py",
        ),
    ),
    Mutant(
        "move-leaves-the-last-eligible-leader-behind",
        "coordinator/controller/moves.py",
        "        or has_lost_all\n",
        "",
        "Every replica with acknowledged records is in the ISR or among the eligible leaders.",
        ("tests/coordinator/controller/test_moves.py",),
    ),
    Mutant(
        "move-shrinks-before-all-are-in-sync",
        "coordinator/controller/moves.py",
        "    if not target or not state.has_state or not set(target) <= set(state.isr):\n",
        "    if not target or not state.has_state:\n",
        "A move goes on when all of its target are in sync.",
        ("tests/coordinator/controller/test_moves.py",),
    ),
    Mutant(
        "unclean-election-of-internal-topics",
        "coordinator/controller/settlement.py",
        "            allow_unclean_election=not topic.is_internal\n"
        "            and _allows_unclean(\n",
        "            allow_unclean_election=_allows_unclean(\n",
        "Committed group offsets never vanish in an unclean election.",
        ("tests/coordinator/controller/test_elections.py",),
    ),
    Mutant(
        "isr-shrinks-to-nobody",
        "coordinator/controller/leadership.py",
        "    if not isr:\n        return replace(state, leader=leader)\n",
        "",
        "The last member stays in the ISR, whatever happens to it.",
        ("tests/coordinator/controller/test_leadership.py",),
    ),
    Mutant(
        "state-written-whoever-leads",
        "coordinator/controller/settlement.py",
        "                writes.add([Check(path, state.partition_epoch)])\n",
        "                pass\n",
        "A change of the ISR by a broker's last life is found out.",
        ("tests/coordinator/controller/test_elections.py",),
    ),
)
