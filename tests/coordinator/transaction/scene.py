"""A shard of transactional ids, with a shell whose log is a list.

Appends stand in the log at once and are open, draws and markers wait, until the test says what
comes of them; ``settle`` lets all come well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.coordinator.effects import Append, LogRecord, Moment, RequestOrigin, SendResponse
from ottla.coordinator.transaction.effects import DrawId, TransactionEffect, WriteMarkers
from ottla.coordinator.transaction.records import decode_value, state_record
from ottla.coordinator.transaction.requests import AddToTransaction, DescribeTransaction
from ottla.coordinator.transaction.settings import TransactionSettings
from ottla.coordinator.transaction.shard import TransactionShard
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.coordinator.transaction.metadata import TransactionMetadata
    from ottla.coordinator.transaction.states import TransactionState

ID = "txn"
WALL_MS = 1_700_000_000_000
TIMEOUT_MS = 60_000
FIRST_PRODUCER_ID = 1_000
NEXT_PRODUCER_ID = 2_000
"""The first one that ``standing`` scenes give."""
CLASSIC, VERSION_2 = 4, 5
"""Versions of EndTxn."""

A0 = TopicPartition("a", 0)
A1 = TopicPartition("a", 1)
B0 = TopicPartition("b", 0)


class Producer(NamedTuple):
    """A producer id and epoch."""

    producer_id: int
    producer_epoch: int

    def bumped(self) -> Producer:
        return Producer(self.producer_id, self.producer_epoch + 1)


NOBODY_YET = Producer(-1, -1)


class Scene:
    def __init__(
        self,
        settings: TransactionSettings | None = None,
        log: Sequence[LogRecord] = (),
        now_ms: float = 0.0,
        wall_ms: int = WALL_MS,
    ) -> None:
        self.settings = settings or TransactionSettings()
        self.shard = TransactionShard(self.settings)
        self.now_ms = now_ms
        self.wall_ms = wall_ms
        self.is_wall_trusted = True
        # Committed, in order; what is not stands in ``appends``.
        self.log = list(log)
        self.appends: list[Append] = []
        self.draws: list[DrawId] = []
        self.markers: list[WriteMarkers] = []
        # All that were ever asked for.
        self.all_markers: list[WriteMarkers] = []
        self.answers: dict[int, Any] = {}
        self.ticket = 0
        # Over which the next requests come.
        self.connection_id = ""
        self.next_producer_id = FIRST_PRODUCER_ID
        for record in log:
            self.shard.replay(record, moment=self.moment)
        self.perform(self.shard.on_loaded(self.moment))

    # What a shell does.

    @property
    def moment(self) -> Moment:
        return Moment(self.now_ms, self.wall_ms, self.is_wall_trusted)

    def perform(self, effects: list[TransactionEffect] | list[Any]) -> None:
        for effect in effects:
            match effect:
                case SendResponse(ticket, response):
                    assert ticket not in self.answers, "answered twice"
                    self.answers[ticket] = response
                case Append():
                    self.appends.append(effect)
                case DrawId():
                    self.draws.append(effect)
                case WriteMarkers():
                    self.markers.append(effect)
                    self.all_markers.append(effect)

    def commit(self, index: int = 0) -> None:
        """The high watermark passes an append, and with it all before."""
        append = self.appends.pop(index)
        self.log += append.records
        self.perform(self.shard.committed(append.token, self.moment))

    def fail(self, error: ErrorCode = ErrorCode.COORDINATOR_NOT_AVAILABLE, index: int = 0) -> None:
        append = self.appends.pop(index)
        self.perform(self.shard.failed(append.token, error, self.moment))

    def overdue(self, index: int = 0) -> None:
        self.perform(self.shard.overdue(self.appends[index].token, self.moment))

    def give(self, index: int = 0) -> int:
        """Gives a producer id to the request that waits at this index."""
        producer_id = self.next_producer_id
        self.next_producer_id += 1
        token = self.draws.pop(index).token
        self.perform(self.shard.drawn(token, producer_id, ErrorCode.NONE, self.moment))
        return producer_id

    def give_nothing(self, error: ErrorCode = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS) -> None:
        self.perform(self.shard.drawn(self.draws.pop(0).token, -1, error, self.moment))

    def mark(self, index: int = 0) -> None:
        """All partitions have their marker."""
        token = self.markers.pop(index).token
        self.perform(self.shard.markers_written(token, self.moment))

    def refuse_markers(self, *partitions: TopicPartition) -> None:
        """These will not have theirs; all of them, if none is named."""
        markers = self.markers.pop(0)
        refused = partitions or markers.partitions
        self.perform(self.shard.markers_refused(markers.token, refused, self.moment))

    def settle(self) -> None:
        """Everything that is on its way arrives."""
        while self.appends or self.draws or self.markers:
            if self.draws:
                self.give()
            elif self.appends:
                self.commit()
            else:
                self.mark()

    def advance(self, by_ms: float, *, wall_ms: int | None = None) -> None:
        """Time passes, on both clocks unless told otherwise; alarms go off at their time."""
        until_ms = self.now_ms + by_ms
        wall_by_ms = round(by_ms) if wall_ms is None else wall_ms
        self.wall_ms += wall_by_ms
        while (due_ms := self.shard.next_deadline_ms()) is not None and due_ms <= until_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self.perform(self.shard.on_deadline(self.moment))
        self.now_ms = until_ms

    def reloaded(self) -> Scene:
        """What another coordinator makes of what is committed."""
        other = Scene(self.settings, self.log, self.now_ms, self.wall_ms)
        other.ticket, other.next_producer_id = self.ticket, self.next_producer_id
        return other

    # Requests. Each returns its ticket.

    def ask(self, request: Any, api_version: int) -> int:
        self.ticket += 1
        caller = RequestOrigin("client", "/host", api_version, self.connection_id)
        self.perform(self.shard.handle(request, caller, self.ticket, self.moment))
        return self.ticket

    def init(
        self,
        had: Producer = NOBODY_YET,
        *,
        api_version: int = 5,
        timeout_ms: int = TIMEOUT_MS,
        transactional_id: str = ID,
    ) -> int:
        return self.ask(InitProducerIdRequest(transactional_id, timeout_ms, *had), api_version)

    def add(
        self,
        producer: Producer,
        *partitions: TopicPartition,
        transaction_version: int = 2,
        transactional_id: str = ID,
    ) -> int:
        request = AddToTransaction(
            transactional_id,
            *producer,
            partitions,
            transaction_version=transaction_version,
        )
        return self.ask(request, 5)

    def verify(self, producer: Producer, *partitions: TopicPartition) -> dict[Any, ErrorCode]:
        """The answer, which comes at once."""
        ticket = self.ask(AddToTransaction(ID, *producer, partitions, is_verification=True), 5)
        errors: dict[Any, ErrorCode] = self.answers[ticket].errors
        return errors

    def end(
        self,
        producer: Producer,
        *,
        is_commit: bool = True,
        api_version: int = VERSION_2,
        transactional_id: str = ID,
    ) -> int:
        return self.ask(EndTxnRequest(transactional_id, *producer, is_commit), api_version)

    def describe(self, transactional_id: str = ID) -> Any:
        return self.answers[self.ask(DescribeTransaction(transactional_id), 0)]

    # What can be seen.

    def error(self, ticket: int) -> ErrorCode | None:
        """None while there is no answer; of partitions the one that all share."""
        answer = self.answers.get(ticket)
        if answer is None:
            return None
        if hasattr(answer, "errors"):
            (error,) = set(answer.errors.values())
            return ErrorCode(error)
        return ErrorCode(answer.error_code)

    def producer(self, ticket: int) -> Producer:
        """What an InitProducerId or EndTxn was answered with."""
        answer = self.answers[ticket]
        assert answer.error_code == ErrorCode.NONE
        return Producer(answer.producer_id, answer.producer_epoch)

    def metadata(self, transactional_id: str = ID) -> TransactionMetadata | None:
        transaction = self.shard.scope.transactions.get(transactional_id)
        return None if transaction is None else transaction.metadata

    @property
    def state(self) -> TransactionState | None:
        known = self.metadata()
        return None if known is None else known.state

    def written(self) -> list[TransactionMetadata | None]:
        """What the log says, record by record; None is a tombstone."""
        return [None if value is None else decode_value(value) for _, value in self.log]


def begun(
    *partitions: TopicPartition,
    transaction_version: int = 2,
    settings: TransactionSettings | None = None,
) -> tuple[Scene, Producer]:
    """A scene with a producer whose transaction has these partitions, if any."""
    scene = Scene(settings)
    ticket = scene.init()
    scene.settle()
    producer = scene.producer(ticket)
    if partitions:
        scene.add(producer, *partitions, transaction_version=transaction_version)
        scene.settle()
    return scene, producer


def standing(known: TransactionMetadata) -> Scene:
    """A scene that has loaded this metadata; markers it asks for wait."""
    scene = Scene(log=[state_record(ID, known)])
    scene.next_producer_id = NEXT_PRODUCER_ID
    return scene
