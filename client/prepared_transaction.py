"""Transfers an open transaction from one process to another, which ends it.

The first process calls ``prepare_transaction`` and passes on the result; the second creates a
``ResumedTransaction`` from it, which can only add offsets and end the transaction. Until it ends,
the transaction counts against ``transaction_timeout_ms`` of the producer that began it, and a new
producer with the same transactional id aborts it.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ottla.client.sending.sequences import ProducerIdentity
from ottla.client.sending.transaction_states import Call, ProducerTransactionState
from ottla.client.sending.transactions import ProducerTransactions
from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.errors import ClientClosed

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from ottla.client.cluster.cluster import ClusterClient
    from ottla.client.producer import Producer
    from ottla.client.records.committed import Committed, ConsumerGroupMetadata
    from ottla.client.settings.config import ProducerConfig
    from ottla.protocol.ids import TopicPartition


class PreparedTransaction(NamedTuple):
    """What another process needs to end it; ``version`` is that of transactions (KIP-890)."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    version: int


async def prepare_transaction(producer: Producer[Any, Any]) -> PreparedTransaction:
    """Deliver what was sent, then close the producer without ending its transaction.

    Offsets or records must have been sent, so that the coordinator knows it. Raises as
    ``commit_transaction`` if it can no longer be committed; the producer is open then."""
    transactions = producer._transactions()
    transactions.check(Call.SEND)
    await producer.flush()
    # A record that failed has broken the transaction by now.
    transactions.check(Call.SEND)
    machine = transactions.machine
    assert machine.parts.is_known, "nothing was sent"
    assert not machine.parts.is_waiting
    prepared = PreparedTransaction(
        transactions.transactional_id, *machine.identity, machine.version
    )
    # Closing aborts an open transaction, and this one no longer belongs to the producer.
    machine.state = ProducerTransactionState.FATAL
    await producer.close(deliver=False)
    return prepared


class ResumedTransaction:
    """Ends one such transaction. Owned by its creator; the cluster may be shared."""

    def __init__(
        self, cluster: ClusterClient, config: ProducerConfig, prepared: PreparedTransaction
    ) -> None:
        config = replace(config, transactional_id=prepared.transactional_id)
        self._transactions = ProducerTransactions(cluster, config, self)
        identity = ProducerIdentity(prepared.producer_id, prepared.producer_epoch)
        self._transactions.machine.resume(identity, prepared.version)
        self._work: asyncio.Task[None] | None = None

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, Committed], group: ConsumerGroupMetadata
    ) -> None:
        """As ``send_offsets_to_transaction``."""
        await self._working(self._transactions.send_offsets(offsets, group))

    async def commit(self) -> None:
        """As ``commit_transaction``. Raises ProducerFenced if another producer has the
        transactional id now, or the coordinator has aborted the transaction because it was open for
        too long."""
        await self._working(self._transactions.run(Call.COMMIT))

    async def abort(self) -> None:
        """As ``abort_transaction``."""
        await self._working(self._transactions.run(Call.ABORT))

    async def _working(self, call: Coroutine[object, object, None]) -> None:
        try:
            await call
        finally:
            if self._work is not None:
                self._work.cancel()
                await asyncio.gather(self._work, return_exceptions=True)

    # The sender's part for ``ProducerTransactions``; there are no records.

    @property
    def has_unresolved(self) -> bool:
        """Always False."""
        return False

    def begin_epoch(self, identity: ProducerIdentity) -> None:
        """Do nothing: no record follows under the next epoch."""

    def wake(self) -> None:
        """Start a task for the pending requests."""
        if self._work is None or self._work.done():
            work = self._transactions.work()
            self._work = asyncio.get_running_loop().create_task(work, name="ottla-taken-over")
            self._work.add_done_callback(self._on_done)

    def _on_done(self, work: asyncio.Task[None]) -> None:
        if not work.cancelled() and (failure := work.exception()) is not None:
            self._transactions.stop(ClientClosed(f"ending the transaction has failed: {failure}"))
