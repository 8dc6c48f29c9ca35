"""The requests of a connection: their frames, and which of them wait for an answer. Pure.

Large records are sent without a copy. A broker answers the requests of a connection in order, each
exactly once. An unsolicited answer, or one out of order, means that both sides disagree about the
bytes on the wire, so the connection cannot be used any further (hazard N-08).
"""

from __future__ import annotations

from collections import deque
from functools import lru_cache
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from ottla.protocol.compile import encoder
from ottla.protocol.data_classes import dataclass
from ottla.protocol.errors import RemoteProtocolError
from ottla.protocol.headers import RequestHeader, encode_request_header, response_has_tags
from ottla.protocol.ports import FileRegion

if TYPE_CHECKING:
    from ottla.protocol.ports import Buffer, File
    from ottla.protocol.schema import Records

Waiter = TypeVar("Waiter")

CORRELATION_ID_LAST = 2**31 - 1
LENGTH_BYTES = 4
# In a frame including its length: after the API key and version.
CORRELATION_ID_BYTES = slice(8, 12)
# Below this size, one more piece to send costs more than the copy.
KEPT_BYTES_MIN = 16 * 1024


class FileRecords:
    """Records that a request refers to without copying them. To encoders they look like a file, of
    which only the position is noted."""

    __slots__ = ("records",)

    def __init__(self, records: Buffer) -> None:
        self.records = records

    def pread(self, count: int, position: int) -> bytes:
        """Return the bytes at that position, like ``os.pread``."""
        return bytes(memoryview(self.records)[position : position + count])


def kept(records: Buffer) -> Records:
    """The records field of a request: a reference to the records if a copy would be large.

    They must not change until the request has been answered."""
    if len(records) < KEPT_BYTES_MIN:
        return records
    return FileRegion(cast("File", FileRecords(records)), 0, len(records))


@lru_cache(maxsize=512)
def _opening(api_key: int, api_version: int, client_id: str | None) -> bytes:
    """The length, still 0, and the header, still with correlation id 0."""
    frame = bytearray(LENGTH_BYTES)
    encode_request_header(frame, RequestHeader(api_key, api_version, 0, client_id))
    return bytes(frame)


# A connection sends the same few APIs over and over: the lookup is cached in C.
has_tags = lru_cache(maxsize=512)(response_has_tags)


def encode_request(
    api_key: int, api_version: int, correlation_id: int, client_id: str | None, request: object
) -> list[Buffer]:
    """Encode a whole frame, its length included, as pieces to be sent one after the other.

    A request of type ``bytes`` is encoded already."""
    frame = bytearray(_opening(api_key, api_version, client_id))
    frame[CORRELATION_ID_BYTES] = correlation_id.to_bytes(4)
    if request.__class__ is bytes:
        assert isinstance(request, bytes)
        frame += request
        frame[:LENGTH_BYTES] = (len(frame) - LENGTH_BYTES).to_bytes(LENGTH_BYTES)
        return [frame]
    regions: list[tuple[int, FileRegion]] = []
    encoder(type(request), api_version)(request, frame, regions)
    if not regions:
        frame[:LENGTH_BYTES] = (len(frame) - LENGTH_BYTES).to_bytes(LENGTH_BYTES)
        return [frame]
    size_bytes = len(frame) - LENGTH_BYTES + sum(region.size_bytes for _, region in regions)
    frame[:LENGTH_BYTES] = size_bytes.to_bytes(LENGTH_BYTES)
    view, start = memoryview(frame), 0
    parts: list[Buffer] = []
    for position, region in regions:
        assert isinstance(region.file, FileRecords), "records in a request are in memory"
        parts += (view[start:position], region.file.records)
        start = position
    return [*parts, view[start:]] if start < len(view) else parts


@dataclass(slots=True)
class InFlightRequest(Generic[Waiter]):
    """One request on the wire. ``start_position`` counts the connection's bytes before it.

    Its ``timeout_ms`` restarts with each progress of the connection: a request that waits behind
    others on a slow link is not late before they are."""

    correlation_id: int
    api_key: int
    api_version: int
    made_ms: float
    timeout_ms: float
    start_position: int
    waiter: Waiter


class InFlight(Generic[Waiter]):
    """The queue itself. ``Waiter`` is the owner's type, returned with the answer."""

    __slots__ = ("_waiting", "next_correlation_id")

    def __init__(self) -> None:
        self._waiting: deque[InFlightRequest[Waiter]] = deque()
        # The correlation id of the next request.
        self.next_correlation_id = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, waiting: InFlightRequest[Waiter]) -> None:
        """Add a request that was queued for sending with the next correlation id."""
        assert waiting.correlation_id == self.next_correlation_id
        self._waiting.append(waiting)
        self.pass_number()

    def pass_number(self) -> None:
        """Skip a correlation id, which a request without an answer (Produce with acks=0) uses."""
        last = self.next_correlation_id == CORRELATION_ID_LAST
        self.next_correlation_id = 0 if last else self.next_correlation_id + 1

    def oldest(self) -> InFlightRequest[Waiter] | None:
        return self._waiting[0] if self._waiting else None

    def answered(self, correlation_id: int) -> InFlightRequest[Waiter]:
        """Take out the request that this answer belongs to, which must be the oldest.

        Raises RemoteProtocolError."""
        if not self._waiting:
            raise RemoteProtocolError(f"answer {correlation_id}, to no request")
        oldest = self._waiting[0]
        if oldest.correlation_id != correlation_id:
            raise RemoteProtocolError(
                f"answer {correlation_id} arrived while {oldest.correlation_id} was due"
            )
        return self._waiting.popleft()

    def next_deadline_ms(self, moved_ms: float) -> float | None:
        """The earliest deadline if the last progress was at ``moved_ms``; None without requests. A
        later request may have the earlier deadline."""
        if not self._waiting:
            return None
        return min(max(one.made_ms, moved_ms) + one.timeout_ms for one in self._waiting)

    def overdue(self, now_ms: float, moved_ms: float) -> InFlightRequest[Waiter] | None:
        """The oldest overdue request, if the last progress was at ``moved_ms``."""
        for waiting in self._waiting:
            if max(waiting.made_ms, moved_ms) + waiting.timeout_ms <= now_ms:
                return waiting
        return None

    def drain(self) -> list[InFlightRequest[Waiter]]:
        """Remove and return all, oldest first, after the connection closed."""
        drained = list(self._waiting)
        self._waiting.clear()
        return drained
