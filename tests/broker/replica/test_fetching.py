"""The byte budget of a fetch and the decision to wait."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.replica.fetching import (
    Allowance,
    FetchBudget,
    FetchProgress,
    must_wait,
    rotated,
)


def test_partitions_are_served_in_order_until_the_budget_is_spent() -> None:
    """The client rotates the order; the broker must keep it."""
    budget = FetchBudget(100)
    allowed = []
    for size_bytes in (60, 40, 0):
        allowed.append(budget.allow(70))
        budget.spend(size_bytes)

    assert allowed == [Allowance(70, True), Allowance(40, False), Allowance(0, False)]


def test_the_first_partition_with_data_gives_a_whole_batch() -> None:
    """Else a batch larger than the limits stops its consumer for ever (N-12, KIP-74)."""
    budget = FetchBudget(10)
    assert budget.allow(5) == Allowance(5, True)
    budget.spend(0)
    assert budget.allow(5) == Allowance(5, True)
    budget.spend(1_000)

    assert budget.allow(5) == Allowance(0, False)
    assert budget.readable_bytes == 1_000


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_of_nothing_still_allows_the_first_batch(limit: int) -> None:
    """Negative limits come from clients; they must not become large ones."""
    assert FetchBudget(limit).allow(limit) == Allowance(0, True)


@pytest.mark.requirement("NET-21", "NET-22", "NET-23", "NET-24", "NET-25", "NET-26")
@pytest.mark.parametrize(
    ("progress", "max_wait_ms", "min_bytes", "waits"),
    [
        (FetchProgress(1, 0, False), 500, 1, True),
        (FetchProgress(2, 99, False), 500, 100, True),
        (FetchProgress(2, 100, False), 500, 100, False),
        (FetchProgress(1, 0, False), 0, 1, False),
        (FetchProgress(1, 0, False), -1, 1, False),
        (FetchProgress(0, 0, False), 500, 1, False),
        (FetchProgress(1, 0, True), 500, 1, False),
        (FetchProgress(1, 0, False), 500, 0, False),
    ],
)
def test_a_fetch_waits_only_while_waiting_can_help(
    progress: FetchProgress, max_wait_ms: int, min_bytes: int, waits: bool
) -> None:
    """The four reasons to answer at once, and the one to park."""
    assert must_wait(progress, max_wait_ms, min_bytes) == waits


@given(st.lists(st.integers(0, 50), max_size=8), st.integers(-20, 20))
def test_rotation_loses_no_partition(items: list[int], start: int) -> None:
    """Every partition is first once in as many fetches as there are partitions."""
    turned = rotated(items, start)

    assert sorted(turned) == sorted(items)
    if items:
        assert turned[0] == items[start % len(items)]
