"""Requests, message sets and messages of the low-level consumer. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.errors import RequestRefused

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_SIZE = 1024 * 1024


class OutOfRange(RequestRefused):
    """The offset is outside of the log; the documents' OutOfRangeException."""


class ClassicFetch(NamedTuple):
    """A request of the low-level consumer; the documents' FetchRequest.

    Attributes:
        topic: The topic's name.
        partition: The partition's number.
        offset: The offset of the first message.
        max_size: At most so many bytes, but at least one batch (default 1 MiB).
    """

    topic: str
    partition: int
    offset: int
    max_size: int = MAX_SIZE


class MessageAndOffset(NamedTuple):
    """A message of the low-level consumer.

    Attributes:
        offset: The message's offset.
        message: The message; None for a tombstone.
        key: The key; None if it has none.
        timestamp: The message's time, in milliseconds since 1970.
    """

    offset: int
    message: bytes | None
    key: bytes | None
    timestamp: int

    @property
    def next_offset(self) -> int:
        """The offset to fetch next."""
        return self.offset + 1


class ByteBufferMessageSet:
    """The messages of one fetch, in order. A failed fetch of several raises when it is iterated.

    Attributes:
        size_in_bytes: How many bytes the broker sent.
        high_watermark: The offset after the last message that consumers may read.
        error: Why there are no messages; None if there was no error.
    """

    def __init__(
        self,
        messages: Sequence[MessageAndOffset],
        size_in_bytes: int,
        high_watermark: int,
        error: RequestRefused | None = None,
    ) -> None:
        self._messages = messages
        self.size_in_bytes = size_in_bytes
        self.high_watermark = high_watermark
        self.error = error

    def __iter__(self) -> Iterator[MessageAndOffset]:
        if self.error is not None:
            raise self.error
        return iter(self._messages)

    def __len__(self) -> int:
        return len(self._messages)


class MultiFetchResponse(tuple[ByteBufferMessageSet, ...]):
    """One message set for each request, in the order of the requests."""

    __slots__ = ()


def refused(code: ErrorCode, where: TopicPartition, broker: str) -> RequestRefused:
    """Return the error of one partition."""
    kind = OutOfRange if code is ErrorCode.OFFSET_OUT_OF_RANGE else RequestRefused
    return kind.for_partition(code, where, broker)


def rounds(requests: Sequence[ClassicFetch]) -> list[list[int]]:
    """Split the requests, as indexes, into groups that contain each partition once."""
    made: list[list[int]] = []
    seen: dict[TopicPartition, int] = {}
    for index, request in enumerate(requests):
        where = TopicPartition(request.topic, request.partition)
        turn = seen[where] = seen.get(where, -1) + 1
        if turn == len(made):
            made.append([])
        made[turn].append(index)
    return made
