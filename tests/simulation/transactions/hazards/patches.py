"""The bugs by their ids, each with misfortunes that are aimed at it."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from ottla.broker.coordinating.internal_topics import TRANSACTIONS_TOPIC
from ottla.broker.coordinating.shards import Shard, ShardState
from ottla.broker.log.partition_log import PartitionLog
from ottla.broker.log.storage.txn_index import touching
from ottla.broker.partitions.partition import PartitionRuntime
from ottla.broker.partitions.read_barriers import ReadBarriers
from ottla.broker.replica.history import ReplicaHistory
from ottla.broker.replica.partition import Replica
from ottla.broker.replica.producer import ProducerState
from ottla.broker.replica.producers import ProducerTable
from ottla.broker.replica.transactions import PartitionTransactions
from ottla.broker.replica.watermark import FetchIsolation
from ottla.coordinator.group.offsets import reading as offsets_reading
from ottla.coordinator.group.offsets.loading import OffsetLoading
from ottla.coordinator.group.offsets.offsets import OffsetTable
from ottla.coordinator.transaction.adding import Adding
from ottla.coordinator.transaction.ending import Ending
from ottla.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from tests.simulation.cluster.hazards.replacing import Replacement, replaced
from tests.simulation.transactions.hazards import mixes

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from ottla.broker.log.storage.txn_index import AbortedTransaction
    from tests.simulation.transactions.options import TransactionOptions

    Mix = Callable[[TransactionOptions], TransactionOptions]


class TransactionHazard(NamedTuple):
    """``sound`` are the options without the bug, where the mix itself brings it in."""

    what: str
    replacements: tuple[Replacement, ...]
    mix: Mix
    sound: Mix | None = None

    def put_back(self) -> AbstractContextManager[None]:
        """The bug is there until the end."""
        return replaced(self.replacements)


# ---- partitions ----


def _believes_any_coordinator(before: Any) -> Any:
    def judge_marker(self: ProducerTable, marker: Any, transaction_version: int = 0) -> Any:
        state = self.get(marker.producer_id)
        if state is not None and marker.coordinator_epoch < state.coordinator_epoch:
            marker = marker._replace(coordinator_epoch=state.coordinator_epoch)
        return before(self, marker, transaction_version)

    return judge_marker


def _takes_late_markers(before: Any) -> Any:
    return lambda self, marker, _version=0: before(self, marker, 0)


def _reads_to_the_watermark(before: Any) -> Any:
    def upper_bound(self: Replica, isolation: FetchIsolation) -> Any:
        if isolation is FetchIsolation.READ_COMMITTED:
            isolation = FetchIsolation.READ_UNCOMMITTED
        return before(self, isolation)

    return upper_bound


def _settles_with_the_marker(before: Any) -> Any:
    def end(
        self: PartitionTransactions, producer_id: int, marker_offset: int, *, is_aborted: bool
    ) -> Any:
        done = before(self, producer_id, marker_offset, is_aborted=is_aborted)
        self.ended.clear()
        self._refresh()
        return done

    return end


def _looks_into_one_segment(_before: Any) -> Any:
    def aborted_transactions(
        self: PartitionLog, offset: int, upper_bound_offset: int
    ) -> list[AbortedTransaction]:
        segment = self.segments[self.segment_number(offset)]
        return touching(segment.transactions.entries, offset, upper_bound_offset)[0]

    return aborted_transactions


def _forgets_aborts(_before: Any) -> Any:
    return lambda _self, _entry: None


def _repeats_what_was_aborted(_before: Any) -> Any:
    return lambda _self, _written: True


def _keeps_what_was_cut_off(before: Any) -> Any:
    def reset(self: ReplicaHistory) -> None:
        if not len(self.producers):
            before(self)

    return reset


# ---- coordinators ----


def _begins_in_memory(before: Any) -> Any:
    def judged(self: Adding, transaction: Any, known: Any, *more: Any) -> Any:
        move, too_large = before(self, transaction, known, *more)
        if move is None or known is not transaction.metadata:
            return move, too_large
        transaction.metadata = move.after
        move.then.on_committed()
        return None, too_large

    return judged


def _answers_at_once(before: Any) -> Any:
    def move(self: Adding, transaction: Any, known: Any, after: Any, reply: Any) -> Any:
        made = before(self, transaction, known, after, reply)
        reply.accept()
        return made

    return move


def _tells_the_verdict_at_once(before: Any) -> Any:
    def end(self: Ending, transaction: Any, is_commit: bool, reply: Any) -> None:
        before(self, transaction, is_commit, reply)
        known = transaction.metadata
        reply.accept(known.producer_id, known.producer_epoch + 1)

    return end


_OLD_MACHINES: WeakKeyDictionary[PartitionRuntime, Any] = WeakKeyDictionary()


def _keeps_its_machine(before: Any) -> Any:
    def end(self: Shard[Any], error: Any) -> None:
        was_active = self.state is ShardState.ACTIVE
        before(self, error)
        if was_active and self.partition.partition.topic == TRANSACTIONS_TOPIC:
            _OLD_MACHINES[self.partition] = self.machine

    return end


def _goes_on_with_the_old_one(before: Any) -> Any:
    def load(self: Shard[Any]) -> None:
        machine = _OLD_MACHINES.pop(self.partition, None)
        if machine is None:
            before(self)
        else:
            self.machine = machine
            self._begin(machine, 0, 0.0)

    return load


def _loads_no_open_commits(before: Any) -> Any:
    def replay(self: OffsetLoading, record: Any, writer: Any = None) -> bool:
        if writer is not None and writer.is_transactional:
            return True
        return bool(before(self, record, writer))

    return replay


def _answers_before_the_marker(before: Any) -> Any:
    return lambda wanted, ledger: before(wanted._replace(is_stable=False), ledger)


def _needs_no_proof(_before: Any) -> Any:
    return lambda _self, _partition: True


def _takes_any_lease(_before: Any) -> Any:
    def has_lease(self: PartitionRuntime) -> bool:
        return self._lease.holds(self._clock.now_ms())

    return property(has_lease)


def _takes_any_generation(before: Any) -> Any:
    def judge(self: OffsetTable, request: Any) -> Any:
        alone = TxnOffsetCommitRequest(
            producer_id=request.producer_id, producer_epoch=request.producer_epoch
        )
        return before(self, alone)

    return judge


HAZARDS = MappingProxyType(
    {
        "G-12": TransactionHazard(
            "a coordinator without a lease speaks from memory",
            (Replacement(ReadBarriers, "is_open", _needs_no_proof),),
            mixes.stranding,
        ),
        "R-19": TransactionHazard(
            "an order of the last session is as good as one of the present",
            (Replacement(PartitionRuntime, "has_lease", _takes_any_lease),),
            mixes.stranding,
        ),
        "T-07": TransactionHazard(
            "what producers have written stays known when it is cut off",
            (Replacement(ReplicaHistory, "reset", _keeps_what_was_cut_off),),
            mixes.toppling,
        ),
        "T-09": TransactionHazard(
            "sequences that an aborted transaction has used are repetitions in the next one",
            (Replacement(ProducerState, "_is_in_open_transaction", _repeats_what_was_aborted),),
            mixes.deaf,
        ),
        "T-12": TransactionHazard(
            "a late EndTxn of one transaction ends the next, as the first protocol has it",
            (),
            mixes.late_classic_ends,
            mixes.late_ends,
        ),
        "T-13": TransactionHazard(
            "nobody asks whether the transaction of a batch is open",
            (),
            mixes.unverified,
            mixes.late_produces,
        ),
        "T-15": TransactionHazard(
            "a coordinator that was replaced ends transactions",
            (Replacement(ProducerTable, "judge_marker", _believes_any_coordinator),),
            mixes.deposing,
        ),
        "T-16": TransactionHazard(
            "the marker of one transaction comes late, and ends the next",
            (Replacement(ProducerTable, "judge_marker", _takes_late_markers),),
            mixes.repeating,
        ),
        "T-17": TransactionHazard(
            "committed records are read up to the high watermark",
            (Replacement(Replica, "upper_bound", _reads_to_the_watermark),),
            mixes.reading,
        ),
        "T-17b": TransactionHazard(
            "the last stable offset passes markers that are not replicated",
            (Replacement(PartitionTransactions, "end", _settles_with_the_marker),),
            mixes.watching,
        ),
        "T-18": TransactionHazard(
            "aborts that are noted in a later segment are not found",
            (Replacement(PartitionLog, "aborted_transactions", _looks_into_one_segment),),
            mixes.rolling,
        ),
        "T-18b": TransactionHazard(
            "aborts are not noted",
            (Replacement(PartitionLog, "append_aborted", _forgets_aborts),),
            mixes.reading,
        ),
        "T-20": TransactionHazard(
            "what belongs to a transaction is known to its coordinator alone",
            (Replacement(Adding, "_judged", _begins_in_memory),),
            mixes.killing,
        ),
        "T-20b": TransactionHazard(
            "partitions are said to be added before that is replicated",
            (Replacement(Adding, "_move", _answers_at_once),),
            mixes.killing_coordinators,
        ),
        "T-20c": TransactionHazard(
            "a verdict is told before it is replicated",
            (Replacement(Ending, "_end", _tells_the_verdict_at_once),),
            mixes.killing_coordinators,
        ),
        "T-21": TransactionHazard(
            "a coordinator goes on with what it knew when it last was one",
            (
                Replacement(Shard, "end", _keeps_its_machine),
                Replacement(Shard, "load", _goes_on_with_the_old_one),
            ),
            mixes.handing_over,
        ),
        "T-23": TransactionHazard(
            "a group's new coordinator forgets offsets whose transaction is open",
            (Replacement(OffsetLoading, "replay", _loads_no_open_commits),),
            mixes.piping,
        ),
        "T-22": TransactionHazard(
            "a process whose partition is another's commits offsets",
            (Replacement(OffsetTable, "_judge_producer", _takes_any_generation),),
            mixes.sharing,
        ),
        "T-22b": TransactionHazard(
            "offsets are told while their transaction is open",
            (Replacement(offsets_reading, "_read", _answers_before_the_marker),),
            mixes.piping,
        ),
    }
)
