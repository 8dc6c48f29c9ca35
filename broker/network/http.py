"""A little HTTP for those who watch a broker: GET, one request per connection, nothing else.

The answer is pulled in small portions, one for each turn of the event loop that finds room in the
socket: a long answer delays no other connection and is never in memory as a whole. Requests that
are too long or too slow, and clients that read too slowly, are cut off.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from http import HTTPStatus
from itertools import islice
from typing import TYPE_CHECKING

from ottla.broker.network.acceptor import EXHAUSTED, EXHAUSTED_PAUSE_MS
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.ports import SocketOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.protocol.ports import Address, Clock, Listener, Net, Socket, Timer

logger = logging.getLogger("ottla.network")

REQUEST_BYTES_MAX = 8 * 1024
CONNECTIONS_MAX = 32
EXCHANGE_MS_MAX = 30_000.0
# Lines made in one turn of the loop: about half a millisecond of work.
LINES_PER_TURN = 256
_END_OF_HEAD = b"\r\n\r\n"
_PLAIN = "text/plain; charset=utf-8"


class Page(NamedTuple):
    """What is answered. ``lines`` is walked over while the answer leaves."""

    status: HTTPStatus
    lines: Iterable[str]
    content_type: str = _PLAIN


Respond = Callable[[str], "Page | None"]
"""The page at a path (without its query), None if there is none."""

Prepare = Callable[[str, Callable[[], object]], object]
"""Collects what the page at a path needs, then calls back: the page is asked for after that."""


class HttpServer:
    """``bind`` and ``close`` once each."""

    def __init__(
        self, net: Net, clock: Clock, respond: Respond, prepare: Prepare | None = None
    ) -> None:
        self._net = net
        self._clock = clock
        self._respond = respond
        self._prepare = prepare
        self._listener: Listener | None = None
        self._exchanges: dict[_Exchange, None] = {}
        self._pause: Timer | None = None

    @property
    def connection_count(self) -> int:
        return len(self._exchanges)

    def bind(self, address: Address) -> Address:
        """Listen and serve from now on; the address really taken. Raises OSError."""
        self._listener = self._net.listen(address, SocketOptions())
        self._listener.on_readable(self._accept)
        return self._listener.address

    def close(self) -> None:
        """Stop listening and drop all connections. May be called again."""
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for exchange in list(self._exchanges):
            exchange.close()

    def _accept(self) -> None:
        listener = self._listener
        assert listener is not None
        try:
            socket = listener.accept()
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno in EXHAUSTED:
                # The listener stays readable, and asking again at once would keep the loop busy.
                listener.on_readable(None)
                self._pause = self._clock.call_at(
                    self._clock.now_ms() + EXHAUSTED_PAUSE_MS, self._resume
                )
            return
        if len(self._exchanges) >= CONNECTIONS_MAX:
            socket.close()
            return
        exchange = _Exchange(socket, self._clock, (self._respond, self._prepare), self._forget)
        self._exchanges[exchange] = None

    def _resume(self) -> None:
        self._pause = None
        if self._listener is not None:
            self._listener.on_readable(self._accept)

    def _forget(self, exchange: _Exchange) -> None:
        self._exchanges.pop(exchange, None)


class _Exchange:
    """One connection: a request comes, its answer leaves, and both sides hang up."""

    def __init__(
        self,
        socket: Socket,
        clock: Clock,
        pages: tuple[Respond, Prepare | None],
        on_closed: Callable[[_Exchange], object],
    ) -> None:
        self._socket = socket
        self._respond, self._prepare = pages
        self._on_closed = on_closed
        self._is_closed = False
        self._is_preparing = False
        self._received = bytearray()
        self._buffer = memoryview(bytearray(REQUEST_BYTES_MAX))
        self._unsent = memoryview(b"")
        self._portions: Iterator[bytes] | None = None
        self._timer = clock.call_at(clock.now_ms() + EXCHANGE_MS_MAX, self.close)
        socket.on_readable(self._on_readable)

    def close(self) -> None:
        self._is_closed = True
        self._timer.cancel()
        self._socket.close()
        self._on_closed(self)

    def _on_readable(self) -> None:
        try:
            count = self._socket.recv_into(self._buffer)
        except BlockingIOError:
            return
        except OSError:
            count = 0
        if not count:
            # Finished, or gone: who sent no whole request is owed nothing, who did has it all.
            self.close()
        elif self._portions is None and not self._is_preparing:
            self._received += self._buffer[:count]
            if _END_OF_HEAD not in self._received and len(self._received) <= REQUEST_BYTES_MAX:
                return
            if self._prepare is None:
                self._answer()
            else:
                self._is_preparing = True
                self._prepare(_path_of(self._received), self._answer)

    def _answer(self) -> None:
        if self._is_closed:
            return
        try:
            self._portions = answer_to(bytes(self._received), self._respond)
        except Exception:
            logger.exception("a page could not be made")
            self._portions = answer_to(bytes(self._received), _failed)
        self._socket.on_writable(self._on_writable)

    def _on_writable(self) -> None:
        assert self._portions is not None
        try:
            if not self._unsent:
                self._unsent = memoryview(next(self._portions))
            sent = self._socket.sendmsg((self._unsent,))
        except BlockingIOError:
            return
        except StopIteration:
            self._socket.on_writable(None)
            # With bytes unread, closing would reset the connection, and the reader might lose
            # the answer. It is complete, so the reader closes, or is cut off in the end.
            if self._received.endswith(_END_OF_HEAD):
                self.close()
            return
        except OSError:
            self.close()
            return
        except Exception:
            # Half a page is out: an answer without its end is what tells the reader.
            logger.exception("a page could not be finished")
            self.close()
            return
        self._unsent = self._unsent[sent:]


def _path_of(received: bytearray) -> str:
    """The path of a request, empty if it has none."""
    words = bytes(received).split(b"\r\n", 1)[0].split(b" ")
    return words[1].partition(b"?")[0].decode("latin1") if len(words) == 3 else ""


def answer_to(received: bytes, respond: Respond) -> Iterator[bytes]:
    """The bytes of the answer to what was received, in portions."""
    head, separator, _ = received.partition(_END_OF_HEAD)
    words = head.split(b"\r\n", 1)[0].split(b" ")
    is_request = len(words) == 3 and words[2].startswith(b"HTTP/1.")
    method, target = (words[0], words[1]) if is_request else (b"", b"")
    page: Page | None
    if not separator or len(received) > REQUEST_BYTES_MAX:
        page = _error(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
    elif not is_request:
        page = _error(HTTPStatus.BAD_REQUEST)
    elif method not in (b"GET", b"HEAD"):
        page = _error(HTTPStatus.METHOD_NOT_ALLOWED)
    else:
        path = target.partition(b"?")[0].decode("latin1")
        page = respond(path) or _error(HTTPStatus.NOT_FOUND)
    return _portions(page, has_body=method != b"HEAD")


def _portions(page: Page, *, has_body: bool) -> Iterator[bytes]:
    # In chunks, as its length is not known before the end; an answer that was cut off shows.
    yield (
        f"HTTP/1.1 {page.status} {page.status.phrase}\r\n"
        f"Content-Type: {page.content_type}\r\n"
        "Transfer-Encoding: chunked\r\n"
        "Connection: close\r\n\r\n"
    ).encode()
    if not has_body:
        return
    lines = iter(page.lines)
    while text := "".join(islice(lines, LINES_PER_TURN)).encode():
        yield b"%x\r\n%b\r\n" % (len(text), text)
    yield b"0\r\n\r\n"


def _error(status: HTTPStatus) -> Page:
    return Page(status, (f"{status.phrase}\n",))


def _failed(_path: str) -> Page:
    return _error(HTTPStatus.INTERNAL_SERVER_ERROR)
