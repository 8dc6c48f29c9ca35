"""The parameters of a teller, and how often it meets with a fault."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tests.simulation.history import Partition


class Habits(NamedTuple):
    """How often something is done, between 0 and 1. ``aborts``: the client decides to abort.
    ``late_ends``: EndTxn is held up on one connection and repeated on another. ``late_produces``: a
    Produce is held up, its sender gives the transaction up. ``deaf``: the answer to a Produce is
    taken for lost, and the transaction given up. ``dwell_ms``: between two requests of a
    transaction. ``forgets``: look up the coordinator again before a request."""

    aborts: float = 0.15
    late_ends: float = 0.0
    late_produces: float = 0.0
    late_ms: float = 400.0
    deaf: float = 0.0
    dwell_ms: float = 0.0
    forgets: float = 0.0


class Terms(NamedTuple):
    """The parameters of a teller. ``may_expire``: its id may be forgotten while it sleeps."""

    transactional_id: str
    partitions: list[Partition]
    timeout_ms: int
    pace_ms: float
    second: bool
    habits: Habits
    may_expire: bool = False


class Wanted(NamedTuple):
    """One record to write: number and source."""

    partition: Partition
    value: int
    source: int = 0
