"""A transaction that one process fills and another one ends.

The first one calls ``leave_open`` and passes on what that returns; the second makes a
``TakenOver`` of it. Nothing but the end and offsets can be added by then. As long as nobody ends it
the transaction counts against ``transaction_timeout_ms`` of the producer that began it, and whoever
gets the same transactional id aborts it.
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


class TransactionHandover(NamedTuple):
    """All that somebody else needs to end it; ``version`` is that of transactions (KIP-890)."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    version: int


async def leave_open(producer: Producer[Any, Any]) -> TransactionHandover:
    """Deliver what was sent, then close the producer without ending its transaction.

    Offsets must have been sent, or records, for the coordinator to have heard of it. Raises as
    ``commit_transaction`` if it could not be committed any more; the producer is open then."""
    transactions = producer._transactions()
    transactions.check(Call.SEND)
    await producer.flush()
    # A record that failed has broken the transaction by now.
    transactions.check(Call.SEND)
    machine = transactions.machine
    assert machine.parts.is_known, "nothing was sent"
    assert not machine.parts.is_waiting
    left = TransactionHandover(transactions.transactional_id, *machine.identity, machine.version)
    # Closing aborts what is open, and this one is not the producer's own any more.
    machine.state = ProducerTransactionState.FATAL
    await producer.close(deliver=False)
    return left


class TakenOver:
    """Ends one such transaction, on a cluster that may be shared with others."""

    def __init__(
        self, cluster: ClusterClient, config: ProducerConfig, left: TransactionHandover
    ) -> None:
        config = replace(config, transactional_id=left.transactional_id)
        self._transactions = ProducerTransactions(cluster, config, self)
        identity = ProducerIdentity(left.producer_id, left.producer_epoch)
        self._transactions.machine.resume(identity, left.version)
        self._work: asyncio.Task[None] | None = None

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, Committed], group: ConsumerGroupMetadata
    ) -> None:
        """As ``send_offsets_to_transaction``."""
        await self._working(self._transactions.send_offsets(offsets, group))

    async def commit(self) -> None:
        """As ``commit_transaction``. Raises ProducerFenced if somebody else has the transactional
        id now, or the coordinator has aborted it: it was open for too long."""
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

    # What its transactions ask of a sender that has no records.

    @property
    def has_unresolved(self) -> bool:
        """Never."""
        return False

    def begin_epoch(self, identity: ProducerIdentity) -> None:
        """Nothing follows under the next epoch."""

    def wake(self) -> None:
        """There is something to be asked."""
        if self._work is None or self._work.done():
            work = self._transactions.work()
            self._work = asyncio.get_running_loop().create_task(work, name="ottla-taken-over")
            self._work.add_done_callback(self._on_done)

    def _on_done(self, work: asyncio.Task[None]) -> None:
        if not work.cancelled() and (failure := work.exception()) is not None:
            self._transactions.stop(ClientClosed(f"ending the transaction has failed: {failure}"))
