"""What an application does with transactions; the part of ``Producer`` that is about them.

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
from ottla.client.sending.transaction_states import Call, State
from ottla.wire.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from ottla.client.sending.transactions import Transactions
    from ottla.protocol.ids import TopicPartition

logger = logging.getLogger(__name__)


class TransactionCalls:
    """Every call raises ProducerUnusable once the producer cannot go on, ProducerFenced if that
    is because another one has its transactional id; TransactionMisuse for a call that has no
    meaning where the producer stands; and TransactionTimedOut when ``call_timeout_ms`` is over,
    after which only the same call can be made, and tells how it has ended."""

    def _transactions(self) -> Transactions:
        raise NotImplementedError

    async def init_transactions(self) -> None:
        """Become the only producer with this transactional id, once, before all else.

        What a predecessor left open is aborted, or completed if it had been committed; the
        predecessor itself is refused from then on."""
        await self._transactions().run(Call.INITIALIZE)

    async def begin_transaction(self) -> None:
        """Begin a transaction. Asks nobody: the brokers hear of it with its first record."""
        self._transactions().begin()

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, int | Committed],
        group: str | ConsumerGroupMetadata,
    ) -> None:
        """Commit a group's positions together with the records: they are the offsets of the next
        records to read. Returns when the group's coordinator has them.

        With the metadata of a member, a member that has lost its partitions is refused (KIP-447);
        with the name alone it must be impossible that two read the same partitions. Raises
        AbortRequired."""
        if not isinstance(group, ConsumerGroupMetadata):
            check_text("a group", group)
            group = ConsumerGroupMetadata(group)
        if not group.group_id:
            raise ValueError("a group has to have a name")
        # A request that cannot be written would end the producer.
        positions = positions_of("offsets to commit", offsets)
        await self._transactions().send_offsets(positions, group)

    async def commit_transaction(self) -> None:
        """Make everything sent since ``begin_transaction`` visible at once, as soon as all of it
        is acknowledged. Raises AbortRequired if that is not possible any more."""
        await self._transactions().run(Call.COMMIT)

    async def abort_transaction(self) -> None:
        """Undo everything sent since ``begin_transaction``. What has not left is dropped; what is
        on its way is waited for."""
        await self._transactions().run(Call.ABORT)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """A transaction that is committed at the end of its block, and aborted if the block or
        the commit fails, which is then raised.

        After TransactionTimedOut of the commit its outcome is unknown: ``commit_transaction``
        tells it, and nothing else can be done before."""
        transactions = self._transactions()
        transactions.begin()
        machine = transactions.machine
        serial = machine.serial

        def is_open() -> bool:
            return machine.serial == serial and machine.state in (State.OPEN, State.BROKEN)

        try:
            yield
            if is_open():
                await self.commit_transaction()
        except BaseException:
            if is_open():
                try:
                    await self.abort_transaction()
                except ClientError as error:
                    # Why the block failed is more to the point.
                    logger.warning("the transaction could not be aborted: %s", error)
            raise
