"""A few seeds of transactions on a cluster in every run of the suite; thousands in the soak.

``python -m tests.simulation --transactions SEED`` replays one.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest

from tests.simulation.seeds import failures, printed_in_two_processes
from tests.simulation.transactions.scenario import run

SEEDS = 5
# Enough for one transaction whose outcome its producer does not learn: one seed in five has one.
RARE_SEEDS = 60
SOAK_SEEDS = 3_000
SOAK_BLOCK = 100
# Of chaos, where the seed's own choice would be more.
SHORT_S = 8.0
short = partial(run, chaos_s=SHORT_S)


@pytest.mark.requirement("TXN-02", "TXN-03", "TXN-29", "TXN-30", "TXN-31", "TXN-33")
def test_transactions_are_atomic_under_chaos() -> None:
    """Committed records are read by all readers, once and whole, aborted ones by none, whichever
    process is killed, is paused or has a rival."""
    reached: Counter[str] = Counter()
    found = failures(short, range(SEEDS), reached)

    assert not found, "\n\n".join(found)
    # Chaos that reaches nothing proves nothing.
    assert reached["transactions ok"] > 10 * SEEDS
    assert reached["transactions fail"] > 2 * SEEDS
    assert reached["piped"] > 20
    rare = range(SEEDS, SEEDS + RARE_SEEDS)
    assert reached["transactions info"] or any(
        run(seed, SHORT_S).counts.get("transactions info") for seed in rare
    )


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("first", range(SEEDS, SOAK_SEEDS, SOAK_BLOCK))
def test_transactions_are_atomic_in_many_more_worlds(first: int) -> None:
    """Many more seeds, for failures that one seed in a hundred finds."""
    assert not failures(run, range(first, first + SOAK_BLOCK), Counter())


def test_a_seed_is_one_history_of_transactions_in_any_process() -> None:
    """A seed that cannot be replayed explains nothing (P-12)."""
    code = "from tests.simulation.transactions.scenario import run\nprint(run(8, 3.0).digest)"
    first, second = printed_in_two_processes(code)

    assert first == second != []
