"""Clusters on the store of ``ottla start --processes``: a few seeds here, hundreds in the soak.

``python -m tests.simulation --served SEED`` replays one.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest

from tests.simulation.cluster.served import run
from tests.simulation.seeds import failures

SEEDS = 6
SOAK_SEEDS = 600
SOAK_BLOCK = 50
SHORT_S = 6.0
short = partial(run, chaos_s=SHORT_S)


def test_a_served_store_keeps_a_cluster_together() -> None:
    """Cut connections, late answers and a store that stands still lose no record, and all works
    again when it is calm."""
    reached: Counter[str] = Counter()
    found = failures(short, range(SEEDS), reached)

    assert not found, "\n\n".join(found)
    # Chaos that reaches nothing proves nothing.
    assert reached["acknowledged"] > 50 * SEEDS
    assert reached["controllers"] > SEEDS
    assert reached["shrinkings"] > SEEDS


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("first", range(SEEDS, SOAK_SEEDS, SOAK_BLOCK))
def test_a_served_store_keeps_many_more_clusters_together(first: int) -> None:
    """Many more seeds, for failures that one seed in a hundred finds."""
    assert not failures(run, range(first, first + SOAK_BLOCK), Counter())


def test_a_seed_is_one_history() -> None:
    """What cannot be repeated cannot be mended."""
    assert run(7, 2.0).digest == run(7, 2.0).digest
