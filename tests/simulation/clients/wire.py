"""One connection of a simulated client: frames out, answers in, both written down.

Speaks through the Net seam only, and answers are paired with requests by order as well as by
correlation id, so that a slip of either is evidence.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.protocol.compile import decoder, encode
from ottla.protocol.headers import RequestHeader, decode_response_header, encode_request_header
from ottla.protocol.ports import Address, SocketOptions
from ottla.wire.messages import response_of
from tests.simulation.history import Exchange, History

if TYPE_CHECKING:
    from ottla.protocol.apis import ApiKey
    from ottla.protocol.ports import Ports, Socket

OPTIONS = SocketOptions()
RECEIVE_BYTES = 64 * 1024
REQUEST_TIMEOUT_MS = 4_000.0


class Gone(Exception):
    """The connection is no more, or no answer came in time: the outcome is unknown."""


class Pending(NamedTuple):
    """A request that waits for its answer."""

    correlation_id: int
    api_key: ApiKey
    api_version: int
    answer: asyncio.Future[Any]


class Wire:
    """Made by ``open_wire``; closed by the first thing that goes wrong."""

    def __init__(self, ports: Ports, socket: Socket, history: History, name: str) -> None:
        self.closed = False
        self._ports = ports
        self._socket = socket
        self._history = history
        self._name = name
        self._exchange = Exchange(name)
        self._pending: deque[Pending] = deque()
        self._next_id = 0
        self._received = bytearray()
        self._unsent = bytearray()
        self._chunk = memoryview(bytearray(RECEIVE_BYTES))
        history.exchanges.append(self._exchange)
        socket.on_readable(self._on_readable)

    def send(self, message: object, api_key: ApiKey, api_version: int) -> asyncio.Future[Any]:
        """Send now; the future gets the response, or Gone."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self.closed:
            answer.set_exception(Gone("closed"))
            return answer
        correlation_id = self._write(message, api_key, api_version)
        self._exchange.asked.append(correlation_id)
        self._pending.append(Pending(correlation_id, api_key, api_version, answer))
        self._on_writable()
        return answer

    def send_unanswered(self, message: object, api_key: ApiKey, api_version: int) -> None:
        """Produce with acks=0 has no answer."""
        if not self.closed:
            self._write(message, api_key, api_version)
            self._on_writable()

    async def call(self, message: object, api_key: ApiKey, api_version: int) -> Any:
        """Send and wait, with a limit. Raises Gone."""
        return await self.wait(self.send(message, api_key, api_version))

    async def wait(self, answer: asyncio.Future[Any], limit_ms: float = REQUEST_TIMEOUT_MS) -> Any:
        """Wait for one answer; after the limit the connection is closed."""
        clock = self._ports.clock
        timer = clock.call_at(clock.now_ms() + limit_ms, self._give_up)
        try:
            return await answer
        finally:
            timer.cancel()

    def close(self, reason: str = "closed") -> None:
        """Drop the connection; pending calls raise Gone."""
        if self.closed:
            return
        self.closed = True
        self._socket.close()
        for pending in self._pending:
            if not pending.answer.done():
                pending.answer.set_exception(Gone(reason))
                # Not every answer of a pipeline has a waiting caller.
                pending.answer.exception()
        self._pending.clear()

    def hold(self, delay_s: float) -> None:
        """Delay all later data by that much."""
        self._socket.stream_to_hold(True).hold(delay_s)  # type: ignore[attr-defined]

    def _give_up(self) -> None:
        self.close("no answer in time")

    def _write(self, message: object, api_key: ApiKey, api_version: int) -> int:
        self._next_id += 1
        frame = bytearray(4)
        encode_request_header(frame, RequestHeader(api_key, api_version, self._next_id, self._name))
        frame += encode(message, api_version)
        frame[:4] = (len(frame) - 4).to_bytes(4)
        self._unsent += frame
        return self._next_id

    def _on_writable(self) -> None:
        try:
            while self._unsent:
                sent = self._socket.sendmsg([self._unsent])
                del self._unsent[:sent]
        except BlockingIOError:
            self._socket.on_writable(self._on_writable)
            return
        except OSError as error:
            self.close(str(error))
            return
        self._socket.on_writable(None)

    def _on_readable(self) -> None:
        try:
            count = self._socket.recv_into(self._chunk)
        except BlockingIOError:
            return
        except OSError as error:
            self.close(str(error))
            return
        if count == 0:
            self.close("the broker has closed the connection")
            return
        self._received += self._chunk[:count]
        while len(self._received) >= 4 and not self.closed:
            size = int.from_bytes(self._received[:4])
            if len(self._received) < 4 + size:
                return
            frame = bytes(self._received[4 : 4 + size])
            del self._received[: 4 + size]
            self._on_frame(frame)

    def _on_frame(self, frame: bytes) -> None:
        self._exchange.answered.append(int.from_bytes(frame[:4], signed=True))
        if not self._pending:
            self.close("an answer to nothing")
            return
        pending = self._pending.popleft()
        try:
            _, position = decode_response_header(frame, pending.api_key, pending.api_version)
            decode = decoder(response_of(pending.api_key), pending.api_version)
            response, end = decode(frame, position)
            if end != len(frame):
                raise ValueError(f"{len(frame) - end} bytes behind the response")
        except Exception as error:
            what = f"{self._name}: {pending.api_key.name} v{pending.api_version}: {error!r}"
            self._history.surprises.append(what)
            self._pending.appendleft(pending)
            self.close(what)
            return
        if not pending.answer.done():
            pending.answer.set_result(response)


async def open_wire(ports: Ports, address: Address, history: History, name: str) -> Wire:
    """Connect, with a limit. Raises Gone."""
    connecting = asyncio.ensure_future(ports.net.connect(address, OPTIONS))
    clock = ports.clock
    timer = clock.call_at(clock.now_ms() + REQUEST_TIMEOUT_MS, connecting.cancel)
    try:
        socket = await connecting
    except OSError as error:
        raise Gone(str(error)) from error
    except asyncio.CancelledError:
        raise Gone("no connection in time") from None
    finally:
        timer.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            connecting.cancel()
    return Wire(ports, socket, history, name)
