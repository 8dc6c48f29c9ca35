"""Answers requests of producers, each once, with the error codes of their versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.coordinator.transaction.metadata import LAST_USABLE_EPOCH
from ottla.coordinator.transaction.requests import Added
from ottla.protocol.data_classes import dataclass
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.end_txn import EndTxnResponse
from ottla.protocol.messages.init_producer_id import InitProducerIdResponse
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from ottla.coordinator.effects import Ticket
    from ottla.coordinator.transaction.outbox import TransactionOutbox
    from ottla.protocol.ids import TopicPartition

# The first versions whose senders know PRODUCER_FENCED (KIP-588).
INIT_FENCED_VERSION = 4
END_FENCED_VERSION = 2


@dataclass(slots=True)
class TransactionReply:
    """One request. Answers after the first one are dropped: the request has timed out."""

    outbox: TransactionOutbox
    ticket: Ticket
    api_version: int
    is_sent: bool = False

    def refuse(self, error: ErrorCode) -> None:
        """Answer with an error."""
        raise NotImplementedError

    def on_overdue(self) -> None:
        """The outcome is unknown: make the client look up the coordinator and retry."""
        self.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _send(self, response: Any) -> None:
        if not self.is_sent:
            self.is_sent = True
            self.outbox.answer(self.ticket, response)


class InitReply(TransactionReply):
    """The reply to InitProducerId."""

    def accept(self, producer_id: int, producer_epoch: int) -> None:
        """Return the producer id and epoch."""
        assert producer_id >= 0
        assert 0 <= producer_epoch <= LAST_USABLE_EPOCH
        self._send(InitProducerIdResponse(0, ErrorCode.NONE, producer_id, producer_epoch))

    def refuse(self, error: ErrorCode) -> None:
        """Answer with an error, mapped for older versions."""
        if error is ErrorCode.PRODUCER_FENCED and self.api_version < INIT_FENCED_VERSION:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        self._send(InitProducerIdResponse(0, error, -1, -1))


class EndReply(TransactionReply):
    """The reply to EndTxn."""

    def accept(self, producer_id: int = -1, producer_epoch: int = -1) -> None:
        """The verdict is committed. Under version 2 the producer continues with these."""
        self._send(EndTxnResponse(0, ErrorCode.NONE, producer_id, producer_epoch))

    def refuse(self, error: ErrorCode) -> None:
        """Answer with an error, mapped for older versions."""
        if error is ErrorCode.PRODUCER_FENCED and self.api_version < END_FENCED_VERSION:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        self._send(EndTxnResponse(0, error, -1, -1))


@dataclass(slots=True)
class AddReply(TransactionReply):
    """The reply to AddPartitionsToTxn or AddOffsetsToTxn, for one id."""

    partitions: tuple[TopicPartition, ...] = ()

    def accept(self) -> None:
        """All partitions are part of the transaction."""
        self.refuse(ErrorCode.NONE)

    def refuse(self, error: ErrorCode) -> None:
        """The same error for all: partitions are added together or not at all."""
        self.tell(dict.fromkeys(self.partitions, error))

    def tell(self, errors: dict[TopicPartition, ErrorCode]) -> None:
        """Answer with an error code per partition."""
        self._send(Added(errors))


class AddReplies(NamedTuple):
    """Several replies whose partitions are added with one record."""

    replies: list[AddReply]

    def accept(self) -> None:
        """All partitions of all replies are part of the transaction."""
        for reply in self.replies:
            reply.accept()

    def refuse(self, error: ErrorCode) -> None:
        """Answer all with the error."""
        for reply in self.replies:
            reply.refuse(error)

    def on_overdue(self) -> None:
        """The outcome is unknown for all."""
        for reply in self.replies:
            reply.on_overdue()
