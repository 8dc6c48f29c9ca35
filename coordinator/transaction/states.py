"""The states of a transactional id and the allowed transitions (TXN-35).

The responses by state are in initialising.py, adding.py and ending.py.

| state             | stands for                              | comes after                        |
|-------------------|-----------------------------------------|------------------------------------|
| Empty             | a producer id, no transaction yet       | nothing, Empty, Complete*          |
| Ongoing           | partitions have been added              | Empty, Ongoing, Complete*          |
| PrepareCommit     | committed; markers are on their way     | Ongoing                            |
| PrepareAbort      | aborted; markers are on their way       | Ongoing; under version 2 Empty and |
|                   |                                         | Complete* too (nothing was added)  |
| CompleteCommit    | every partition has its marker          | PrepareCommit                      |
| CompleteAbort     | every partition has its marker          | PrepareAbort                       |
| Dead              | the id expires; never written           | Empty, Complete*                   |
| PrepareEpochFence | the coordinator is about to abort and   | Ongoing                            |
|                   | to raise the epoch; never written       |                                    |
"""

from __future__ import annotations

from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class TransactionState(IntEnum):
    """The numbers are those of the log; ``label`` is the name in Kafka's tools."""

    label: str

    def __new__(cls, number: int, label: str = "") -> TransactionState:
        member = int.__new__(cls, number)
        member._value_ = number
        member.label = label
        return member

    EMPTY = 0, "Empty"
    ONGOING = 1, "Ongoing"
    PREPARE_COMMIT = 2, "PrepareCommit"
    PREPARE_ABORT = 3, "PrepareAbort"
    COMPLETE_COMMIT = 4, "CompleteCommit"
    COMPLETE_ABORT = 5, "CompleteAbort"
    DEAD = 6, "Dead"
    PREPARE_EPOCH_FENCE = 7, "PrepareEpochFence"

    @property
    def is_prepared(self) -> bool:
        """Whether the outcome is decided, but not known to every partition."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_complete(self) -> bool:
        return self in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)

    @property
    def is_idle(self) -> bool:
        """Whether no transaction is open: one may begin, and the id may expire."""
        return self is TransactionState.EMPTY or self.is_complete


_IDLE = frozenset(state for state in TransactionState if state.is_idle)

VALID_PREVIOUS: Mapping[TransactionState, frozenset[TransactionState]] = MappingProxyType(
    {
        TransactionState.EMPTY: _IDLE,
        TransactionState.ONGOING: _IDLE | {TransactionState.ONGOING},
        TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
        TransactionState.PREPARE_ABORT: _IDLE | {TransactionState.ONGOING},
        TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
        TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
        TransactionState.DEAD: _IDLE,
        TransactionState.PREPARE_EPOCH_FENCE: frozenset({TransactionState.ONGOING}),
    }
)
"""State -> the states that it may follow directly."""
assert VALID_PREVIOUS.keys() == set(TransactionState)

STORED_STATES = frozenset(TransactionState) - {
    TransactionState.DEAD,
    TransactionState.PREPARE_EPOCH_FENCE,
}
"""Those that a record may have; the other two are only ever on their way."""
