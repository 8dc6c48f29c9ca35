"""A few seeds of the whole cluster in every run of the suite; thousands in the soak.

``python -m tests.simulation --cluster SEED`` replays one.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest

from tests.simulation.cluster.scenario import run
from tests.simulation.seeds import failures, printed_in_two_processes

SEEDS = 12
SOAK_SEEDS = 3_000
BLOCK = 4
SOAK_BLOCK = 100
# Of chaos, where the seed's own choice would be more.
SHORT_S = 8.0
short = partial(run, chaos_s=SHORT_S)


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_a_cluster_keeps_its_promises_under_chaos(first: int) -> None:
    """No acknowledged record is lost, doubled or reordered, and all works again when it is calm."""
    reached: Counter[str] = Counter()
    found = failures(short, range(first, first + BLOCK), reached)

    assert not found, "\n\n".join(found)
    # Chaos that reaches nothing proves nothing.
    assert reached["acknowledged"] > 50 * BLOCK
    assert reached["controllers"] > BLOCK
    assert reached["shrinkings"] > BLOCK


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("first", range(SEEDS, SOAK_SEEDS, SOAK_BLOCK))
def test_a_cluster_keeps_its_promises_in_many_more_worlds(first: int) -> None:
    """Many more seeds, for failures that one seed in a hundred finds."""
    assert not failures(run, range(first, first + SOAK_BLOCK), Counter())


def test_a_seed_is_one_history_of_a_cluster_in_any_process() -> None:
    """Order of sets and hashes in no broker must reach the wire, the store or a disk (P-12)."""
    code = (
        "from tests.simulation.cluster.scenario import run\n"
        "for seed in (2, 8): print(run(seed, 3.0).digest)"
    )
    first, second = printed_in_two_processes(code)

    assert first == second
    assert len(set(first)) == 2
