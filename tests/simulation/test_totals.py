"""The sums that a run of many seeds ends with."""

from __future__ import annotations

from tests.simulation.totals import Totals
from tests.simulation.world.world import Outcome


def outcome(seed: int, counts: dict[str, int], *violations: str) -> Outcome:
    return Outcome(seed, list(violations), f"digest {seed}", 10, 2.0, counts, "", [])


def test_what_was_done_is_summed_up_by_its_kind() -> None:
    """A run that does not say how much it has tried says nothing."""
    totals = Totals()
    totals.add(outcome(1, {"fault kill": 2, "transactions ok": 5, "records": 9, "recovery ms": 7}))
    totals.add(outcome(2, {"fault kill": 1, "fault pause": 4, "transactions fail": 1}))
    totals.add(outcome(3, {"depose at marker": 1, "recovery ms": 5, "starts": 3}))

    assert totals.told(2.0)[:-1] == [
        "3 seeds, 0 failed []; 6 virtual s in 2 s, 3 virtual s per s",
        "anomalies: none",
        "transactions: committed 5, aborted 1; records: 9",
        "faults: pause 4, kill 3",
        "strikes: depose at marker 1",
        "also: steps 30, longest recovery ms 7, starts 3",
    ]


def test_anomalies_are_counted_by_their_names() -> None:
    """One seed may have several."""
    totals = Totals()
    totals.add(outcome(4, {}, "lost-write: 7 of t-0", "lost-write: 8 of t-0", "stuck: x"))

    assert totals.failed == [4]
    assert totals.told(1.0)[1] == "anomalies: lost-write 2, stuck 1"


def test_the_digest_of_all_does_not_depend_on_who_was_done_first() -> None:
    """With several lanes the order of completion is random."""
    first, second = Totals(), Totals()
    for seed in (1, 2, 3):
        first.add(outcome(seed, {}))
    for seed in (3, 1, 2):
        second.add(outcome(seed, {}))
    third = Totals()
    third.add(outcome(1, {}))

    assert first.digest() == second.digest() != third.digest()
