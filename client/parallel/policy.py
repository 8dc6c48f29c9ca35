"""Decides what follows a failed handler, and limits a parallel run."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ottla.protocol.data_classes import dataclass
from ottla.wire.backoff import Backoff
from ottla.wire.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ottla.client.records.consumer_record import ConsumerRecord

    Record = ConsumerRecord[Any, Any]
    # A coroutine function, or a plain function, which runs in a thread.
    RecordHandler = Callable[[Record], Awaitable[object] | object]


class Sends(Protocol):
    """The part of a producer that a dead letter needs."""

    async def send(
        self, topic: str, value: Any = None, key: Any = None, *, headers: Any = ()
    ) -> Awaitable[object]: ...


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Sends failed records to another topic, then continues.

    The record's headers say where it was and why it failed. The run stops if the record cannot be
    sent.

    Args:
        producer: A running producer that accepts what the consumer's records hold: bytes, unless
            the consumer deserializes.
        topic: The name of the dead letter topic, or a function from a record to a name.
    """

    producer: Sends
    topic: str | Callable[[Record], str]

    async def send(self, record: Record, error: Exception, failures: int) -> None:
        """Send one record and wait for its acknowledgement.

        Args:
            record: The failed record.
            error: The handler's exception.
            failures: How many times the handler failed on the record.

        Raises:
            ClientError: The record was not stored.
        """
        topic = self.topic if isinstance(self.topic, str) else self.topic(record)
        said = {
            "topic": record.topic,
            "partition": str(record.partition),
            "offset": str(record.offset),
            "failures": str(failures),
            "error": f"{type(error).__name__}: {error}",
        }
        headers = [
            *record.headers,
            *((f"ottla.dead-letter.{name}", text.encode()) for name, text in said.items()),
        ]
        await (await self.producer.send(topic, record.value, record.key, headers=headers))


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Calls the handler again, after longer and longer waits; later records of the lane wait.

    Args:
        count: How many times to try again (default 5); None without end.
        backoff: The waits (default 100 ms, growing to 10 s).
        then: What follows the last failure: ``"stop"`` (default), ``"skip"`` or a ``DeadLetter``.
    """

    count: int | None = 5
    backoff: Backoff = field(default_factory=lambda: Backoff(100, 10_000))
    then: Literal["stop", "skip"] | DeadLetter = "stop"

    def __post_init__(self) -> None:
        if self.count is not None and self.count < 1:
            raise ValueError(f"count is how often to try again: 1 or more, not {self.count}")


OnError = Literal["stop", "skip", "retry"] | Retry | DeadLetter


def check_on_error(on_error: object) -> None:
    """Raise ValueError, naming the choices, if it is none of them."""
    if not isinstance(on_error, Retry | DeadLetter) and on_error not in ("stop", "skip", "retry"):
        raise ValueError(
            f"on_error is 'stop', 'skip', 'retry', a Retry or a DeadLetter, not {on_error!r}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelLimits:
    """The limits of a parallel run.

    Args:
        window_max: How many records of a partition may be taken beyond the first unfinished one
            (default 1000).
        drain_timeout_ms: How long a revoked partition, and the end of the run, wait for running
            handlers, in milliseconds (default 30000).
    """

    window_max: int = 1_000
    drain_timeout_ms: float = 30_000

    def __post_init__(self) -> None:
        if self.window_max < 1:
            raise ValueError("window_max has to be at least 1")
        if self.drain_timeout_ms < 0:
            raise ValueError("drain_timeout_ms has to be 0 or more")


class HandlerFailed(ClientError):
    """A handler failed on a record and the run stopped. The record counts as unread.

    ``__cause__`` is the handler's exception; ``topic``, ``partition`` and ``offset`` say where the
    record is, and ``failures`` how many times the handler failed on it."""

    def __init__(self, record: Record, failures: int, reason: str) -> None:
        times = "" if failures == 1 else f" {failures} times"
        super().__init__(
            f"topic {record.topic!r} partition {record.partition}: the handler has failed{times} "
            f"on the record at offset {record.offset}: {reason}"
        )
        self.topic = record.topic
        self.partition = record.partition
        self.offset = record.offset
        self.failures = failures


def next_step(
    on_error: OnError, failures: int, chance: float
) -> Literal["stop", "skip"] | DeadLetter | float:
    """What to do after that many failures; a number is the milliseconds until the next attempt."""
    if on_error == "retry":
        on_error = Retry(count=None)
    if not isinstance(on_error, Retry):
        return on_error
    if on_error.count is None or failures <= on_error.count:
        return on_error.backoff.delay_ms(failures, chance)
    return on_error.then
