"""The transactional calls of ``Producer``.

    await producer.init_transactions()
    async with producer.transaction():
        await producer.send("out", b"...")
        await producer.send_offsets_to_transaction({partition: next_offset}, "group")

Guarantees and limits: docs/transactions.md.
"""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from ottla.client.records.arguments import check_text, positions_of
from ottla.client.records.committed import Committed, ConsumerGroupMetadata
from ottla.client.sending.transaction_states import Call, ProducerTransactionState
from ottla.wire.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from ottla.client.sending.transactions import ProducerTransactions
    from ottla.protocol.ids import TopicPartition

logger = logging.getLogger(__name__)


class TransactionCalls:
    """The part of ``Producer`` that deals with transactions.

    Every call raises ProducerUnusable after a fatal error, and ProducerFenced if another producer
    took over the transactional id; TransactionMisuse if the transaction's state does not allow the
    call; and TransactionTimedOut after ``call_timeout_ms``. After TransactionTimedOut only the same
    call is allowed, and it reports the outcome."""

    def _transactions(self) -> ProducerTransactions:
        raise NotImplementedError

    async def init_transactions(self) -> None:
        """Take over the transactional id: call it once, before all other transactional calls.

        The coordinator aborts the open transaction of a previous producer with this id, or
        completes it if its commit had begun, and fences that producer."""
        await self._transactions().run(Call.INITIALIZE)

    async def begin_transaction(self) -> None:
        """Begin a transaction. Sends nothing: the coordinator learns of it with the first
        record."""
        self._transactions().begin()

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, int | Committed],
        group: str | ConsumerGroupMetadata,
    ) -> None:
        """Commit a group's offsets as a part of the transaction; return when the coordinator has
        them.

        Args:
            offsets: For each partition the offset of the next record to read.
            group: The member's ``Consumer.group_metadata()``, with which the coordinator refuses a
                member that has lost its partitions (KIP-447); or the group's name alone, which is
                safe only if no two consumers can read the same partitions.

        Raises:
            AbortRequired: The offsets cannot be part of this transaction; abort it.
            ValueError: ``group`` has an empty name.
        """
        if not isinstance(group, ConsumerGroupMetadata):
            check_text("a group", group)
            group = ConsumerGroupMetadata(group)
        if not group.group_id:
            raise ValueError("a group has to have a name")
        # A request that cannot be encoded would end the producer.
        positions = positions_of("offsets to commit", offsets)
        await self._transactions().send_offsets(positions, group)

    async def commit_transaction(self) -> None:
        """Wait until all records are acknowledged, then commit the transaction.

        Raises:
            AbortRequired: The transaction can no longer be committed; abort it.
        """
        await self._transactions().run(Call.COMMIT)

    async def abort_transaction(self) -> None:
        """Abort the transaction. Drops the records that are still in memory, and waits for those in
        flight."""
        await self._transactions().run(Call.ABORT)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """A transaction for the length of a ``with`` block.

        It is committed at the end of the block. If the block or the commit raises, it is aborted
        and the error is raised. After TransactionTimedOut of the commit the outcome is unknown:
        call ``commit_transaction`` again to learn it; no other call is allowed before."""
        transactions = self._transactions()
        transactions.begin()
        machine = transactions.machine
        serial = machine.serial

        def is_open() -> bool:
            return machine.serial == serial and machine.state in (
                ProducerTransactionState.OPEN,
                ProducerTransactionState.BROKEN,
            )

        try:
            yield
            if is_open():
                await self.commit_transaction()
        except BaseException:
            if is_open():
                try:
                    await self.abort_transaction()
                except ClientError as error:
                    # The reason why the block failed matters more.
                    logger.warning("the transaction could not be aborted: %s", error)
            raise
