"""Power is cut everywhere, whenever: with ``ottla.flush.before.ack`` that excuses nothing."""

from __future__ import annotations

import pytest

from tests.simulation.cluster.hazards.mixes import few
from tests.simulation.cluster.options import NEVER_MS, ClusterOptions, draw_cluster_options
from tests.simulation.cluster.scenario import ClusterRun

SEEDS = 3
SOAK_SEEDS = 200


def violations(seed: int, chaos_s: float, *, flushes: bool = True) -> list[str]:
    """Two or three replicas, of which one or two must be in sync."""
    options = few(draw_cluster_options(seed), *["power_cut"] * 3, "pause", "cut_peer", "kill")
    options = options._replace(
        chaos_s=chaos_s,
        replicas=2 + seed % 2,
        min_insync=1 + seed // 2 % 2,
        topic_settings={
            "segment.bytes": "20000",
            "index.interval.bytes": "256",
            "flush.ms": NEVER_MS,
            "ottla.flush.before.ack": str(flushes).lower(),
        },
    )
    assert not options.cuts_power, "unclean stops come one at a time"
    return ClusterRun(seed, options).run().violations


@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_is_lost_when_all_lose_power(seed: int) -> None:
    """R-21, R-23, as far as one believes that machines lose power together."""
    assert violations(seed, 8.0) == []


def test_the_same_loses_records_where_nothing_is_flushed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chaos that could not have cost a record proves nothing."""
    monkeypatch.setattr(ClusterOptions, "cuts_power", property(lambda _options: False))
    found = [violations(seed, 8.0, flushes=False) for seed in range(SEEDS)]
    assert any("lost" in one for some in found for one in some)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_nothing_is_lost_in_many_more_worlds() -> None:
    """Many more seeds, for failures that one seed in a hundred finds."""
    found = {seed: violations(seed, 16.0) for seed in range(SEEDS, SOAK_SEEDS)}
    assert {seed: some for seed, some in found.items() if some} == {}
