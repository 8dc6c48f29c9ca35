"""One connection to one broker: sends requests and receives their answers in order.

Built on the Net and Clock seams with readiness callbacks, so a request costs one future and no
task. Every request ends exactly once: with its answer, or with an error that says whether a byte of
it was sent. A protocol violation, a timeout or a lost socket closes the connection for good; the
pool makes the next one. Also used between brokers.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.protocol.compile import decode
from ottla.protocol.errors import RemoteProtocolError
from ottla.protocol.headers import decode_response_header
from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.api import NO_FEATURES
from ottla.wire.clock import CURRENT
from ottla.wire.errors import (
    AnswerTooLarge,
    ConnectionLost,
    RequestTimedOut,
    TransportError,
    UnsupportedByBroker,
)
from ottla.wire.frames import FrameReader, FrameTooLarge
from ottla.wire.one_way import UnansweredSends
from ottla.wire.receive_buffer import AnswerBuffer
from ottla.wire.requests import InFlight, InFlightRequest, encode_request, has_tags
from ottla.wire.security import not_plaintext

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.protocol.ports import Address, Buffer, Clock, Socket, Timer
    from ottla.wire.api import FinalizedLevels, RequestApi, VersionRange
    from ottla.wire.connection_config import ConnectionConfig

Request = TypeVar("Request")
Response = TypeVar("Response")

# The first half of the length that a TLS alert or handshake looks like.
TLS_BEGINS = (0x1503, 0x1603)

LOGIN_KEYS = frozenset({17, 36})

# One readiness event reads at most this often, so that other connections get their turn.
READS_PER_EVENT_MAX = 8


class ResponseWaiter(NamedTuple):
    """A request's future, and the function that decodes the answer at the requested version."""

    name: str
    timeout_ms: float
    future: asyncio.Future[Any]
    read: Callable[[int, memoryview], object]


class Connection:
    """Made by ``negotiation.connect``. Usable until ``closed``."""

    def __init__(
        self, socket: Socket, clock: Clock, address: Address, config: ConnectionConfig
    ) -> None:
        self.address = address
        self.closed = False
        self.versions: dict[int, VersionRange] = {}
        self.features = NO_FEATURES
        # The negotiated version, by API and our own range of it.
        self._agreed: dict[tuple[int, VersionRange], int] = {}
        self._socket = socket
        self._clock = clock
        self._config = config
        self._frames = FrameReader(config.response_bytes_max)
        self._receiving = AnswerBuffer(socket)
        self._answer_bytes = 0
        self._in_flight: InFlight[ResponseWaiter] = InFlight()
        self._unsent: deque[memoryview] = deque()
        # Byte counts since the connection was made: queued by us, and accepted by the kernel.
        self._queued_position = 0
        self._sent_position = 0
        # The last time that the peer sent bytes or the kernel accepted queued ones.
        self._moved_ms = 0.0
        self._leaving = UnansweredSends(
            clock, config.request_timeout_ms, lambda: self._moved_ms, self.close
        )
        self._timer: Timer | None = None
        self._timer_ms = 0.0
        self._closed_because: str | None = None
        # Whether it closed for a reason that stays: a certificate, or the wrong protocol.
        self.was_refused = False
        self._on_close: list[Callable[[], object]] = []
        # Requests that wait for the end of a login; None if there is none.
        self._held: list[Callable[[], object]] | None = None
        socket.on_readable(self._on_readable)

    @property
    def in_flight_count(self) -> int:
        """The number of unanswered requests."""
        return len(self._in_flight)

    def on_close(self, callback: Callable[[], object]) -> None:
        """Call ``callback`` once when the connection closes; at once if it is closed already."""
        if self.closed:
            callback()
        else:
            self._on_close.append(callback)

    def version_of(self, api: RequestApi[Request, Response]) -> int:
        """The newest version both sides speak. Raises UnsupportedByBroker."""
        ours = api.versions
        version = self._agreed.get((api.key, ours))
        if version is not None:
            return version
        theirs = self.versions.get(api.key)
        if theirs is None:
            raise UnsupportedByBroker(f"the broker at {self.address} does not offer {api.name}")
        version = min(theirs.last, ours.last)
        if version < max(theirs.first, ours.first):
            raise UnsupportedByBroker(
                f"the broker at {self.address} speaks {api.name} {theirs.first} to {theirs.last}, "
                f"this client {ours.first} to {ours.last}"
            )
        self._agreed[api.key, ours] = version
        return version

    def send(
        self,
        api: RequestApi[Request, Response],
        request: Request,
        *,
        timeout_ms: float | None = None,
        version: int | None = None,
    ) -> asyncio.Future[Response]:
        """Send at once; the future ends with the answer or with a TransportError.

        Requests leave, and are answered, in the order of these calls. Cancelling the future does
        not withdraw the request. Raises UnsupportedByBroker."""
        if version is None:
            version = self.version_of(api)
        if timeout_ms is None:
            timeout_ms = self._config.request_timeout_ms
        call = CURRENT.get()
        if call is not None:
            call.address, call.request = self.address, api.name
        return self.ask(api, version, request, timeout_ms)

    def ask(
        self,
        api: RequestApi[Request, Response],
        version: int,
        request: Request | bytes,
        timeout_ms: float,
        read: Callable[[int, memoryview], object] | None = None,
    ) -> asyncio.Future[Response]:
        """As ``send``, but not as a request of the current call; ``read`` decodes the answer, and
        the request may be encoded already."""
        future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        if read is None:
            read = partial(decode, api.response)
        self._submit(api.key, version, request, ResponseWaiter(api.name, timeout_ms, future, read))
        return future

    def send_unanswered(
        self, api: RequestApi[Request, Response], request: Request
    ) -> asyncio.Future[None]:
        """Send a request that has no answer (Produce with acks=0).

        The future ends when the kernel has accepted all of it or the connection is lost; the
        connection closes if nothing moves for one request timeout. Raises ConnectionLost if it is
        lost already."""
        if self._closed_because is not None or self._held is not None:
            reason = self._closed_because or "it logs in again"
            raise ConnectionLost(self.address, reason, was_sent=False)
        number, version = self._in_flight.next_correlation_id, self.version_of(api)
        self._write(encode_request(api.key, version, number, self._config.client_id, request))
        self._in_flight.pass_number()
        if self._unsent:
            return self._leaving.wait(api.name, self._queued_position)
        left: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        left.set_result(None)
        return left

    def adopt(self, versions: dict[int, VersionRange], features: FinalizedLevels) -> None:
        """Use these versions and features from now on, which the broker has reported."""
        self.versions = versions
        self.features = features
        self._agreed.clear()

    def hold(self, *, is_over: bool = False) -> None:
        """Send nothing but a login until that is over, then what was asked for meanwhile."""
        held, self._held = self._held or (), None if is_over else []
        for submit in held:
            submit()

    def close(self, reason: str = "closed by the client") -> None:
        """Fail pending requests, then close the socket. May be called again."""
        if self._closed_because is None:
            self._end(reason, None)

    # Outgoing.

    def _submit(self, api_key: int, version: int, request: object, waiter: ResponseWaiter) -> None:
        if self._closed_because is not None:
            error = ConnectionLost(self.address, self._closed_because, was_sent=False)
            fail(waiter.future, error)
            return
        if self._held is not None and api_key not in LOGIN_KEYS:
            self._held.append(partial(self._submit, api_key, version, request, waiter))
            return
        made_ms, timeout_ms = self._clock.now_ms(), waiter.timeout_ms
        number, position = self._in_flight.next_correlation_id, self._queued_position
        frame = encode_request(api_key, version, number, self._config.client_id, request)
        self._in_flight.add(
            InFlightRequest(number, api_key, version, made_ms, timeout_ms, position, waiter)
        )
        self._write(frame)
        deadline_ms = made_ms + timeout_ms
        if not self.closed and (self._timer is None or deadline_ms < self._timer_ms):
            self._set_timer(deadline_ms)

    def _write(self, parts: list[Buffer]) -> None:
        self._queued_position += sum(map(len, parts))
        if self._unsent:
            self._unsent += map(memoryview, parts)
            return
        try:
            sent = self._socket.sendmsg(parts)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self._end(reason_of(error), None)
            return
        self._sent_position += sent
        if self._sent_position < self._queued_position:
            self._unsent += map(memoryview, parts)
            self._drop_sent(sent)
            self._socket.on_writable(self._on_writable)

    def _on_writable(self) -> None:
        try:
            sent = self._socket.sendmsg(list(self._unsent))
        except BlockingIOError:
            return
        except OSError as error:
            self._end(reason_of(error), None)
            return
        self._moved_ms = self._clock.now_ms()
        self._sent_position += sent
        self._drop_sent(sent)
        self._leaving.left(self._sent_position)
        if not self._unsent:
            self._socket.on_writable(None)

    def _drop_sent(self, count: int) -> None:
        """Remove the first ``count`` bytes from the unsent ones."""
        while self._unsent and count >= len(self._unsent[0]):
            count -= len(self._unsent.popleft())
        if self._unsent:
            self._unsent[0] = self._unsent[0][count:]

    # Incoming.

    def receive_ahead(self) -> None:
        """Prepare for an answer as large as the last one while the application is busy."""
        if self._in_flight and not self.closed:
            self._receiving.ahead(self._frames.left_bytes or self._answer_bytes)

    def _on_readable(self) -> None:
        now_ms = self._clock.now_ms()
        for _ in range(READS_PER_EVENT_MAX):
            window = self._frames.window()
            try:
                count = self._socket.recv_into(window)
            except BlockingIOError:
                return
            except OSError as error:
                self.was_refused = getattr(error, "is_final", False)
                self._end(reason_of(error), None)
                return
            if count == 0:
                self._end("the broker closed it", None)
                return
            self._moved_ms = now_ms
            try:
                for frame in self._frames.received(count):
                    self._on_answer(frame)
                if self._frames.breach is not None:
                    raise self._frames.breach
            except RemoteProtocolError as error:
                # Before version negotiation the peer is more likely no broker at all.
                reason = f"the broker broke the protocol: {error}"
                if isinstance(error, FrameTooLarge) and self.versions:
                    self._fail_oldest(error)
                elif isinstance(error, FrameTooLarge) and error.size_bytes >> 16 in TLS_BEGINS:
                    self.was_refused, reason = True, not_plaintext(self._config.security)
                self._end(reason, None)
            if self.closed or count < len(window):
                return

    def _on_answer(self, frame: memoryview) -> None:
        """Raises RemoteProtocolError, and then the request has failed, too."""
        if self.closed:
            return
        self._answer_bytes = len(frame)
        if len(frame) < 4:
            raise RemoteProtocolError("an answer without a header")
        waiting = self._in_flight.answered(int.from_bytes(frame[:4]))
        waiter, position = waiting.waiter, 4
        try:
            if has_tags(waiting.api_key, waiting.api_version):
                position = 5
                if len(frame) < 5 or frame[4] != 0:
                    header = decode_response_header(frame, waiting.api_key, waiting.api_version)
                    position = header[1]
            answer = waiter.read(waiting.api_version, frame[position:])
        except RemoteProtocolError as error:
            if not waiter.future.done():
                reason = f"its answer to {waiter.name} is malformed: {error}"
                fail(waiter.future, ConnectionLost(self.address, reason, was_sent=True))
            raise
        if not waiter.future.done():
            waiter.future.set_result(answer)

    def _fail_oldest(self, error: FrameTooLarge) -> None:
        """Only the oldest request fails with the size: the large frame is its answer."""
        expected = self._in_flight.oldest()
        if expected is not None and not expected.waiter.future.done():
            name, future = expected.waiter.name, expected.waiter.future
            sizes = error.size_bytes, error.limit_bytes
            fail(future, AnswerTooLarge(self.address, name, *sizes))

    # Ends.

    def _set_timer(self, deadline_ms: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = deadline_ms
        self._timer = self._clock.call_at(deadline_ms, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        overdue = self._in_flight.overdue(self._clock.now_ms(), self._moved_ms)
        if overdue is not None:
            name, timeout_ms = overdue.waiter.name, overdue.waiter.timeout_ms
            self._end(f"no answer to {name} within {timeout_ms:.0f} ms", overdue)
            return
        deadline_ms = self._in_flight.next_deadline_ms(self._moved_ms)
        if deadline_ms is not None:
            self._set_timer(deadline_ms)

    def _end(self, reason: str, overdue: InFlightRequest[ResponseWaiter] | None) -> None:
        assert self._closed_because is None
        self._closed_because = reason
        self.closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._socket.close()
        self._unsent.clear()
        self._leaving.left(self._queued_position)
        for waiting in self._in_flight.drain():
            waiter = waiting.waiter
            if waiter.future.done():
                continue
            was_sent = waiting.start_position < self._sent_position
            error: TransportError
            if waiting is overdue:
                error = RequestTimedOut(
                    self.address, waiter.name, waiter.timeout_ms, was_sent=was_sent
                )
            else:
                error = ConnectionLost(self.address, reason, was_sent=was_sent)
            fail(waiter.future, error)
        callbacks, self._on_close = self._on_close, []
        for callback in callbacks:
            callback()


def fail(future: asyncio.Future[Any], error: TransportError) -> None:
    """Fail the future, and mark its exception as retrieved: its caller may be gone, for example if
    a consumer was closed during a fetch, and asyncio would log it."""
    future.set_exception(error)
    future.exception()


def reason_of(error: OSError) -> str:
    """The operating system's message, without number and address; of TLS the whole sentence."""
    reason = getattr(error, "reason", None)
    if isinstance(reason, str):
        return reason
    if error.errno is not None and error.errno > 0:
        # Event loops put their own text, with the address in it, into ``strerror``.
        return os.strerror(error.errno).lower()
    return (error.strerror or str(error) or type(error).__name__).lower()
