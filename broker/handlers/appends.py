"""One produce request under way: outcomes of its appends in, its answer out, now or later."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from ottla.broker.engine.deferred import DeferredAnswer
from ottla.broker.partitions.produces import (
    LEADER_VERSION,
    VALID_ACKS,
    PendingProduce,
    ProducePart,
    add_leaders,
    pending_produce,
)
from ottla.broker.partitions.request_outcome import await_all
from ottla.protocol.acls import AclResourceType, Operation
from ottla.protocol.data_classes import dataclass
from ottla.protocol.errors import ErrorCode, KafkaError, error_code
from ottla.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from ottla.broker.engine.context import RequestCaller, RequestContext
    from ottla.broker.handlers.services import Services
    from ottla.broker.partitions.append_outcome import AppendOutcome
    from ottla.protocol.ids import Uuid

_MESSAGE_VERSION = 8
_STORAGE_ERROR_VERSION = 4

# Stands in every answer that names no leader. Shared, so replaced and never written to.
_NOBODY = LeaderIdAndEpoch()
_NONE = ErrorCode.NONE
_WRITE = Operation.WRITE
_TOPIC = AclResourceType.TOPIC
# Kafka says them before it looks at the log, and then not where that starts.
_SAID_AT_ONCE = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


def refusal_of(services: Services, caller: RequestCaller, acks: int, topic: str) -> ErrorCode:
    """Why nothing may be appended to the topic; NONE if it may. Both decoders' requests pass here.

    The one place where the authorizer is asked about records that clients produce."""
    if not services.authorizer.is_allowed(caller, _WRITE, _TOPIC, topic):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if acks not in VALID_ACKS:
        return ErrorCode.INVALID_REQUIRED_ACKS
    return _NONE


def new_answer(index: int) -> PartitionProduceResponse:
    """The answer for one partition, before there is an outcome."""
    return PartitionProduceResponse(
        index=index, error_code=_NONE, base_offset=-1, current_leader=_NOBODY
    )


@dataclass(slots=True)
class Appends:
    """One produce request under way: what it has appended so far, and what its answer waits for."""

    services: Services
    context: RequestContext
    request: ProduceRequest
    response: ProduceResponse = field(default_factory=ProduceResponse)
    pending: list[tuple[PendingProduce, PartitionProduceResponse]] = field(default_factory=list)

    def answers_for(self, topic: str, topic_id: Uuid) -> list[PartitionProduceResponse]:
        """The list to which the answers for a topic's partitions are added."""
        answers: list[PartitionProduceResponse] = []
        self.response.responses.append(
            TopicProduceResponse(name=topic, topic_id=topic_id, partition_responses=answers)
        )
        return answers

    def write(self, part: ProducePart) -> None:
        """Append one partition's batch."""
        if part.is_unread:
            part.refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.take(part, part.partition.write(part.plan, self.request.acks))

    def take(self, part: ProducePart, appended: AppendOutcome) -> None:
        """Put the outcome into the answer, and note what the answer has to wait for."""
        services, partition = self.services, part.partition
        _fill(part, appended, self.context.api_version)
        if appended.error_code is not _NONE:
            services.refusal_log.note(
                partition.partition,
                self.context.client_id,
                appended.error_code,
                appended.error_message,
            )
            return
        waits = pending_produce(
            services.flushes,
            partition,
            self.request.acks,
            appended.next_offset,
            appended.leader_epoch,
        )
        if waits is not None:
            self.pending.append((waits, part.answer))

    def finish(self) -> ProduceResponse | DeferredAnswer[ProduceResponse] | None:
        """The answer, now or later; None if none is owed."""
        if self.request.acks == 0:
            _refuse_silently(self.response)
            return None
        if not self.pending:
            return self.told()
        later: DeferredAnswer[ProduceResponse] = DeferredAnswer()
        deadline_ms = self.context.received_ms + max(0, self.request.timeout_ms)
        await_all(
            self.services.waiting,
            [waited for waited, _ in self.pending],
            deadline_ms,
            lambda: later.complete(self.told()),
            self.context.peer,
        )
        return later

    def told(self) -> ProduceResponse:
        """The answer, with what became of the appends that it has waited for."""
        for waited, answer in self.pending:
            if waited.error is not _NONE:
                answer.error_code, answer.base_offset = waited.error, -1
        if self.context.api_version >= LEADER_VERSION:
            add_leaders(self.services.metadata, self.context.listener, self.response)
        return self.response


def _fill(part: ProducePart, appended: AppendOutcome, api_version: int) -> None:
    answer = part.answer
    error = answer.error_code = appended.error_code
    answer.base_offset = appended.base_offset
    answer.log_append_time_ms = appended.log_append_time_ms
    if error not in _SAID_AT_ONCE and not part.plan.is_early:
        answer.log_start_offset = appended.log_start_offset
    if error is _NONE:
        return
    if api_version >= _MESSAGE_VERSION:
        if part.plan.is_told:
            answer.error_message = appended.error_message
        answer.record_errors = [
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=text)
            for index, text in part.record_errors
        ]
    if error is ErrorCode.KAFKA_STORAGE_ERROR and api_version < _STORAGE_ERROR_VERSION:
        answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER


def _refuse_silently(response: ProduceResponse) -> None:
    # Without an answer, a closed connection is the only way the producer learns of an error.
    for topic in response.responses:
        for part in topic.partition_responses:
            if part.error_code != ErrorCode.NONE:
                raise KafkaError(
                    error_code(part.error_code),
                    f"produce with acks=0 to {topic.name}-{part.index} failed",
                )
