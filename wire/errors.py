"""What a client call can raise.

Each error says in one sentence what happened where, and ``retriable`` says whether the very same
call may succeed later. The one thing that must never be guessed is whether a request took effect:
``was_sent`` is False only when not a byte of it left this process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.protocol.ids import TopicPartition
    from ottla.protocol.ports import Address


class ClientError(Exception):
    """The root of everything below. What does not apply is NONE or None; ``code`` is what a broker
    has answered, ``broker`` its address."""

    retriable: bool = False
    code: ErrorCode = ErrorCode.NONE
    broker: str | None = None
    topic: str | None = None
    partition: int | None = None

    @property
    def can_retry(self) -> str:
        """Whether the very same call can be made again, in a sentence."""
        if self.retriable:
            return "the same call may succeed later"
        return "the same call will fail again"


class TransportError(ClientError):
    """A request got no answer. With ``was_sent`` its outcome is unknown: it may have taken effect,
    or may still do so; otherwise it certainly has not and never will."""

    retriable = True

    def __init__(self, text: str, address: Address, reason: str, *, was_sent: bool) -> None:
        super().__init__(text)
        self.address = address
        self.broker = str(address)
        self.reason = reason
        self.was_sent = was_sent

    @property
    def can_retry(self) -> str:
        if self.was_sent:
            return "it may have taken effect, so that the same call may do it twice"
        return "nothing of it was sent, so the same call can be made again"


class BrokerUnreachable(TransportError):
    """No connection could be made."""

    def __init__(self, address: Address, reason: str) -> None:
        text = f"cannot reach a broker at {address}: {reason}"
        super().__init__(text, address, reason, was_sent=False)


class ConnectionLost(TransportError):
    """The connection went while the request was on it."""

    def __init__(self, address: Address, reason: str, *, was_sent: bool) -> None:
        doubt = "; whether the request took effect is unknown" if was_sent else ""
        text = f"the connection to {address} was lost: {reason}{doubt}"
        super().__init__(text, address, reason, was_sent=was_sent)


class RequestTimedOut(TransportError):
    """The broker did not answer in time. After ``request_timeout_ms`` its connection is closed: the
    answers behind are late too. Where only the call has no time left, the answer is waited for by
    nobody, and the connection is there for others."""

    def __init__(self, address: Address, name: str, timeout_ms: float, *, was_sent: bool) -> None:
        reason = f"no answer to {name} within {timeout_ms:.0f} ms"
        super().__init__(f"{reason} from {address}", address, reason, was_sent=was_sent)


class AnswerTooLarge(ConnectionLost):
    """An answer is larger than ``response_bytes_max``; mostly it brings one batch that is. Its
    connection is closed, since there is no way to what comes behind it.

    A consumer stays in front of the batch: seek behind it, or read with more room."""

    retriable = False

    def __init__(self, address: Address, name: str, size_bytes: int, limit_bytes: int) -> None:
        reason = f"its answer to {name} has {size_bytes} bytes, and {limit_bytes} are allowed"
        super().__init__(address, reason, was_sent=True)
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes
        self.offset: int | None = None

    def locate(self, where: TopicPartition, offset: int) -> None:
        """It was the answer about that partition alone, from that offset on."""
        self.topic, self.partition = where
        self.offset = offset
        self.args = (
            f"topic {where.topic!r} partition {where.partition}: the batch at offset {offset} "
            f"needs an answer of {self.size_bytes} bytes (from {self.broker}), and "
            f"response_bytes_max allows {self.limit_bytes}: raise it, or seek behind the batch",
        )

    @property
    def can_retry(self) -> str:
        return "the same call will fail again as long as response_bytes_max is what it is"


class UnsupportedByBroker(ClientError):
    """The broker does not speak an API that is needed, or no version of it that we do."""


class RequestRefused(ClientError, KafkaError):
    """A broker answered with an error code."""

    def __init__(
        self,
        code: ErrorCode,
        message: str | None = None,
        *,
        broker: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
    ) -> None:
        KafkaError.__init__(self, code, message)
        self.retriable = code.retriable
        self.broker = broker
        self.topic = topic
        self.partition = partition

    @classmethod
    def for_partition(
        cls,
        code: ErrorCode,
        where: TopicPartition,
        broker: str | None = None,
        message: str | None = None,
    ) -> RequestRefused:
        return cls(code, message, broker=broker, topic=where.topic, partition=where.partition)

    def __str__(self) -> str:
        place = ""
        if self.topic is not None:
            part = "" if self.partition is None else f" partition {self.partition}"
            place = f"topic {self.topic!r}{part}: "
        source = f" (from {self.broker})" if self.broker is not None else ""
        return f"{place}{self.message} [{self.code.name}]{source}"


class DeliveryTimedOut(ClientError):
    """A record was not acknowledged in time. With ``was_sent`` it may be in the log all the same,
    so sending it again may store it twice."""

    retriable = True

    def __init__(
        self,
        where: TopicPartition,
        timeout_ms: float,
        *,
        was_sent: bool,
        last_answer: ErrorCode = ErrorCode.NONE,
    ) -> None:
        doubt = "it may be stored all the same" if was_sent else "it is not stored"
        reason = ""
        if last_answer is not ErrorCode.NONE:
            reason = f"; the last answer was: {last_answer.text} [{last_answer.name}]"
        super().__init__(
            f"topic {where.topic!r} partition {where.partition}: no acknowledgement within "
            f"{timeout_ms:.0f} ms; {doubt}{reason}"
        )
        self.last_answer = self.code = last_answer
        self.topic = where.topic
        self.partition = where.partition
        self.was_sent = was_sent

    @property
    def can_retry(self) -> str:
        if self.was_sent:
            return "it may be stored, so that sending it again may store it twice"
        return "it is not stored, so it can be sent again"


class NoOffset(ClientError):
    """A partition's position is unknown or out of range and the reset policy is ``none``."""

    def __init__(self, where: TopicPartition, offset: int | None) -> None:
        if offset is None:
            text = "has no position, and offset_reset is 'none'"
        else:
            text = f"does not hold offset {offset}, and offset_reset is 'none'"
        super().__init__(f"topic {where.topic!r} partition {where.partition} {text}")
        self.topic = where.topic
        self.partition = where.partition
        self.offset = offset


class LogTruncated(NoOffset):
    """The log of a partition's new leader goes another way from ``end`` on, before the position:
    committed records were lost, and the reset policy is ``none``. Seek to go on."""

    def __init__(self, where: TopicPartition, offset: int, end: int) -> None:
        super().__init__(where, offset)
        self.end = end
        self.args = (
            f"topic {where.topic!r} partition {where.partition}: its leader's log differs from "
            f"offset {end} on, and offset {offset} was reached; offset_reset is 'none'",
        )


class RangeLost(ClientError):
    """A bounded read cannot come to its end: an unclean election took records that it was to
    bring, or has brought, or the topic was deleted, perhaps to be made again.

    ``offset`` is where it was and ``stop`` where it was to end. ``end`` is up to where the log that
    is there now goes, or is the one that was read; None if there is no log."""

    def __init__(self, where: TopicPartition, offset: int, stop: int, end: int | None) -> None:
        present = "the topic or partition is not there any more"
        if end is not None:
            present = f"of the log only what is before offset {end} is there now"
        super().__init__(
            f"topic {where.topic!r} partition {where.partition}: offset {offset} was reached of a "
            f"read up to offset {stop}, and {present}; begin the read anew for what there is"
        )
        self.topic = where.topic
        self.partition = where.partition
        self.offset = offset
        self.stop = stop
        self.end = end

    @property
    def can_retry(self) -> str:
        return "what was lost does not come back; a read that begins anew ends where the log does"


class CommitFailed(ClientError):
    """Positions were not stored since this consumer is not the member any more that read them.

    Whoever has the partitions now goes on from the positions before, so these records are read
    once more. It happens to members that were away for longer than their session, or did not poll
    for ``max_poll_interval_ms``."""

    def __init__(
        self, group_id: str, code: ErrorCode, partitions: Iterable[TopicPartition]
    ) -> None:
        self.group_id = group_id
        self.code = code
        self.partitions = tuple(sorted(partitions))
        if self.partitions:
            self.topic, self.partition = self.partitions[0]
        names = ", ".join(f"{one.topic}-{one.partition}" for one in self.partitions)
        super().__init__(
            f"group {group_id!r}: the positions of {names} are not stored, for their partitions "
            f"were given up meanwhile: {code.text} [{code.name}]"
        )


class DeserializationFailed(ClientError):
    """A record's key or value cannot be read; the cause is what the deserializer raised.

    The consumer stays in front of it: seek to ``offset`` + 1 to go on without it."""

    def __init__(self, where: TopicPartition, offset: int, what: str, reason: Exception) -> None:
        super().__init__(
            f"topic {where.topic!r} partition {where.partition}: the {what} at offset {offset} "
            f"cannot be deserialized: {type(reason).__name__}: {reason}"
        )
        self.topic = where.topic
        self.partition = where.partition
        self.offset = offset
        self.what = what


class ClientClosed(ClientError):
    """The client was closed, or was never started."""


def not_running(kind: str, *, is_closed: bool) -> str:
    """Why a client of that kind does nothing."""
    if is_closed:
        return f"the {kind} is closed"
    return f"the {kind} is not started: use it under 'with' or 'async with', or call start()"


def started_before(kind: str) -> str:
    """Why it does not start."""
    return f"a {kind} starts once: make another"


class TransactionError(ClientError):
    """Something about a transaction. ``code`` is what a broker answered, NONE where none did."""

    def __init__(self, text: str, code: ErrorCode = ErrorCode.NONE) -> None:
        super().__init__(text)
        self.code = code


class TransactionMisuse(TransactionError):
    """The call has no meaning where the transaction stands; nothing has changed by it."""


class AbortRequired(TransactionError):
    """This transaction cannot be committed any more: abort it, then begin another."""


class TransactionAborted(TransactionError):
    """The record was sent in a transaction that has been aborted before it left."""


class TransactionTimedOut(TransactionError):
    """The call has not ended in time and goes on by itself. Its outcome is unknown: the same call,
    and no other, tells it. (Offsets are part of the transaction all the same: a commit waits.)"""

    retriable = True


class ProducerUnusable(TransactionError):
    """Nothing more can be done with this producer: close it. What was committed stays so."""


class ProducerFenced(ProducerUnusable):
    """Another producer has the transactional id now, or the coordinator has aborted a transaction
    that was open for too long."""
