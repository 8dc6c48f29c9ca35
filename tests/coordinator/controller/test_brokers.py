"""Which of the brokers that came may have lost records."""

from __future__ import annotations

import pytest

from ottla.coordinator.controller.brokers import compare_brokers
from tests.coordinator.controller.scene import broker


@pytest.mark.parametrize(
    ("generation", "clean_stop_epoch", "is_unclean"),
    [(4, -1, True), (4, 3, False), (5, 3, False), (5, 4, True), (4, 4, True), (7, 5, True)],
    ids=[
        "killed",
        "clean-stop",
        "clean-stop-and-a-session-lost",
        "killed-and-a-session-lost",
        "impossible",
        "killed-twice",
    ],
)
def test_a_broker_has_lost_nothing_since_the_life_that_was_acted_upon(
    generation: int, clean_stop_epoch: int, is_unclean: bool
) -> None:
    """R-23: a life that began after a loss of power ended unseen, as its session did; the next one,
    of the same process, has lost nothing since then, but the controller never saw the loss."""
    found = compare_brokers({}, [broker(2, generation, clean_stop_epoch)], {2: 3})

    assert found.unclean_ids == (frozenset({2}) if is_unclean else frozenset())


def test_an_unknown_broker_may_have_lost_anything() -> None:
    """Also if it says otherwise."""
    found = compare_brokers({}, [broker(2, 4, 3)], {})

    assert found.unclean_ids == {2}
