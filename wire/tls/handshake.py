"""A TLS handshake over a socket, on either side.

One coroutine per handshake; its caller limits its time.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING

from ottla.wire.tls.failures import NOT_TLS, TlsError, as_tls_error, is_tls, spoken
from ottla.wire.tls.session import give_scratch, take_scratch
from ottla.wire.tls.tls_socket import TlsSocket

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ottla.protocol.ports import Socket
    from ottla.wire.tls.session import TlsSession

    # Runs ``session.shake`` somewhere and returns what it returned.
    Step = Callable[[TlsSession], Awaitable[bool]]

# Certificate chains of real authorities have some kilobytes.
HANDSHAKE_BYTES_MAX = 256 * 1024


class NoTls(TlsError):
    """The peer does not speak TLS; ``spoken`` names its protocol, if it is known."""

    def __init__(self, what: str) -> None:
        super().__init__(f"the peer speaks {what or 'no TLS'} on a listener for TLS")
        self.spoken = what


async def step_here(session: TlsSession) -> bool:
    """Compute the next step in this thread."""
    return session.shake()


async def secured(
    socket: Socket, session: TlsSession, server_name: str | None, step: Step = step_here
) -> TlsSocket:
    """The encrypted socket. ``server_name``: where a client connects to; None on the server.

    Raises TlsError, NoTls or OSError; the socket stays open, for the caller to close."""
    is_server = server_name is None
    received = await _receive(socket, session, 0, is_server=is_server) if is_server else 0
    while True:
        try:
            is_done = await step(session)
        except ssl.SSLError as error:
            try:
                await _send(socket, session)  # the alert
            except OSError as broken:
                raise as_tls_error(error, server_name) from broken
            raise as_tls_error(error, server_name) from error
        await _send(socket, session)
        if is_done:
            return TlsSocket(socket, session, server_name)
        received += await _receive(socket, session, received, is_server=is_server)


async def _receive(socket: Socket, session: TlsSession, before: int, *, is_server: bool) -> int:
    """Wait for bytes of the peer and feed them to the session; return how many came."""
    while True:
        await _ready(socket.on_readable)
        scratch = take_scratch()
        try:
            count = socket.recv_into(scratch)
            first = bytes(scratch[: min(count, 4)]) if before == 0 else b""
            session.incoming.write(scratch[:count])
        except (BlockingIOError, InterruptedError):
            continue
        finally:
            give_scratch(scratch)
        if not count:
            raise _end(before, is_server=is_server)
        if before + count > HANDSHAKE_BYTES_MAX:
            raise TlsError("the peer's handshake is too large")
        if first and not is_tls(first):
            if not is_server:
                raise TlsError(NOT_TLS)
            _tell(socket)
            raise NoTls(spoken(first))
        return count


def _end(received_bytes: int, *, is_server: bool) -> TlsError:
    if is_server or received_bytes:
        return TlsError("the peer has closed it during the TLS handshake", is_final=False)
    return TlsError(
        "the broker closed the connection at the beginning of the TLS handshake: if its listener "
        "on this port is not for SSL, use the port of one that is, or set security.protocol to "
        "PLAINTEXT",
        is_final=False,
    )


# A fatal alert, unexpected_message, as TLS 1.2 writes it.
_ALERT = bytes([21, 3, 3, 0, 2, 2, 10])


def _tell(socket: Socket) -> None:
    """Send a TLS alert to a peer that does not speak TLS, so that it reports the mistake."""
    try:
        socket.sendmsg([_ALERT])
    except OSError:
        return


async def _send(socket: Socket, session: TlsSession) -> None:
    rest = memoryview(session.outgoing.read())
    while rest:
        try:
            rest = rest[socket.sendmsg([rest]) :]
        except (BlockingIOError, InterruptedError):
            await _ready(socket.on_writable)


async def _ready(register: Callable[[Callable[[], object] | None], None]) -> None:
    """Wait for one call of a readiness callback."""
    ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def on_ready() -> None:
        if not ready.done():
            ready.set_result(None)

    register(on_ready)
    try:
        await ready
    finally:
        register(None)
