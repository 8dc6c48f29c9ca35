"""The whole broker under seeded chaos: kills, power cuts, failing disks, bad networks, bad clocks.

200 seeds, a thousand in the soak; each prints the command that replays it when it fails.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest

from tests.simulation.seeds import failures, printed_in_two_processes
from tests.simulation.single_broker import run
from tests.simulation.subject import build_broker

SEEDS = 200
SOAK_SEEDS = 1_000
BLOCK = 10
SOAK_BLOCK = 50
judged = partial(run, build=build_broker)


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_nothing_promised_is_lost_under_chaos(first: int) -> None:
    """Records, order, offsets, watermarks and answers survive; afterwards everything drains."""
    reached: Counter[str] = Counter()
    failed = failures(judged, range(first, first + BLOCK), reached)

    assert not failed, "\n\n".join(failed)
    # Chaos that reaches nothing proves nothing.
    assert reached["acknowledged"] > 300
    assert reached["starts"] > BLOCK


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("first", range(SEEDS, SOAK_SEEDS, SOAK_BLOCK))
def test_nothing_promised_is_lost_in_many_more_worlds(first: int) -> None:
    """Many more seeds, for failures that one seed in a hundred finds."""
    assert not failures(judged, range(first, first + SOAK_BLOCK), Counter())


def test_a_seed_is_one_history_of_the_real_broker_in_any_process() -> None:
    """Order of sets and hashes in the broker must not reach the wire or the disk (hazard P-12)."""
    code = (
        "from tests.simulation.single_broker import run\n"
        "from tests.simulation.subject import build_broker\n"
        "for seed in (1, 8, 9): print(run(seed, build_broker, 2.0).digest)"
    )
    first, second = printed_in_two_processes(code)

    assert first == second
    assert len(set(first)) == 3
