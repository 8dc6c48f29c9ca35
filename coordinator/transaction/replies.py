"""Requests that wait for what was written for them: each is answered once, in its own shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
    """One request. What comes after the first answer is dropped: who has waited for too long was
    told so."""

    outbox: TransactionOutbox
    ticket: Ticket
    api_version: int
    is_sent: bool = False

    def refuse(self, error: ErrorCode) -> None:
        """Answer with an error."""
        raise NotImplementedError

    def on_overdue(self) -> None:
        """Nobody knows the outcome: let the client look for the coordinator and ask again."""
        self.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _send(self, response: Any) -> None:
        if not self.is_sent:
            self.is_sent = True
            self.outbox.answer(self.ticket, response)


class InitReply(TransactionReply):
    """InitProducerId."""

    def accept(self, producer_id: int, producer_epoch: int) -> None:
        """The producer may begin with that."""
        self._send(InitProducerIdResponse(0, ErrorCode.NONE, producer_id, producer_epoch))

    def refuse(self, error: ErrorCode) -> None:
        """Answer with an error, in the words of that version."""
        if error is ErrorCode.PRODUCER_FENCED and self.api_version < INIT_FENCED_VERSION:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        self._send(InitProducerIdResponse(0, error, -1, -1))


class EndReply(TransactionReply):
    """EndTxn."""

    def accept(self, producer_id: int = -1, producer_epoch: int = -1) -> None:
        """The verdict stands. Under version 2 the producer goes on with these."""
        self._send(EndTxnResponse(0, ErrorCode.NONE, producer_id, producer_epoch))

    def refuse(self, error: ErrorCode) -> None:
        """Answer with an error, in the words of that version."""
        if error is ErrorCode.PRODUCER_FENCED and self.api_version < END_FENCED_VERSION:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        self._send(EndTxnResponse(0, error, -1, -1))


@dataclass(slots=True)
class AddReply(TransactionReply):
    """AddPartitionsToTxn and AddOffsetsToTxn, for one id."""

    partitions: tuple[TopicPartition, ...] = ()

    def accept(self) -> None:
        """All of them are part of the transaction."""
        self.refuse(ErrorCode.NONE)

    def refuse(self, error: ErrorCode) -> None:
        """The same for all: partitions are added together, or not at all."""
        self.tell(dict.fromkeys(self.partitions, error))

    def tell(self, errors: dict[TopicPartition, ErrorCode]) -> None:
        """To each its own verdict."""
        self._send(Added(errors))


class AddReplies(NamedTuple):
    """Several of them whose partitions are added with one record."""

    replies: list[AddReply]

    def accept(self) -> None:
        """All partitions of all of them are part of the transaction."""
        for reply in self.replies:
            reply.accept()

    def refuse(self, error: ErrorCode) -> None:
        """None of them is."""
        for reply in self.replies:
            reply.refuse(error)

    def on_overdue(self) -> None:
        """Nobody knows."""
        for reply in self.replies:
            reply.on_overdue()
