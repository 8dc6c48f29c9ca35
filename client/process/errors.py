"""The errors of producers and consumers: deliveries, positions, commits and transactions.

The errors of the requests below them are in ``wire/errors.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode
from ottla.wire.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.protocol.ids import TopicPartition


class DeliveryTimedOut(ClientError):
    """A record was not acknowledged within ``delivery_timeout_ms``.

    If ``was_sent`` is True the record may be in the log, so sending it again may store it twice."""

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
    """A position is missing or out of range, and ``offset_reset`` is ``"none"``."""

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
    """The new leader's log differs from offset ``end`` on, before the consumer's position:
    committed records were lost, and ``offset_reset`` is ``"none"``. Seek to continue."""

    def __init__(self, where: TopicPartition, offset: int, end: int) -> None:
        super().__init__(where, offset)
        self.end = end
        self.args = (
            f"topic {where.topic!r} partition {where.partition}: its leader's log differs from "
            f"offset {end} on, and offset {offset} was reached; offset_reset is 'none'",
        )


class RangeLost(ClientError):
    """A bounded read cannot reach its end.

    An unclean election lost records of the range, or the topic was deleted (and possibly
    recreated). ``offset`` is the read's position and ``stop`` its end. ``end`` is how far the
    present log reaches, or agrees with the log that was read; None if there is no log."""

    def __init__(self, where: TopicPartition, offset: int, stop: int, end: int | None) -> None:
        present = "the topic or partition is not there any more"
        if end is not None:
            present = f"of the log only what is before offset {end} is there now"
        super().__init__(
            f"topic {where.topic!r} partition {where.partition}: offset {offset} was reached of a "
            f"read up to offset {stop}, and {present}; start a new read for the rest"
        )
        self.topic = where.topic
        self.partition = where.partition
        self.offset = offset
        self.stop = stop
        self.end = end

    @property
    def can_retry(self) -> str:
        return "lost records do not come back; a new read ends where the log does"


class CommitFailed(ClientError):
    """Positions were not stored because this consumer is no longer the member that read them.

    The partitions' new owner continues from the previous positions, so it reads these records once
    more. This happens to members without heartbeats for their session timeout, and to members that
    do not poll for ``max_poll_interval_ms``."""

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
    """A record's key or value cannot be deserialized; ``__cause__`` is the deserializer's
    exception.

    The consumer's position stays at the record: seek to ``offset`` + 1 to skip it."""

    def __init__(self, where: TopicPartition, offset: int, what: str, reason: Exception) -> None:
        super().__init__(
            f"topic {where.topic!r} partition {where.partition}: the {what} at offset {offset} "
            f"cannot be deserialized: {type(reason).__name__}: {reason}"
        )
        self.topic = where.topic
        self.partition = where.partition
        self.offset = offset
        self.what = what


def not_running(kind: str, *, is_closed: bool) -> str:
    """The error text for a call of a client that is not running."""
    if is_closed:
        return f"the {kind} is closed"
    return f"the {kind} is not started: use it under 'with' or 'async with', or call start()"


def started_before(kind: str) -> str:
    """The error text for a second start."""
    return f"a {kind} starts once: make another"


class TransactionError(ClientError):
    """An error of a transaction. ``code`` is the broker's error code; NONE if no broker
    answered."""

    def __init__(self, text: str, code: ErrorCode = ErrorCode.NONE) -> None:
        super().__init__(text)
        self.code = code


class TransactionMisuse(TransactionError):
    """The transaction's state does not allow the call; the call changed nothing."""


class AbortRequired(TransactionError):
    """This transaction can no longer be committed: abort it, then begin another."""


class TransactionAborted(TransactionError):
    """The transaction was aborted before this record was sent."""


class TransactionTimedOut(TransactionError):
    """The call did not end in time and continues in the background; its outcome is unknown.

    Only the same call is allowed now, and it reports the outcome. Offsets are part of the
    transaction in any case: a commit waits for them."""

    retriable = True


class ProducerUnusable(TransactionError):
    """The producer cannot continue: close it. Committed transactions stay committed."""


class ProducerFenced(ProducerUnusable):
    """Another producer took over the transactional id, or the coordinator aborted a transaction
    that was open for too long."""
