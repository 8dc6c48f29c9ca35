"""The moments of a transaction at which its coordinator may die: before and after each request,
each record of ``__transaction_state`` and each marker.

They are counted as they are reached, so a run without kills gives their number; a run that strikes
at each of them in turn is the matrix of coordinator kills.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.coordinating.internal_topics import TRANSACTIONS_TOPIC
from ottla.broker.coordinating.txn_partition import MarkerWriter
from ottla.broker.partitions.partition import PartitionRuntime
from ottla.protocol.records.record import read_records
from tests.simulation.cluster.hazards.replacing import Replacement, replaced
from tests.simulation.transactions.piper import Piper
from tests.simulation.transactions.teller import Teller

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

# Where in a value its state is: behind version, producer id, producer epoch and timeout.
_STATE_AT = 2 + 8 + 2 + 4
STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
REQUESTS = {
    "_init": "InitProducerId",
    "_add": "AddPartitionsToTxn",
    "_produce": "Produce",
    "_add_offsets": "AddOffsetsToTxn",
    "_commit_offsets": "TxnOffsetCommit",
    "_end": "EndTxn",
}


class Points:
    """Of one transactional id in one run. ``target``: the number of the one to strike at."""

    def __init__(self, transactional_id: str, target: int | None) -> None:
        self.passed: list[str] = []
        self.is_counting = False
        self.strike: Callable[[], object] = lambda: None
        self._key = transactional_id.encode()
        self._transactional_id = transactional_id
        self._target = target
        self._producer_id = -1

    def at(self, name: str) -> None:
        """Count a point that was reached, and strike at the target."""
        if not self.is_counting:
            return
        number = len(self.passed)
        self.passed.append(name)
        if number == self._target:
            self.strike()

    def watched(self) -> AbstractContextManager[None]:
        """Watch all points until the end of the context."""
        replacements = [
            Replacement(PartitionRuntime, "write", self._around_write),
            Replacement(MarkerWriter, "write", self._around_marker),
        ]
        for owner in (Teller, Piper):
            replacements += [
                Replacement(owner, name, self._around_request(told))
                for name, told in REQUESTS.items()
                if name in vars(owner)
            ]
        return replaced(replacements)

    def _around_request(self, told: str) -> Callable[[Any], Any]:
        def make(before: Any) -> Any:
            async def ask(teller: Teller, *arguments: Any) -> Any:
                if teller.terms.transactional_id != self._transactional_id:
                    return await before(teller, *arguments)
                self.at(f"before {told}")
                answer = await before(teller, *arguments)
                self.at(f"after {told}")
                return answer

            return ask

        return make

    def _around_write(self, before: Any) -> Any:
        def write(partition: PartitionRuntime, plan: Any, acks: int) -> Any:
            state = (
                self._state_of(plan) if partition.partition.topic == TRANSACTIONS_TOPIC else None
            )
            if state is None:
                return before(partition, plan, acks)
            self.at(f"before the record {state}")
            written = before(partition, plan, acks)
            self.at(f"after the record {state}")
            return written

        return write

    def _around_marker(self, before: Any) -> Any:
        def write(writer: MarkerWriter, request: Any) -> Any:
            if all(marker.producer_id != self._producer_id for marker in request.markers):
                return before(writer, request)
            self.at("before the markers")
            later = before(writer, request)
            self.at("after the markers")
            return later

        return write

    def _state_of(self, plan: Any) -> str | None:
        for record in read_records(plan.batch):
            if record.key is not None and record.value is not None and self._key in record.key:
                self._producer_id = int.from_bytes(record.value[2:10])
                return STATES[record.value[_STATE_AT]]
        return None
