"""Figures of several systems from the same rounds, as medians and ratios. Pure.

A ratio above 1 means that Ottla is ahead, for every figure: rates are divided by Kafka's, costs and
times divide them. The ratio is the median of the ratios of the single rounds, whose lowest and
highest stand beside it.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

OWN = "ottla"
RATIO, LOWEST, HIGHEST = "ratio to", "lowest ratio to", "highest ratio to"
SMALLEST = 1e-3


class Figure(NamedTuple):
    """The name of one measured number; ``more_is_better`` decides how it becomes a ratio."""

    name: str
    more_is_better: bool


class Notes:
    """What one system did: for each figure, its value in each round."""

    def __init__(self) -> None:
        self.values: dict[Figure, list[float]] = {}

    def rate(self, name: str, value: float) -> None:
        """Keep a value of which more is better."""
        self.values.setdefault(Figure(name, more_is_better=True), []).append(value)

    def cost(self, name: str, value: float) -> None:
        """Keep a value of which less is better."""
        self.values.setdefault(Figure(name, more_is_better=False), []).append(value)


class Row(NamedTuple):
    """One figure beside one other system."""

    name: str
    other: str
    ratio: float
    lowest: float
    highest: float


def table(seen: Mapping[str, Notes]) -> dict[str, float]:
    """Median of each figure by system, then ratio with its spread to each other system.

    Raises AssertionError if a system lacks a figure or a round, so that no ratio compares
    different rounds.
    """
    figures: dict[str, float] = {}
    for figure, own in seen[OWN].values.items():
        figures[f"{figure.name} {OWN}"] = statistics.median(own)
        for name, notes in seen.items():
            if name == OWN:
                continue
            other = notes.values.get(figure, [])
            assert len(other) == len(own), f"{name} has {len(other)} rounds of {figure.name}"
            ratios = [_ratio(figure, mine, theirs) for mine, theirs in zip(own, other, strict=True)]
            figures[f"{figure.name} {name}"] = statistics.median(other)
            figures[f"{figure.name} {RATIO} {name}"] = statistics.median(ratios)
            figures[f"{figure.name} {LOWEST} {name}"] = min(ratios)
            figures[f"{figure.name} {HIGHEST} {name}"] = max(ratios)
    return figures


def _ratio(figure: Figure, own: float, other: float) -> float:
    if own == other:
        return 1.0
    # A cost of zero counts as the smallest that is told apart, not as an endless lead.
    own, other = max(own, SMALLEST), max(other, SMALLEST)
    return own / other if figure.more_is_better else other / own


def rows(figures: Mapping[str, float]) -> Iterator[Row]:
    """The ratios in a table that ``table`` made, in its order."""
    for key, ratio in figures.items():
        name, found, other = key.partition(f" {RATIO} ")
        if found and not name.endswith((" lowest", " highest")):
            lowest = figures[f"{name} {LOWEST} {other}"]
            highest = figures[f"{name} {HIGHEST} {other}"]
            yield Row(name, other, ratio, lowest, highest)
